"""Keeps the stacks of workers that were taken before a hang ended them: in the ranks' own folders, and for the log.

Decides nothing. Files are written by a thread of their own, so that a disk that hangs delays no restart.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from resurge_launcher.team import Team

FILE_NAME = "stacks.txt"
"""In the folder of a rank's log files, one per cycle."""
SHOWN_LINES = 60
"""Of one worker's stacks in the launcher's log; the file has all."""


class HangEvidence:
    """The stacks of the newest look."""

    def __init__(self) -> None:
        self._generation = 0
        self._stacks: dict[int, str] = {}

    def keep(self, team: Team, stacks: Mapping[int, str]) -> None:
        """Remember these, by local rank, and write them down."""
        self._generation = team.run.generation
        self._stacks = {team.run.base_rank + local_rank: text for local_rank, text in stacks.items()}
        files = {rank: folder for rank in self._stacks if (folder := team.directory_of(rank)) is not None}
        if files:
            threading.Thread(target=_write, args=(files, self._stacks), name="stacks", daemon=True).start()

    def of(self, generation: int, rank: int | None) -> Sequence[str]:
        """What to show of a rank's stacks; the main thread comes last in them."""
        if rank is None or generation != self._generation:
            return ()
        return self._stacks.get(rank, "").splitlines()[-SHOWN_LINES:]


def _write(folders: Mapping[int, Path], stacks: Mapping[int, str]) -> None:
    for rank, folder in folders.items():
        with contextlib.suppress(OSError):  # the log has the main lines
            (folder / FILE_NAME).write_text(stacks[rank])
