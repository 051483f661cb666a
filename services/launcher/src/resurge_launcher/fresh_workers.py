"""Forks workers of a running generation anew, in the places of lost ones; what comes of it are events. Decides nothing.

Belongs to the event loop's thread, which is the main thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from resurge_launcher.core import happenings as h
from resurge_launcher.core.replacement_state import ReplaceDone, ReplaceFailed, ReplaceWorkers
from resurge_launcher.start_files import LogFiles, StartFiles
from resurge_launcher.team import Forker, Shop, Team, Told
from resurge_libs.core.ids import Generation


class FreshWorkers:
    """Those that wait for their files, and how they are started."""

    def __init__(self, shop: Shop, files: StartFiles, post: Callable[[h.Event], None], fork: Forker) -> None:
        self._shop, self._files, self._post, self._fork = shop, files, post, fork
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[Generation, int], bool] = {}
        """Generation and local rank of each; False where it is not wanted any more."""

    def replace(self, action: ReplaceWorkers, team: Team | None, told_of: Callable[[Team], Told]) -> None:
        """Fork them, once their files are there; the other workers run on meanwhile."""
        if team is None:
            self._failed(action.generation, action.local_ranks, "the generation is over")
            return
        for local_rank in action.local_ranks:
            self._waiting[action.generation, local_rank] = True
        ranks = [team.run.base_rank + local_rank for local_rank in action.local_ranks]
        now = partial(self._now, action, team, told_of)
        start = partial(self._files.prepare_again, team.run, ranks, now)
        if self._shop.logs is not None:
            start = partial(self._shop.logs.prepare, team.run, ranks, start)
        start()

    def call_off(self, generation: Generation) -> None:
        """Those that are not there yet are no longer wanted: the generation ends."""
        waiting = [key for key, wanted in self._waiting.items() if wanted and key[0] <= generation]
        for of_generation, local_rank in waiting:
            self._waiting[of_generation, local_rank] = False
            self._failed(of_generation, [local_rank], "the workers are no longer wanted")

    def _now(self, action: ReplaceWorkers, team: Team, told_of: Callable[[Team], Told], files: LogFiles) -> None:
        wanted = [one for one in action.local_ranks if self._waiting.pop((action.generation, one), False)]
        if not wanted:
            files.close()
            return
        sentence = "the fork server cannot fork it"
        try:
            is_done = team.replace(self._loop, told_of(team), self._fork, wanted, files)
        except OSError as error:
            is_done, sentence = False, f"it could not be started: {error}"
        if not is_done:
            self._failed(action.generation, wanted, sentence)
            return
        for local_rank, pid in team.pids:
            if local_rank in wanted:
                self._post(ReplaceDone(action.generation, local_rank, pid))

    def _failed(self, generation: Generation, local_ranks: Sequence[int], sentence: str) -> None:
        for local_rank in local_ranks:
            self._post(ReplaceFailed(generation, local_rank, sentence))
