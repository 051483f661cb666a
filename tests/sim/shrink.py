"""A failing seed made short: the same invariant broken by the fewest verbs, on the plainest world, as a script.

The seed runs once more while its verbs are written down. Then whatever the failure does not need goes: first verbs, by
halves and at last one by one (delta debugging), then what is special about the world, then odd numbers. Leaving one
thing out gives all that follows other chances, so that a few worlds' seeds are tried for each.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.sim import rudeness, script, transcript
from tests.sim.verbs import Verbs
from tests.sim.world import World

OTHER_SEEDS = (1, 2, 3)
MOST_RUNS = 600
LONGEST_S = 120.0
VERBS = frozenset(
    name for name in dir(Verbs) if not name.startswith("_") and "at_s" in getattr(Verbs, name).__annotations__
)
PLAIN = {"skewed_clocks": "no", "stray_rate": "0", "workers": "1"}
"""What is plainer in a world than its default."""


class NothingBroken(Exception):
    """There is nothing to make short: the seed, or its verbs told as a script, break no invariant."""


@dataclass(frozen=True)
class Script:
    """A script in parts."""

    world: str
    acts: tuple[str, ...]
    until_s: float

    @property
    def lines(self) -> list[str]:
        """Its lines; at the end it heals and must become quiet, so that it can stay as a test when it is mended."""
        return [self.world, *self.acts, f"run {self.until_s:g}", "heal", "run until quiet"]


@dataclass(frozen=True)
class Failure:
    """What a script breaks."""

    invariant: str
    sentence: str
    at_s: float
    transcript: str


@dataclass(frozen=True)
class Shrunk:
    """The short script of a seed."""

    seed: int
    script: Script
    failure: Failure
    acts_before: int
    runs: int

    @property
    def text(self) -> str:
        """As a file of scripts/: what it broke, the verbs, and the transcript up to there."""
        told = f"# Seed {self.seed} made short, {len(self.script.acts)} of {self.acts_before} verbs: it broke"
        head = "\n".join([f"{told} {self.failure.sentence}", *self.script.lines])
        return f"{head}\n{script.SEPARATOR}\n{self.failure.transcript}\n"


class _Scribe:
    """Stands between a seed's acts and the world, and writes down every verb."""

    def __init__(self, world: World, lines: list[str]) -> None:
        self._world, self._lines = world, lines

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._world, name)
        if name not in VERBS:
            return real

        def told(*args: object, **named: object) -> object:
            self._lines.append(script.act_line(name, self._world.now_s, args, named))
            return real(*args, **named)

        return told


def told_as_script(seed: int) -> Script:
    """All verbs of a seed, whether or not it fails."""
    world = World(rudeness.setup_of(seed))
    lines: list[str] = []
    rudeness.plan(world, lambda world: _Scribe(world, lines))
    try:
        world.run(rudeness.RUDE_FOR_S)
    except Exception as error:  # task root: one world's end; what it breaks is found again when the script runs
        world.log("world", repr(error))
    return Script(script.world_line(world.setup), tuple(lines), rudeness.RUDE_FOR_S)


def failure_of(lines: list[str], keep_lines: int = 1) -> Failure | None:
    """What a script breaks; None when all holds."""
    world = None
    try:
        world = script.make_world(lines[0], keep_lines)
        script.play(world, lines[1:])
    except Exception as error:  # task root: one script's end, and any way to fail is one
        sentence = str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
        invariant = re.split(r"[:(]", sentence)[0]
        at_s = world.now_s if world else 0.0
        return Failure(invariant, sentence, at_s, transcript.text(world.lines) if world else "")
    return None


