"""What a guard can abort, and a group that keeps the rules which make an abort safe.

Decides that an aborted group is never used or made again: a fresh one on a fresh prefix takes its place. Teardown is
`abort`, never a collective destroy, which waits for the dead. Effects: those of the communicator's own functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, runtime_checkable

from resurge.guards.aborted import CollectiveAborted

Communicator = TypeVar("Communicator")
R = TypeVar("R")


@runtime_checkable
class Abortable(Protocol):
    """Whatever a guard is to release: `abort` is called from another thread, once per guard, at any time."""

    def abort(self) -> object:
        """Break what is blocked; idempotent, and harmless on a group that was never made."""


class AbortableGroup(Generic[Communicator]):
    """A communicator that may be aborted from any thread while others use it.

    `open_` makes the communicator from a rendezvous store; `break_` aborts it. Both come from the transport.
    """

    def __init__(
        self,
        open_: Callable[[object], Communicator],
        break_: Callable[[Communicator], object],
        error_type: type[CollectiveAborted] = CollectiveAborted,
        name: str = "group",
    ) -> None:
        self._open = open_
        self._break = break_
        self._error_type = error_type
        self._name = name
        self._lock = threading.Lock()
        self._communicator: Communicator | None = None
        self._store: object | None = None
        self._aborted = False

    @property
    def aborted(self) -> bool:
        """Whether it was aborted, for good."""
        return self._aborted

    @property
    def initialized(self) -> bool:
        """Whether there is a communicator to use."""
        return self._communicator is not None

    def init(self, store: object) -> None:
        """Make the communicator; refused, by the abort's error, once the group was aborted."""
        self._refuse_if_aborted("made again")
        communicator = self._open(store)
        with self._lock:
            if not self._aborted:
                self._communicator, self._store = communicator, store
                return
        self._break(communicator)
        self._refuse_if_aborted("used")

    def run(self, operation: Callable[[Communicator], R]) -> R:
        """Do this with the communicator; raises the abort's error when it was aborted, RuntimeError when never made."""
        # read once: an abort on another thread takes it away between a check and its use
        communicator = self._communicator
        if communicator is None:
            self._refuse_if_aborted("used")
            raise RuntimeError(f"{self._name} was never initialized: call init(store) first")
        return operation(communicator)

    def abort(self) -> None:
        """Take the communicator away, forget the store, then break it; a second call does nothing."""
        with self._lock:
            communicator, self._communicator = self._communicator, None
            self._store = None
            self._aborted = True
        if communicator is not None:
            self._break(communicator)

    def _refuse_if_aborted(self, wish: str) -> None:
        if self._aborted:
            raise self._error_type(
                f"{self._name} was aborted and cannot be {wish}: make a fresh group on a fresh port or prefix"
            )
