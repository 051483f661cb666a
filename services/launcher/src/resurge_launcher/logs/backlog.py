"""What is to be sent of each source in a spool, in which order, and what is given up when the spool is full.

Reads spool files and makes blocks of them. Knows nothing of where they go.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_launcher.logs.shaping import LINE_MAX, Shaped, gap_line, prefix_of, shape
from resurge_launcher.logs.spool import PUNCH_BYTES, Gone, SpoolNote

BLOCK_BYTES = 256 * 1024
GIVE_UP_BYTES = 8 * 1024 * 1024
"""So much is given up of one source at a time."""
OPEN_MAX = 128
"""Spool files that are open at once: a job of many cycles may leave thousands that wait."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One block to be sent."""

    note: SpoolNote
    offset: int
    length: int
    text: bytes
    lines: int
    ends: bool = False
    gap_bytes: int = 0
    gap_lines: int = 0


@dataclass(slots=True)
class Source:
    """One spool file as the sender knows it."""

    note: SpoolNote
    path: Path
    prefix: bytes
    next: int | None = None
    """From where to go on; None until whoever takes the blocks has said."""
    durable: int = 0
    punched: int = 0
    size: int = 0
    has_ended: bool = False
    """No process writes it any more."""
    end_sent: bool = False
    goes_on: bool = False
    gone: list[Gone] = field(default_factory=list)
    """What was given up, in order; parts that touch are one."""

    @property
    def waiting(self) -> int:
        """Bytes that were not sent yet."""
        return self.size - (self.next or 0)


@dataclass(frozen=True, slots=True)
class SpoolRules:
    """How much of this node's disk the spool may take."""

    limit_bytes: int = 10 * 1024**3
    reserve_bytes: int = 512 * 1024**2
    """Kept free for the workers on the file system of the spool, or a tenth of it where that is less."""


