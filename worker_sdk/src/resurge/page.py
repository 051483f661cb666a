"""The shared page: one small file per worker, mapped by the worker and by its launcher.

Decides the layout only. Each fact is one aligned 64-bit little-endian cell at a fixed offset, written whole; nothing
may be concluded from the order in which two cells change. The open phase is larger than a cell: it is kept in two
slots, written in turn, each with a number and a checksum, so that a torn write leaves the older slot readable. All
instants are CLOCK_MONOTONIC in nanoseconds; 0 means "never". Steps are stored plus one, for the same reason.

Never waits, never locks. Effects: the mapped file alone. The launcher makes a fresh page for every worker it starts.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGE_BYTES = 4096
CELL_BYTES = 8
MAGIC = int.from_bytes(b"RESURGE1", "little")
"""The last byte is the version of the layout: another version is another magic, refused by PageError."""
PHASE_NAME_BYTES = 64
NEVER = 0
_MAX_CELL = (1 << 64) - 1
_READ_TRIES = 4


class PageError(Exception):
    """The file is no page of this layout; nothing was changed."""


class Cell(IntEnum):
    """Index of each cell; the byte offset is eight times that. Each group has cache lines of its own."""

    MAGIC = 0
    # written by the launcher
    GENERATION = 1
    LEASE_UNTIL_NS = 2
    FENCED = 3
    SHOULD_STOP = 4
    STOP_HELD = 5
    PROBE_ASKED = 6
    ENDS = 7
    # written by the worker
    PID = 16
    STARTED_NS = 17
    CLOSED_NS = 18
    BEAT_NS = 24
    BEAT_STEP = 25
    BEAT_COUNT = 26
    BEAT_LIMIT_NS = 27
    FIRST_BEAT_LIMIT_NS = 28
    SECTION_DEADLINE_NS = 29
    PROCESS_GROUP_READY_NS = 32
    CHECKPOINT_RESTORED_NS = 33
    CHECKPOINT_RESTORED_STEP = 34
    FIRST_COMMIT_NS = 35
    FIRST_COMMIT_STEP = 36
    COMMIT_NS = 37
    COMMITTED_STEP = 38
    STOP_ASKED_COUNT = 40
    STOP_ASKED_STEP = 41
    STOP_WAITS = 42
    STOP_TOLD_NS = 43
    PROBE_ANSWERED = 44
    STACKS_SIGNAL = 45
    PROBE_ANSWERED_NS = 46


STOP_AT_ONCE = 1
"""In SHOULD_STOP: whatever the step; a border is stored as its step plus one, and stands above it from step 1 on."""

# A phase slot: number, depth, opened, limit, deadline, name, its length; then the checksum of all of them.
_PHASE = struct.Struct(f"<QQQQQ{PHASE_NAME_BYTES}sQ")
_PHASE_CHECK = struct.Struct("<Q")
_PHASE_SLOTS = (64 * CELL_BYTES, 96 * CELL_BYTES)
# Behind them lies the lock of death_lock.py, which this file never touches.


@dataclass(frozen=True, slots=True)
class Phase:
    """The innermost open phase of a worker."""

    name: str
    opened_ns: int
    limit_ns: int
    """Its own limit; 0 for none."""
    deadline_ns: int
    """Earliest end of a limit among all open phases; 0 when none of them has one."""
    depth: int
    """Number of open phases."""


@dataclass(frozen=True, slots=True)
class PageView:
    """What a page said when it was read: facts, each true by itself."""

    pid: int
    started_ns: int
    closed_ns: int
    """When the worker's session was closed; from then on no beat is due."""
    beat_ns: int
    beat_step: int | None
    beat_count: int
    beat_limit_ns: int
    phase: Phase | None
    process_group_ready_ns: int
    checkpoint_restored_ns: int
    checkpoint_restored_step: int | None
    first_commit_ns: int
    first_commit_step: int | None
    commit_ns: int
    committed_step: int | None
    generation: int
    lease_until_ns: int
    fenced: bool
    should_stop: int
    stop_asked_count: int = 0
    """How often the worker has asked whether to stop; 0 for a script that never does."""
    stop_asked_step: int | None = None
    """Its last committed step when it asked last."""
    stop_waits: bool = False
    """It stands at the border that is held, and waits to be told."""
    stop_told_ns: int = 0
    """When it was told to stop; from then on every answer is the same."""
    phase_number: int = 0
    """Rises with every change of the open phase."""
    first_beat_limit_ns: int = 0
    """From its start to its first beat; 0 for no limit."""
    section_deadline_ns: int = 0
    """End of the earliest limit that runs beside that of the beats, as of a monitored section; 0 for none."""
    probe_asked: int = 0
    probe_answered: int | None = None
    """The newest probe that a thread of the interpreter has seen; None where no thread answers any."""
    stacks_signal: int = 0
    """The signal at which the worker writes down the stacks of all its threads; 0 for none."""

    @property
    def moves(self) -> int:
        """Rises whenever the worker says anything: a beat, a phase, a question."""
        return self.beat_count + self.phase_number + self.stop_asked_count

    @property
    def hung_at_ns(self) -> int | None:
        """The instant from which the worker counts as hung; None while no limit applies.

        An open phase with a limit replaces the limit of the beats, and monitored sections run beside it. Beats count
        from the first one: before it only a limit for the first beat applies, where one is set.
        """
        if self.closed_ns:
            return None
        ends = [self._beats_end_ns, self.section_deadline_ns]
        return min((end_ns for end_ns in ends if end_ns), default=None)

    @property
    def _beats_end_ns(self) -> int:
        """End of the limit of the open phase, else of the beats; 0 for none."""
        if self.phase is not None and self.phase.deadline_ns:
            return self.phase.deadline_ns
        if self.beat_ns:
            return self.beat_ns + self.beat_limit_ns if self.beat_limit_ns else NEVER
        return self.started_ns + self.first_beat_limit_ns if self.started_ns and self.first_beat_limit_ns else NEVER


