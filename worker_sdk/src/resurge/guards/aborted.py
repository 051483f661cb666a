"""The errors of an abort, and how they are told from others after a call between processes has left only their text.

Each error carries a token in its text: a transport that flattens exceptions to text keeps it. Decides nothing else;
no effects.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

ABORTED_TOKEN = "[collective-aborted]"
CONTEXT_LOST_TOKEN = "[device-context-lost]"
REFIT_ABORTED_TOKEN = "[refit-aborted]"
REFIT_CONTEXT_LOST_TOKEN = "[refit-context-lost]"


class CollectiveAborted(RuntimeError):
    """A guard's deadline passed and its groups were aborted; what the guarded block had received is partial."""

    token: ClassVar[str] = ABORTED_TOKEN

    def __init__(self, *args: Any) -> None:
        # Pickle replays the arguments, and errors are built anew from other errors' text: one token, not two.
        if args and isinstance(args[0], str) and self.token not in args[0]:
            args = (f"{self.token} {args[0]}", *args[1:])
        super().__init__(*args)

    @classmethod
    def context_lost(cls, text: str) -> CollectiveAborted:
        """The error that says that the device's context is not to be had back in this process."""
        return DeviceContextLost(f"{CONTEXT_LOST_TOKEN} {text}")


class DeviceContextLost(CollectiveAborted):
    """Queued work never drains: rebuilding in this process is no use, end it."""


class RefitAborted(CollectiveAborted):
    """A refit was aborted; its token is the one that refit controllers look for."""

    token: ClassVar[str] = REFIT_ABORTED_TOKEN

    @classmethod
    def context_lost(cls, text: str) -> Self:
        """The same error with the context-lost token as well."""
        return cls(f"{REFIT_CONTEXT_LOST_TOKEN} {text}")


def is_aborted(error: BaseException) -> bool:
    """Whether this is an abort, also when only its text came through."""
    return isinstance(error, CollectiveAborted) or _has(error, ABORTED_TOKEN, REFIT_ABORTED_TOKEN)


def is_context_lost(error: BaseException) -> bool:
    """Whether the device's context is lost, also when only the text came through."""
    return isinstance(error, DeviceContextLost) or _has(error, CONTEXT_LOST_TOKEN, REFIT_CONTEXT_LOST_TOKEN)


def is_refit_abort(error: BaseException) -> bool:
    """Whether this is the abort of a refit, also when only its text came through; never for another error."""
    return isinstance(error, RefitAborted) or _has(error, REFIT_ABORTED_TOKEN)


def is_refit_context_lost(error: BaseException) -> bool:
    """Whether a refit lost the device's context: end the run instead of rebuilding."""
    return _has(error, REFIT_CONTEXT_LOST_TOKEN)


def _has(error: BaseException, *tokens: str) -> bool:
    try:
        text = str(error)
    except Exception:  # task root: an error that cannot be printed has no token in its text
        return False
    return any(token in text for token in tokens)
