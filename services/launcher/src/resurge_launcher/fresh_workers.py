"""Forks workers of a running generation anew, in the places of lost ones; what comes of it are events. Decides nothing.

Their files are prepared for one batch at a time: those that are wanted meanwhile are the next batch. Belongs to the
event loop's thread, which is the main thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from resurge_launcher.core import happenings as h
from resurge_launcher.core.replacement_state import ReplaceDone, ReplaceFailed, ReplaceWorkers
from resurge_launcher.start_files import LogFiles, StartFiles
from resurge_launcher.team import Forker, Shop, Team, Told
from resurge_libs.core.ids import Generation


@dataclass(slots=True)
class _Place:
    """The place of one lost worker."""

    team: Team
    told: Told
    local_rank: int
    is_wanted: bool = True

    @property
    def generation(self) -> Generation:
        return self.team.run.generation

    @property
    def rank(self) -> int:
        return self.team.run.base_rank + self.local_rank


class FreshWorkers:
    """Those that wait for their files, and how they are started."""

    def __init__(self, shop: Shop, files: StartFiles, post: Callable[[h.Event], None], fork: Forker) -> None:
        self._shop, self._files, self._post, self._fork = shop, files, post, fork
        self._loop = asyncio.get_running_loop()
        self._queue: list[_Place] = []
        self._batch: list[_Place] = []
        """Those whose files are being prepared."""

    def replace(self, action: ReplaceWorkers, team: Team | None, told_of: Callable[[Team], Told]) -> None:
        """Fork them, once their files are there; the other workers run on meanwhile."""
        if team is None:
            self._failed(action.generation, action.local_ranks, "the generation is over")
            return
        self._queue += [_Place(team, told_of(team), local_rank) for local_rank in action.local_ranks]
        self._prepare_next()

    def call_off(self, generation: Generation) -> None:
        """Those that are not there yet are no longer wanted: the generation ends."""
        for place in (*self._batch, *self._queue):
            if place.is_wanted and place.generation <= generation:
                place.is_wanted = False
                self._failed(place.generation, [place.local_rank], "the workers are no longer wanted")

    def _prepare_next(self) -> None:
        """Prepare files for all that wait, unless that is being done for others."""
        queue = [place for place in self._queue if place.is_wanted]
        if self._batch or not queue:
            return
        team = queue[0].team
        self._batch = [place for place in queue if place.team is team]
        self._queue = [place for place in queue if place.team is not team]
        ranks = [place.rank for place in self._batch]
        start = partial(self._files.prepare_again, team.run, ranks, self._prepared)
        if self._shop.logs is not None:
            start = partial(self._shop.logs.prepare, team.run, ranks, start)
        start()

    def _prepared(self, files: LogFiles) -> None:
        batch, self._batch = self._batch, []
        wanted = [place for place in batch if place.is_wanted]
        try:
            if wanted:
                self._start(wanted[0].team, wanted[0].told, [place.local_rank for place in wanted], files)
            else:
                files.close()
                if self._shop.logs is not None:
                    self._shop.logs.not_taken(batch[0].generation)
        finally:
            self._prepare_next()

    def _start(self, team: Team, told: Told, local_ranks: Sequence[int], files: LogFiles) -> None:
        sentence = "the fork server cannot fork it"
        try:
            is_done = team.replace(self._loop, told, self._fork, local_ranks, files)
        except OSError as error:
            is_done, sentence = False, f"it could not be started: {error}"
        if not is_done:
            self._failed(team.run.generation, local_ranks, sentence)
            return
        for local_rank, pid in team.pids:
            if local_rank in local_ranks:
                self._post(ReplaceDone(team.run.generation, local_rank, pid))

    def _failed(self, generation: Generation, local_ranks: Sequence[int], sentence: str) -> None:
        for local_rank in local_ranks:
            self._post(ReplaceFailed(generation, local_rank, sentence))