@dataclass(slots=True)
class Backlog:
    """All sources of one spool."""

    folder: Path
    rules: SpoolRules = field(default_factory=SpoolRules)
    sources: dict[str, Source] = field(default_factory=dict)
    gap_bytes: int = 0
    gap_lines: int = 0
    _is_tight: bool = False
    _left: dict[str, SpoolNote] = field(default_factory=dict)
    """Durable elsewhere, and could not be removed yet."""
    _opened: dict[str, int] = field(default_factory=dict)
    """Descriptors by source, the one used last at the end."""

    def scan(self) -> None:
        """Look what is new in the spool. Cheap: a folder listing, and one stat for each source."""
        names = set(os.listdir(self.folder)) if self.folder.is_dir() else set()
        for name in names:
            stem = name.removesuffix(spool.NOTE)
            if name.endswith(spool.NOTE) and stem not in self.sources and stem not in self._left:
                self._take_up(stem)
        self._remove_left()
        for stem, source in list(self.sources.items()):
            # the end first: what was written before it is then in the size
            source.has_ended = source.has_ended or stem + spool.END in names
            try:
                source.size = os.stat(source.path).st_size
            except FileNotFoundError:  # taken away by hand: there is nothing to send any more
                self._drop(stem, source)

    def _take_up(self, stem: str) -> None:
        note, path = spool.read_note(self.folder, stem), self.folder / (stem + spool.OUT)
        if note is not None and path.exists():
            prefix = b"" if note.is_launcher else prefix_of(note.rank, note.world_size)
            self.sources[stem] = Source(note, path, prefix, gone=spool.read_gone(self.folder, note))

    def _descriptor(self, source: Source) -> int:
        """Of its file; the one not used for longest is closed where too many are open. Raises OSError."""
        name = source.note.name
        descriptor = self._opened.pop(name, None)
        if descriptor is None:
            while len(self._opened) >= OPEN_MAX:
                os.close(self._opened.pop(next(iter(self._opened))))
            descriptor = os.open(source.path, os.O_RDWR | os.O_CLOEXEC)
        self._opened[name] = descriptor
        return descriptor

    def _drop(self, name: str, source: Source) -> None:
        self._shut(name)
        del self.sources[name]
        self._left[name] = source.note
        self._remove_left()

    def _remove_left(self) -> None:
        """As on a disk that is read-only for now."""
        for name, note in list(self._left.items()):
            with contextlib.suppress(OSError):
                spool.remove(self.folder, note)
                del self._left[name]

    def _shut(self, name: str) -> None:
        descriptor = self._opened.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def pieces(self, limit_bytes: int) -> Iterator[Piece]:
        """Blocks that can be sent now, up to so many bytes: first of workers that have ended, in them by cycle."""
        left = limit_bytes
        for source in self._in_order():
            while left > 0 and (piece := self._piece(source, min(left, BLOCK_BYTES))) is not None:
                left -= max(1, len(piece.text))
                yield piece

    @property
    def waiting(self) -> int:
        """Bytes that can be sent now."""
        return sum(source.waiting for source in self.sources.values() if source.next is not None)

    @property
    def has_last_words(self) -> bool:
        """Whether something can be sent now of a source that nobody writes any more."""
        return any(one.has_ended and not one.end_sent for one in self.sources.values() if one.next is not None)

    def has_all_but_a_beginning(self, source: Source) -> bool:
        """Whether all whole lines of one that is still written are durable: its last line has no end yet."""
        if source.has_ended or source.durable >= source.size:
            return not source.has_ended
        return source.next == source.durable and not self._shaped(source, source.durable, BLOCK_BYTES).taken

    def _in_order(self) -> list[Source]:
        return sorted(
            (source for source in self.sources.values() if source.next is not None),
            key=lambda s: (not s.has_ended, s.note.attempt, s.note.cycle, s.note.rank),
        )

    def _piece(self, source: Source, limit_bytes: int) -> Piece | None:
        assert source.next is not None
        if source.end_sent or (not source.waiting and not source.has_ended):
            return None
        offset = source.next
        gap = next((part for part in source.gone if part.start <= offset < part.end), None)
        start = offset if gap is None else gap.end
        shaped = self._shaped(source, start, limit_bytes)
        ends = source.has_ended and start + shaped.taken >= source.size
        if not shaped.taken and gap is None and not ends:
            return None
        text, lines, lost_bytes, lost_lines = shaped.text, shaped.lines, start - offset, 0
        if gap is not None:
            lost_lines = gap.lines
            text, lines = gap_line(source.prefix, lost_bytes, lost_lines, gap.why) + text, lines + 1
        length = lost_bytes + shaped.taken
        source.next, source.goes_on, source.end_sent = offset + length, shaped.is_broken, ends
        return Piece(source.note, offset, length, text, lines, ends, lost_bytes, lost_lines)

    def _shaped(self, source: Source, start: int, limit_bytes: int) -> Shaped:
        """Whole lines from `start` on, up to what was given up next; a long line makes the part longer."""
        gone_from = next((part.start for part in source.gone if part.start >= start), None)
        end = source.size if gone_from is None else min(source.size, gone_from)
        size = limit_bytes
        while True:
            raw = os.pread(self._descriptor(source), min(size, end - start), start)
            at_end = start + len(raw) >= end and (source.has_ended or gone_from is not None)
            shaped = shape(raw, source.prefix, at_end and len(raw) <= LINE_MAX, source.goes_on)
            if shaped.taken or len(raw) < size or size > LINE_MAX:
                return shaped
            size = min(size * 8, LINE_MAX + 4)

    # --- what became of them ---

    def go_on_from(self, name: str, offset: int) -> None:
        """Whoever takes the blocks wants this source from here on."""
        source = self.sources.get(name)
        if source is None:
            return
        source.next, source.end_sent, source.goes_on = offset, False, False

    def forget_progress(self) -> None:
        """The way to whoever takes the blocks is broken: wait to hear from where to go on."""
        for source in self.sources.values():
            source.next = None

    def durable(self, name: str, offset: int, ended: bool) -> None:
        """All bytes before `offset` are durable elsewhere: give their room back. Raises OSError."""
        source = self.sources.get(name)
        if source is None:
            return
        source.durable = max(source.durable, offset)
        if ended:
            self._drop(name, source)
        elif source.durable - source.punched >= PUNCH_BYTES:
            upto = source.durable - source.durable % PUNCH_BYTES
            with contextlib.suppress(OSError):  # a file system without holes keeps the room until the source's end
                spool.punch(self._descriptor(source), source.punched, upto)
            source.punched = upto

    def punched_upto(self, name: str) -> int:
        """Before this offset a source's bytes are no more, as they were durable elsewhere: a hole at its beginning."""
        source = self.sources.get(name)
        if source is None:
            return 0
        try:
            found = os.lseek(self._descriptor(source), 0, os.SEEK_DATA)
        except OSError as error:  # no data at all, or a file system that does not tell
            found = source.size if error.errno == errno.ENXIO else 0
        gone = next((part.start for part in source.gone), found)
        return max(source.punched, min(found, gone))

    # --- room ---

    @property
    def held_bytes(self) -> int:
        """What the spool holds that is not durable elsewhere."""
        return sum(source.size - source.durable for source in self.sources.values())

    def make_room(self) -> bool:
        """Give up the oldest of the longest backlog while the spool is over its limit, or its disk nearly full.

        Whether there is so little room left that it has to be looked at often. Raises OSError.
        """
        while (why := self._too_much()) and (source := self._longest()) is not None:
            self._give_up(source, why)
        return self._is_tight

    def _too_much(self) -> str:
        held = sum(self._could_go(source) for source in self.sources.values())
        self._is_tight = held > self.rules.limit_bytes // 2
        if held > self.rules.limit_bytes:
            return f"the spool held {held} bytes, {self.rules.limit_bytes} are allowed"
        room = os.statvfs(self.folder)
        free, total = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
        reserve = min(self.rules.reserve_bytes, total // 10)
        self._is_tight = self._is_tight or free < 4 * reserve
        if held and free < reserve:
            return f"the spool's disk had {free} bytes left, {reserve} are kept for the workers"
        return ""

    def _longest(self) -> Source | None:
        longest = max(self.sources.values(), key=self._could_go, default=None)
        return longest if longest is not None and self._could_go(longest) > 0 else None

    def _could_go(self, source: Source) -> int:
        return source.size - self._kept_from(source)

    def _kept_from(self, source: Source) -> int:
        """From here on a source holds what could be given up: not what was sent and may yet be acknowledged."""
        at = max(source.durable, source.next or source.durable)
        return next((part.end for part in source.gone if part.start <= at < part.end), at)

    def _give_up(self, source: Source, why: str) -> None:
        start = self._kept_from(source)
        raw = os.pread(self._descriptor(source), min(GIVE_UP_BYTES, source.size - start), start)
        cut = raw.rfind(b"\n") + 1 or len(raw)
        part = Gone(start, start + cut, raw.count(b"\n", 0, cut), why)
        before = source.gone[-1] if source.gone else None
        if before is not None and before.end == start:
            part = Gone(before.start, part.end, before.lines + part.lines, why)
            source.gone.pop()
        source.gone.append(part)
        self.gap_bytes += cut
        self.gap_lines += raw.count(b"\n", 0, cut)
        with contextlib.suppress(OSError):  # on a full disk the note may not fit before the room is made
            spool.write_gone(self.folder, source.note, source.gone)
        with contextlib.suppress(OSError):
            spool.punch(self._descriptor(source), start, start + cut)

    def close(self) -> None:
        """Leave the spool as it is."""
        for name in list(self._opened):
            self._shut(name)
        self.sources.clear()
