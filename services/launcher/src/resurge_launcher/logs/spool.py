"""The spool of one node: a file per worker and cycle that the worker itself writes, and a note of what it is.

The worker appends to the file with its own write(2), so nothing is in a pipe when it or its launcher is killed. Beside
`<name>.out` lie `<name>.json`, which says whose it is, `<name>.gone`, which parts were given up, and in the end
`<name>.end`: no process writes any more. What is durable elsewhere is punched out of the file; a source that is durable
to its end is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

OUT, NOTE, END, GONE = ".out", ".json", ".end", ".gone"
CLOSING = "closing"
"""In the spool: no worker is started any more, so a sender that has sent all ends."""
LOCK_NAME = "shipper.lock"
"""In the spool: who holds its lock sends it."""
PUNCH_BYTES = 1024 * 1024
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class SpoolNote:
    """Whose output a spool file holds."""

    job: str
    node: str
    attempt: int
    generation: int
    cycle: int
    rank: int
    world_size: int
    incarnation: int
    is_launcher: bool = False
    """What the launcher itself logs; generation, cycle and rank are 0."""

    @property
    def order(self) -> tuple[int, int, int, int]:
        """The oldest cycle first."""
        return self.attempt, self.cycle, self.generation, self.rank

    @property
    def name(self) -> str:
        """Its file's name, without an ending."""
        if self.is_launcher:
            return f"launcher-i{self.incarnation}"
        return f"a{self.attempt}-c{self.cycle}-g{self.generation}-r{self.rank}-i{self.incarnation}"


def open_for_worker(spool: Path, note: SpoolNote) -> int:
    """A descriptor that the worker writes to, as stdout and stderr. Raises OSError."""
    spool.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(spool / (note.name + OUT), flags, 0o600)
    try:
        write_whole(spool / (note.name + NOTE), json.dumps(asdict(note)))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def end(spool: Path, note: SpoolNote) -> None:
    """No process writes this source any more. Raises OSError."""
    path = spool / (note.name + END)
    path.touch(mode=0o600)
    if not is_there(spool, note):  # a sender has removed it meanwhile
        path.unlink(missing_ok=True)


def is_there(spool: Path, note: SpoolNote) -> bool:
    """Whether something of it may not be durable elsewhere."""
    return (spool / (note.name + NOTE)).exists()


def end_generation(spool: Path, upto: int) -> None:
    """No process of these generations writes any more. Raises OSError."""
    for note in notes(spool):
        if note.generation <= upto and not note.is_launcher and not has_ended(spool, note):
            end(spool, note)


def end_unwritten(spool: Path) -> None:
    """Whatever no process has open for writing ends: its worker and launcher are gone. Raises OSError."""
    for note in notes(spool):
        if not has_ended(spool, note) and _is_unwritten(spool / (note.name + OUT)):
            end(spool, note)


def _is_unwritten(path: Path) -> bool:
    """By a lease, which the kernel grants on a file that nobody can write to; False where it cannot tell."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True
    return False


def end_launchers(spool: Path, incarnation: int) -> None:
    """Launchers up to this incarnation log no more. Raises OSError."""
    for note in notes(spool):
        if note.is_launcher and note.incarnation <= incarnation:
            end(spool, note)


def close(spool: Path) -> None:
    """No worker is started any more. Raises OSError."""
    (spool / CLOSING).touch(mode=0o600)


def reopen(spool: Path) -> None:
    """Workers are started again."""
    (spool / CLOSING).unlink(missing_ok=True)


def notes(spool: Path) -> Iterator[SpoolNote]:
    """Every source in the spool, oldest cycle first; what cannot be read is left out."""
    found = [note for path in spool.glob(f"*{NOTE}") if (note := read_note(spool, path.stem)) is not None]
    return iter(sorted(found, key=lambda note: note.order))


def read_note(spool: Path, name: str) -> SpoolNote | None:
    """The note of one source; None where it cannot be read, or is of another."""
    try:
        note = SpoolNote(**json.loads((spool / (name + NOTE)).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return note if note.name == name else None


def has_ended(spool: Path, note: SpoolNote) -> bool:
    """Whether no process writes it any more."""
    return (spool / (note.name + END)).exists()


def is_closing(spool: Path) -> bool:
    """Whether no worker is started any more."""
    return (spool / CLOSING).exists()


def remove(spool: Path, note: SpoolNote) -> None:
    """All of it is durable elsewhere. Raises OSError."""
    for ending in (OUT, GONE, END, NOTE):  # the note last: without it the others are nobody's
        (spool / (note.name + ending)).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Gone:
    """A part of a source that was given up, and why."""

    start: int
    end: int
    lines: int
    why: str


def write_gone(spool: Path, note: SpoolNote, gone: Sequence[Gone]) -> None:
    """Remember what was given up, before its bytes are. Raises OSError."""
    write_whole(spool / (note.name + GONE), json.dumps([asdict(part) for part in gone]))


def read_gone(spool: Path, note: SpoolNote) -> list[Gone]:
    """What was given up of a source, in order."""
    try:
        told = json.loads((spool / (note.name + GONE)).read_text(encoding="utf-8"))
        return [Gone(**part) for part in told]
    except (OSError, ValueError, TypeError):
        return []


def tail(spool: Path, note: SpoolNote, limit_bytes: int) -> bytes:
    """The end of what the worker wrote, as far as it is still here. Raises OSError."""
    with (spool / (note.name + OUT)).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit_bytes))
        return file.read().lstrip(b"\0")


def punch(descriptor: int, start: int, end: int) -> None:
    """Give the blocks of this range back to the file system; its length stays. Raises OSError where that cannot be."""
    if _libc.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_long(start), ctypes.c_long(end - start)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def write_whole(path: Path, text: str) -> None:
    """The file with this text, or as it was before, whatever ends the writer. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
    fresh.rename(path)
