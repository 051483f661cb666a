"""The places in the spool that workers write to: ready before they start, and after the last words before them.

Decides nothing about workers; every wait is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_launcher.logs.desk import SpoolDesk
from resurge_launcher.logs.spool import SpoolNote

SPOOL_LIMIT_S = 2.0
"""So long a start, or an end, waits for the disk of the spool."""
LAST_WORDS_S, IMPATIENT_S = 1.0, 0.1
"""So long at most a restart waits until what was printed before it is durable in its file: usually a few milliseconds.
After one that waited in vain the next ones wait less, until one need not."""
LOOK_S = 0.005


class SpoolPlaces:
    """The spool files of one launcher's workers."""

    def __init__(self, folder: Path, desk: SpoolDesk) -> None:
        self._folder, self._desk = folder, desk
        self.notes: dict[tuple[int, int], SpoolNote] = {}
        """Of this generation and the one before, by generation and rank."""
        self._unused: dict[tuple[int, int], int] = {}
        """Descriptors of starts to come."""
        self._patience_s = LAST_WORDS_S

    async def prepare(self, notes: Sequence[SpoolNote]) -> None:
        """Open these of one generation, once the last words of those before are in their file. Raises OSError."""
        generation = max(note.generation for note in notes)
        self.close_unused(generation - 1)
        await self._last_words(generation)
        opened = await self._desk.ask(lambda: self._opened(notes), SPOOL_LIMIT_S, self._unwanted)
        for note, descriptor in opened.items():
            key = (note.generation, note.rank)
            if key in self._unused:
                os.close(self._unused[key])
            self._unused[key] = descriptor
        self.notes = {key: one for key, one in self.notes.items() if key[0] >= generation - 1}
        self.notes |= {(note.generation, note.rank): note for note in notes}

    def open(self, generation: int, rank: int) -> int | None:
        """A descriptor of its own; None where there is no place."""
        descriptor = self._unused.get((generation, rank))
        return os.dup(descriptor) if descriptor is not None else None

    def close_unused(self, upto: int | None = None) -> None:
        """All that are to have a place have it; with `upto` only those of these generations."""
        for key in [key for key in self._unused if upto is None or key[0] <= upto]:
            os.close(self._unused.pop(key))

    async def _last_words(self, generation: int) -> None:
        """Wait until what workers of before wrote is durable, for a moment, and less where that did not help."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience_s
        before = [note for note in self.notes.values() if note.generation < generation]
        while await self._desk.ask(lambda: any(spool.is_there(self._folder, note) for note in before), SPOOL_LIMIT_S):
            if loop.time() >= give_up_at:
                self._patience_s = IMPATIENT_S
                return
            await asyncio.sleep(LOOK_S)
        self._patience_s = LAST_WORDS_S

    def _opened(self, notes: Sequence[SpoolNote]) -> dict[SpoolNote, int]:
        opened: dict[SpoolNote, int] = {}
        try:
            for note in notes:
                opened[note] = spool.open_for_worker(self._folder, note)
        except OSError:
            self._unwanted(opened)
            raise
        return opened

    def _unwanted(self, opened: Mapping[SpoolNote, int]) -> None:
        """Nobody will write there."""
        for note, descriptor in opened.items():
            os.close(descriptor)
            with contextlib.suppress(OSError):
                spool.end(self._folder, note)
