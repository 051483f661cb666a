"""Sources, files and blocks as values. A source is one stream of bytes with offsets of its own: a rank in a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FIRST_ATTEMPT = 1
"""Attempts are counted from here; whoever does not count them means the first."""


class LogKind(StrEnum):
    """Which file a source's lines belong to."""

    APPLICATION = "APPLICATION"
    LAUNCHER = "LAUNCHER"
    OTHER = "OTHER"
    """A file that a client of another contract names."""


@dataclass(frozen=True, slots=True, order=True)
class LogKey:
    """One file of the job."""

    kind: LogKind
    attempt: int
    cycle: int
    name: str = ""
    """Path of a file of kind OTHER."""


@dataclass(frozen=True, slots=True, order=True)
class SourceKey:
    """One source. `incarnation` tells apart spools that begin at 0 again."""

    kind: LogKind
    attempt: int
    cycle: int
    generation: int
    rank: int
    node: str
    incarnation: int
    name: str = ""
    """Path of its file, of kind OTHER."""

    @property
    def log(self) -> LogKey:
        """The file that it goes into. A launcher's log has one file for the whole job."""
        if self.kind is LogKind.LAUNCHER:
            return LogKey(self.kind, 0, 0)
        if self.kind is LogKind.OTHER:
            return LogKey(self.kind, 0, 0, self.name)
        return LogKey(self.kind, max(FIRST_ATTEMPT, self.attempt), self.cycle)


@dataclass(frozen=True, slots=True)
class BlockHead:
    """What a block says of itself, without its text; all in bytes of the source, but `size`, which is the text's."""

    offset: int
    length: int
    size: int
    lines: int
    ends: bool = False
    gap_bytes: int = 0
    gap_lines: int = 0

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class SourceState:
    """How far one source is. `written` is in the file or on its way there, `durable` survives a loss of power."""

    key: SourceKey
    world_size: int = 0
    written: int = 0
    durable: int = 0
    lines: int = 0
    has_ended: bool = False
    end_is_durable: bool = False
    gap_bytes: int = 0
    gap_lines: int = 0


@dataclass(frozen=True, slots=True)
class Follows:
    """The block goes into the file; this is the source afterwards."""

    after: SourceState


@dataclass(frozen=True, slots=True)
class Repeats:
    """All of it is in the file, or on its way there: it came twice."""


@dataclass(frozen=True, slots=True)
class Rewinds:
    """It does not follow on what is there: the sender goes on from `written`."""


Placed = Follows | Repeats | Rewinds


@dataclass(frozen=True, slots=True)
class LogState:
    """One file with its sources."""

    key: LogKey
    sources: tuple[SourceState, ...]
    world_size: int
    missing_ranks: tuple[int, ...]
    is_sealed: bool

    @property
    def gap_bytes(self) -> int:
        """Bytes that senders gave up."""
        return sum(source.gap_bytes for source in self.sources)

    @property
    def gap_lines(self) -> int:
        """Lines that senders gave up."""
        return sum(source.gap_lines for source in self.sources)

    @property
    def lines(self) -> int:
        """Lines in the file."""
        return sum(source.lines for source in self.sources)