class Shrinker:
    """Makes one script short; `broken` is the invariant that must stay broken."""

    def __init__(self, begin: Script, broken: str, most_runs: int, longest_s: float) -> None:
        self.best, self.broken = begin, broken
        self.runs, self._most_runs, self._until = 0, most_runs, time.monotonic() + longest_s

    @property
    def is_tired(self) -> bool:
        """Whether it has tried for long enough."""
        return self.runs >= self._most_runs or time.monotonic() > self._until

    def shrink(self) -> Script:
        """The shortest that was found."""
        before = None
        while before != self.best and not self.is_tired:
            before = self.best
            self._fewer_acts()
            self._first_of(self._plainer_worlds)
            self._first_of(self._rounder)
            self._first_of(self._sooner_over)
        return self.best

    def _try(self, candidate: Script) -> bool:
        """Take the candidate, on some seed, if it breaks the same."""
        own = _seed_of(candidate.world)
        for seed in (own, *(seed for seed in OTHER_SEEDS if seed != own)):
            if self.is_tired:
                return False
            self.runs += 1
            again = replace(candidate, world=_with(candidate.world, "seed", str(seed)))
            failure = failure_of(again.lines)
            if failure is not None and failure.invariant == self.broken:
                self.best = again
                return True
        return False

    def _fewer_acts(self) -> None:
        size = max(1, len(self.best.acts) // 2)
        while not self.is_tired:
            at = 0
            while at < len(self.best.acts):
                acts = self.best.acts
                if not self._try(replace(self.best, acts=acts[:at] + acts[at + size :])):
                    at += size
            if size == 1:
                return
            size = max(1, size // 2)

    def _first_of(self, candidates: Callable[[], Iterator[Script]]) -> None:
        """Take whatever still breaks, and begin the list anew, until nothing of it does."""
        while any(candidate != self.best and self._try(candidate) for candidate in candidates()):
            pass

    def _plainer_worlds(self) -> Iterator[Script]:
        words = dict(word.split("=", 1) for word in self.best.world.split()[1:])
        for name in words:
            if name not in ("seed", "nodes", *PLAIN):
                yield replace(self.best, world=_with(self.best.world, name, None))
        for name, plain in PLAIN.items():
            if words.get(name) != plain:
                yield replace(self.best, world=_with(self.best.world, name, plain))
        nodes = int(words.get("nodes", 2))
        used = max((int(found) for act in self.best.acts for found in re.findall(r"\bn(\d+)\b", act)), default=1)
        for fewer in range(max(1, used), nodes):
            yield replace(self.best, world=_with(self.best.world, "nodes", str(fewer)))

    def _rounder(self) -> Iterator[Script]:
        for number, act in enumerate(self.best.acts):
            for digits in (0, 1, 2):
                rounded = re.sub(r"\d+\.\d{3,}", lambda found, digits=digits: f"{float(found[0]):.{digits}f}", act)
                if rounded != act:
                    yield replace(self.best, acts=(*self.best.acts[:number], rounded, *self.best.acts[number + 1 :]))

    def _sooner_over(self) -> Iterator[Script]:
        last_s = max((float(act.split()[1]) for act in self.best.acts), default=0.0)
        for until_s in (math.ceil(last_s) + 1.0, math.ceil(last_s) + 20.0):
            if until_s < self.best.until_s:
                yield replace(self.best, until_s=until_s)


def shrink(seed: int, most_runs: int = MOST_RUNS, longest_s: float = LONGEST_S) -> Shrunk:
    """Make a failing seed short. Raises NothingBroken."""
    whole = told_as_script(seed)
    failure = failure_of(whole.lines)
    if failure is None:
        raise NothingBroken(f"seed {seed} breaks nothing, told as a script of {len(whole.acts)} verbs")
    needed = tuple(act for act in whole.acts if float(act.split()[1]) <= failure.at_s)
    shrinker = Shrinker(replace(whole, acts=needed), failure.invariant, most_runs, longest_s)
    short = shrinker.shrink()
    last = failure_of(short.lines, keep_lines=0)
    assert last is not None, "the short script was seen to fail"
    return Shrunk(seed, short, last, len(whole.acts), shrinker.runs)


def shrink_for_people(seed: int, name: str | None) -> int:
    """Shrink, show, and keep it where a name is given; the exit code."""
    try:
        shrunk = shrink(seed)
    except NothingBroken as nothing:
        print(nothing)
        return 2
    print(shrunk.text)
    told = f"{shrunk.acts_before} verbs became {len(shrunk.script.acts)} in {shrunk.runs} runs"
    print(f"{told}; kept as {write(shrunk, name)}" if name else f"{told}; --name NAME keeps it as a test")
    return 1


def write(shrunk: Shrunk, name: str) -> Path:
    """Keep it as a test: mend what it breaks, and `--rewrite` writes the transcript it must give from then on."""
    path = script.FOLDER / f"{name}.txt"
    path.write_text(shrunk.text)
    return path


def _seed_of(world: str) -> int:
    found = re.search(r"\bseed=(\d+)", world)
    return int(found[1]) if found else 0


def _with(world: str, name: str, value: str | None) -> str:
    words = [word for word in world.split() if not word.startswith(f"{name}=")]
    return " ".join(words if value is None else [*words[:1], f"{name}={value}", *words[1:]])
