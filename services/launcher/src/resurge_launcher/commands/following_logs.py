"""Follows a job's lines over the end of its log server, and says so: comes back where it was, else reads the file.

Decides how long a server may be away. Shows no line twice: the place of each line comes with it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_libs.rpc.endpoint import Endpoint

AGAIN_S, AGAIN_MAX_S = 0.1, 1.0
AWAY_LIMIT_S = 60.0
_RANK = re.compile(rb" *(\d+): ")
_CYCLE = re.compile(r"_cycle(\d+)(?=\.[^.]*$|$)")

Part = tuple[int, bytes]
"""A rank and whole lines of it."""


class NoLogServer(CommandFailed):
    """It does not answer, or cannot now: asked again it may."""


@dataclass
class Follower:
    """One reader."""

    request: logs_pb2.TailRequest
    find: Callable[[], Endpoint]
    """Where the log server is now. Raises UsageProblem where it has taken its announcement back: it has ended."""
    stream: Callable[[Endpoint, logs_pb2.TailRequest], Iterator[logs_pb2.TailResponse]]
    """Raises NoLogServer, CommandFailed."""
    say: Callable[[str], None]
    away_limit_s: float = AWAY_LIMIT_S
    _place: logs_pb2.LogPlace | None = None
    _nodes: dict[int, str] = field(default_factory=dict)
    _is_reached: bool = False
    _is_of_old_server: bool = False
    """Text came without its place: nobody can say where to go on, and beginning anew would show all of it twice."""
    _away_since: float | None = None

    def parts(self) -> Iterator[Part]:
        """All lines, as long as any may come. Raises CommandFailed, UsageProblem."""
        again_s = AGAIN_S
        while True:
            try:
                endpoint = self.find()
            except UsageProblem:
                if not self._is_reached:
                    raise
                yield from self._rest("has ended")
                return
            try:
                yield from self._of_one_stream(endpoint)
                return
            except NoLogServer as problem:
                if not self._is_reached or self._is_of_old_server:
                    raise
                again_s = AGAIN_S if self._away_since is None else min(2 * again_s, AGAIN_MAX_S)
                self._is_away(problem)
            if self._away_since is not None and time.monotonic() - self._away_since >= self.away_limit_s:
                yield from self._rest(f"has not come back within {self.away_limit_s:g} s", is_failure=True)
                return
            time.sleep(again_s * random.uniform(0.5, 1.0))

    def _of_one_stream(self, endpoint: Endpoint) -> Iterator[Part]:
        began = time.monotonic()
        try:
            for told in self.stream(endpoint, self.request):
                self._is_reached = True
                if told.HasField("place"):
                    self._place = told.place
                    self.request.after.CopyFrom(told.place)
                if told.HasField("place") or told.text:  # one that only listens may not be able to read the file
                    self._is_back(endpoint)
                if told.text:
                    self._is_of_old_server |= not told.HasField("place")
                    self._nodes[told.source.rank] = told.source.node_id
                    yield told.source.rank, told.text
        except NoLogServer:
            if time.monotonic() - began >= self.away_limit_s:
                self._away_since = None  # it was there all the time, and had nothing to tell
            raise

    def _is_back(self, endpoint: Endpoint) -> None:
        if self._away_since is not None:
            self._away_since = None
            self.say(f"the log server answers again, at {endpoint}: its lines go on where they were")

    def _is_away(self, problem: NoLogServer) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            self.say(f"{problem}; it is waited for, for up to {self.away_limit_s:g} s")

    # --- what a server that is gone has left ---

    def _rest(self, what: str, is_failure: bool = False) -> Iterator[Part]:
        place = self._place
        if place is None:
            self._over(f"the log server {what}; no line of these had come", is_failure)
            return
        path = first = Path(place.path)
        shown = place.position
        try:
            for path in self._files(first):
                yield from self._of_file(path, shown)
                shown = 0
        except OSError as error:
            sentence = f"the log server {what}, and {path} cannot be read here: {error.strerror}"
            raise CommandFailed(f"{sentence}; its first {shown} bytes were shown") from None
        known = "all ranks had reached their end" if place.sealed else "what came last was read from the file"
        self._over(f"the log server {what}; {known}: {path}", is_failure and not place.sealed)

    def _over(self, sentence: str, is_failure: bool) -> None:
        if is_failure:
            raise CommandFailed(sentence)
        self.say(sentence)

    def _files(self, path: Path) -> Iterator[Path]:
        """The file and, where no cycle was asked for, those of later cycles."""
        yield path
        if self.request.HasField("cycle") or self.request.kind != logs_pb2.LOG_KIND_APPLICATION:
            return
        while (found := _CYCLE.search(path.name)) is not None:
            later = f"{path.name[: found.start()]}_cycle{int(found[1]) + 1}{path.name[found.end() :]}"
            path = path.with_name(later)
            if not path.exists():
                return
            yield path

    def _of_file(self, path: Path, start: int) -> Iterator[Part]:
        is_launchers = self.request.kind == logs_pb2.LOG_KIND_LAUNCHER
        rank = 0
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                found = None if is_launchers else _RANK.match(line)
                rank = int(found[1]) if found is not None else rank
                if line.endswith(b"\n") and self._wants(rank):
                    yield rank, line

    def _wants(self, rank: int) -> bool:
        ranks, nodes = self.request.ranks, self.request.nodes
        return (not ranks or rank in ranks) and (not nodes or self._nodes.get(rank) in nodes)
