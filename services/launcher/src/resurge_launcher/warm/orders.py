"""What launcher and fork server say to each other: values and their form on the wire. Standard library only.

An order travels in a memory file, for environments have no size limit that a datagram could promise. Every number of
descriptors is fixed by the order's own text. Decides nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MESSAGE_BYTES = 64 * 1024
FDS_PER_MESSAGE = 250
"""The kernel passes 253 descriptors at once."""
GO = b"go"
WORKERS, STORE = b"workers", b"store"
"""What an order is for; its descriptors follow from that."""
SCRIPT, MODULE = "script", "module"


@dataclass(frozen=True, slots=True)
class Order:
    """Workers to be started alike, but for their environments. Everything that an exec'd child inherits is in it."""

    launcher_pid: int
    environments: Sequence[Mapping[str, str]]
    umask: int
    ignored_signals: Sequence[int] = ()
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Resource limits by the number that the kernel knows them by: soft, hard."""
    cpus: Sequence[int] = ()
    nice: int = 0

    def to_memory_file(self) -> int:
        """A descriptor that holds the order; the caller closes it."""
        descriptor = os.memfd_create("resurge-order", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(json.dumps(asdict(self)).encode())
        return descriptor

    @classmethod
    def from_memory_file(cls, descriptor: int) -> Order:
        """The order that a descriptor holds."""
        size = os.fstat(descriptor).st_size
        found = json.loads(os.pread(descriptor, size, 0))
        limits = {name: (soft, hard) for name, (soft, hard) in found.pop("limits").items()}
        return cls(limits=limits, **found)


@dataclass(frozen=True, slots=True)
class Preloaded:
    """One module the server imported, or could not."""

    name: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """The server's imports are done and it may be forked."""

    modules: tuple[Preloaded, ...]


@dataclass(frozen=True, slots=True)
class Unfit:
    """The server's process must not be forked; nothing will change that."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Born:
    """An order's processes, in its sequence; their pidfds travel with the message. They wait for the word to go."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An order was not carried out; whatever was forked is over."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Ack:
    """One worker is the launcher's own child and as it should be, or says why it is not."""

    pid: int
    sentence: str = ""


Message = Ready | Unfit | Born | Refused | Ack
_KINDS: Mapping[str, type[Message]] = {kind.__name__: kind for kind in (Ready, Unfit, Born, Refused, Ack)}


def encoded(message: Message) -> bytes:
    """One message as one datagram; sentences are cut so that it fits."""
    found = asdict(message)
    if "sentence" in found:
        found["sentence"] = found["sentence"][:4000]
    return json.dumps({"kind": type(message).__name__, **found}).encode()


def decoded(data: bytes) -> Message:
    """The message of a datagram. Raises ValueError for anything else."""
    try:
        found: dict[str, Any] = json.loads(data)
        kind = _KINDS[found.pop("kind")]
        if kind is Ready:
            return Ready(tuple(Preloaded(**module) for module in found["modules"]))
        if kind is Born:
            return Born(tuple(int(pid) for pid in found["pids"]))
        return kind(**found)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a message of the fork server: {data[:200]!r}") from error
