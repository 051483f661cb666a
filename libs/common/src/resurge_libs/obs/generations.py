"""A file that lines are appended to and that never grows beyond a size: full, it becomes `NAME.1`, `.1` becomes `.2` …

Renaming only, so that a full disk stands in nobody's way. Readers see every line once or twice, never none: they open
the newest file first, and one that is renamed meanwhile is met again under its new name.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from resurge_libs.obs.log import event

COUNT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Generations:
    """The file and those before it."""

    path: Path
    bytes_max: int
    """Of one file; a longer line makes a longer file."""
    older_max: int
    """Files kept beside the present one."""

    def append(self, data: bytes, mode: int) -> None:
        """Add whole lines in a single write; a line that the last writer left cut off is ended. Raises OSError."""
        self._make_room(len(data))
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            size = os.fstat(fd).st_size
            os.write(fd, (b"\n" if size > 0 and self._is_cut_off(size) else b"") + data)
        finally:
            os.close(fd)

    def lines(self) -> list[bytes]:
        """Every line that is kept, oldest first. Raises OSError for a file that is there and cannot be read."""
        found: dict[tuple[int, int], bytes] = {}
        for path in self._paths():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                status = os.fstat(file.fileno())
                found.setdefault((status.st_dev, status.st_ino), file.read())
        return [line for text in reversed(found.values()) for line in text.splitlines() if line]

    def _paths(self) -> list[Path]:
        """All names, newest first."""
        older = (self.path.with_name(f"{self.path.name}.{number}") for number in range(1, self.older_max + 1))
        return [self.path, *older]

    def _is_cut_off(self, size: int) -> bool:
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), 1, size - 1) != b"\n"

    def _make_room(self, coming: int) -> None:
        """Begin a new file where the lines that come would make this one too long; where that fails it grows on."""
        with contextlib.suppress(OSError):
            size = self.path.stat().st_size
            if size == 0 or size + coming <= self.bytes_max:
                return
            paths = self._paths()
            lost = _count_lines(paths[-1])
            for older, newer in reversed(list(zip(paths[1:], paths, strict=False))):
                with contextlib.suppress(FileNotFoundError):
                    newer.replace(older)
            if lost:
                event("lines_rotated_away", file=str(self.path), lines=lost, kept_files=len(paths) - 1)


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(part.count(b"\n") for part in iter(lambda: file.read(COUNT_BYTES), b""))
    except FileNotFoundError:
        return 0