class _Mapping:
    """A mapped page whose magic was checked."""

    def __init__(self, path: str | os.PathLike[str], *, writable: bool) -> None:
        if sys.byteorder != "little":
            raise PageError("the page needs a little-endian machine")
        flags = os.O_RDWR if writable else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes != PAGE_BYTES:
                raise PageError(f"{os.fspath(path)} has {size_bytes} bytes, a page has {PAGE_BYTES}")
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, PAGE_BYTES, access=access)
        finally:
            os.close(descriptor)
        # Native "Q" copies eight bytes at once; an explicit "<Q" of struct would store byte by byte and could tear.
        self._bytes = memoryview(self._map)
        self.cells = self._bytes.cast("Q")
        if self.cells[Cell.MAGIC] != MAGIC:
            found = bytes(self._bytes[:CELL_BYTES])
            self.close()
            raise PageError(f"{os.fspath(path)} starts with {found!r}, a page of this version with b'RESURGE1'")

    def close(self) -> None:
        """Unmap; the object is not usable afterwards."""
        self.cells.release()
        self._bytes.release()
        self._map.close()


class LauncherCells(_Mapping):
    """The launcher's side of a page: it makes the file and writes what the launcher decides."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, writable=True)

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, generation: int) -> LauncherCells:
        """Make a fresh page for a worker of this generation, without a lease; raises FileExistsError, OSError."""
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            first = MAGIC.to_bytes(CELL_BYTES, "little") + generation.to_bytes(CELL_BYTES, "little")
            os.write(descriptor, first.ljust(PAGE_BYTES, b"\0"))
        finally:
            os.close(descriptor)
        return cls(path)

    def set_lease(self, until_ns: int) -> None:
        """The lease of this worker's generation holds until then."""
        self.cells[Cell.LEASE_UNTIL_NS] = max(until_ns, NEVER)

    def set_fenced(self) -> None:
        """The worker's generation is fenced, for good: `resurge.fence()` raises from now on."""
        self.cells[Cell.FENCED] = 1

    def set_ends(self) -> None:
        """The launcher ends the worker's generation after a fault: what its script does is over."""
        self.cells[Cell.ENDS] = 1

    def hold_at(self, step: int) -> None:
        """Whoever asks at this step or later waits until it is told; before it nothing changes."""
        self.cells[Cell.STOP_HELD] = step + 1

    def stop_at(self, step: int) -> None:
        """Whoever asks at this step or later is told to stop; 0: whoever asks at all."""
        self.cells[Cell.SHOULD_STOP] = step + 1


class PageReader(_Mapping):
    """Reads a page; what the launcher looks at to know how its worker is."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, writable=False)

    def read(self) -> PageView:
        """All facts of the page now."""
        cells = self.cells
        phase_number, phase = self._phase()
        return PageView(
            pid=cells[Cell.PID],
            started_ns=cells[Cell.STARTED_NS],
            closed_ns=cells[Cell.CLOSED_NS],
            beat_ns=cells[Cell.BEAT_NS],
            beat_step=_step(cells[Cell.BEAT_STEP]),
            beat_count=cells[Cell.BEAT_COUNT],
            beat_limit_ns=cells[Cell.BEAT_LIMIT_NS],
            phase=phase,
            process_group_ready_ns=cells[Cell.PROCESS_GROUP_READY_NS],
            checkpoint_restored_ns=cells[Cell.CHECKPOINT_RESTORED_NS],
            checkpoint_restored_step=_step(cells[Cell.CHECKPOINT_RESTORED_STEP]),
            first_commit_ns=cells[Cell.FIRST_COMMIT_NS],
            first_commit_step=_step(cells[Cell.FIRST_COMMIT_STEP]),
            commit_ns=cells[Cell.COMMIT_NS],
            committed_step=_step(cells[Cell.COMMITTED_STEP]),
            generation=cells[Cell.GENERATION],
            lease_until_ns=cells[Cell.LEASE_UNTIL_NS],
            fenced=bool(cells[Cell.FENCED]),
            should_stop=cells[Cell.SHOULD_STOP],
            stop_asked_count=cells[Cell.STOP_ASKED_COUNT],
            stop_asked_step=_step(cells[Cell.STOP_ASKED_STEP]),
            stop_waits=bool(cells[Cell.STOP_WAITS]),
            stop_told_ns=cells[Cell.STOP_TOLD_NS],
            phase_number=phase_number,
            first_beat_limit_ns=cells[Cell.FIRST_BEAT_LIMIT_NS],
            section_deadline_ns=cells[Cell.SECTION_DEADLINE_NS],
            probe_asked=cells[Cell.PROBE_ASKED],
            probe_answered=_step(cells[Cell.PROBE_ANSWERED]),
            stacks_signal=cells[Cell.STACKS_SIGNAL],
        )

    def _phase(self) -> tuple[int, Phase | None]:
        """The newest whole record. Both torn at once means two writes during one look: look again, a bounded number."""
        for _ in range(_READ_TRIES):
            whole = [record for offset in _PHASE_SLOTS if (record := self._phase_slot(offset)) is not None]
            if whole:
                number, phase = max(whole, key=lambda record: record[0])
                return number, phase if phase.depth else None
        return 0, None

    def _phase_slot(self, offset: int) -> tuple[int, Phase] | None:
        raw = bytes(self._bytes[offset : offset + _PHASE.size + _PHASE_CHECK.size])
        record, check = raw[: _PHASE.size], _PHASE_CHECK.unpack(raw[_PHASE.size :])[0]
        if zlib.crc32(record) != check:
            return None
        number, depth, opened_ns, limit_ns, deadline_ns, name, name_bytes = _PHASE.unpack(record)
        text = name[: min(name_bytes, PHASE_NAME_BYTES)].decode("utf-8", "replace")
        return number, Phase(text, opened_ns, limit_ns, deadline_ns, depth)


class PageWriter(_Mapping):
    """The worker's side of a page. One thread writes phases; the cells may be written by any."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, writable=True)
        self._phase_number = 0

    def attached(self, pid: int, now_ns: int) -> None:
        """The worker's SDK has taken hold of its page."""
        self.cells[Cell.PID] = pid
        self.cells[Cell.STARTED_NS] = now_ns

    def closed(self, now_ns: int) -> None:
        """The session is over: no beat is due any more. 0 opens it anew."""
        self.cells[Cell.CLOSED_NS] = now_ns

    def set_first_beat_limit(self, limit_ns: int) -> None:
        """A first beat later than this after the start means that the worker hangs; 0 for no limit."""
        self.cells[Cell.FIRST_BEAT_LIMIT_NS] = cell_value(limit_ns)

    def set_stacks_signal(self, number: int) -> None:
        """The signal at which this worker writes its stacks down; 0 for none."""
        self.cells[Cell.STACKS_SIGNAL] = number

    def set_section_deadline(self, deadline_ns: int) -> None:
        """When the earliest limit beside the beats' ends; 0 for none."""
        self.cells[Cell.SECTION_DEADLINE_NS] = cell_value(deadline_ns)

    def set_beat_limit(self, limit_ns: int) -> None:
        """Beats further apart than this mean that the worker hangs; 0 for no limit."""
        self.cells[Cell.BEAT_LIMIT_NS] = cell_value(limit_ns)

    def process_group_ready(self, now_ns: int) -> None:
        """The process group works."""
        self.cells[Cell.PROCESS_GROUP_READY_NS] = now_ns

    def checkpoint_restored(self, step: int, now_ns: int) -> None:
        """The state of training is that of this step."""
        self.cells[Cell.CHECKPOINT_RESTORED_STEP] = step + 1
        self.cells[Cell.CHECKPOINT_RESTORED_NS] = now_ns

    def first_committed(self, step: int, now_ns: int) -> None:
        """The first optimizer step of this worker is done."""
        self.cells[Cell.FIRST_COMMIT_STEP] = step + 1
        self.cells[Cell.FIRST_COMMIT_NS] = now_ns

    def write_phase(self, phase: Phase) -> None:
        """Replace the record of the open phase; depth 0 says that none is open."""
        self._phase_number = number = self._phase_number + 1
        name = clipped_utf8(phase.name, PHASE_NAME_BYTES)
        record = _PHASE.pack(
            number,
            phase.depth,
            phase.opened_ns,
            cell_value(phase.limit_ns),
            cell_value(phase.deadline_ns),
            name,
            len(name),
        )
        record += _PHASE_CHECK.pack(zlib.crc32(record))
        offset = _PHASE_SLOTS[number % len(_PHASE_SLOTS)]
        end = offset + len(record)
        # a signal's handler may have come in between with a newer record; from here on none can
        if number == self._phase_number:
            self._bytes[offset:end] = record


def cell_value(number: int) -> int:
    """The number as a cell can hold it."""
    return min(max(number, 0), _MAX_CELL)


def clipped_utf8(text: str, limit_bytes: int) -> bytes:
    """The longest beginning of the text that has whole characters and fits."""
    raw = text.encode("utf-8", "replace")[:limit_bytes]
    return raw.decode("utf-8", "ignore").encode("utf-8")


def earliest_deadline_ns(phases: Sequence[Phase]) -> int:
    """Earliest end of a limit among the phases; 0 when none has one."""
    return min((phase.opened_ns + phase.limit_ns for phase in phases if phase.limit_ns), default=NEVER)


def page_path(directory: str | os.PathLike[str], rank: int) -> Path:
    """Where the launcher keeps the page of a rank within the directory of one generation."""
    # here, not above: a worker has no use for it, and pays for its import at every start
    from pathlib import Path

    return Path(directory) / f"rank-{rank}.page"


def stacks_path(page: str) -> str:
    """Where the worker with this page writes its stacks: beside the page, in memory."""
    return page.removesuffix(".page") + ".stacks"


def _step(stored: int) -> int | None:
    return stored - 1 if stored else None
