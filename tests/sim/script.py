"""Scripts: a world told in verbs, and the transcript it must give. See scripts/*.txt.

A script's first line makes the world (`world nodes=2 workers=1`), further lines are verbs (`at 20 crash n1`,
`run 30`, `run until quiet`), `----` ends it, and what follows is the transcript. It is compared by who and what, line
by line; when and why are there to be read.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

from tests.sim.model_worker import Habits
from tests.sim.transcript import text
from tests.sim.world import Setup, World

SEPARATOR = "----"
FOLDER = Path(__file__).with_name("scripts")


def split(source: str) -> tuple[list[str], list[str]]:
    """The verbs and the expected transcript."""
    head, _, tail = source.partition(f"{SEPARATOR}\n")
    verbs = [line for line in head.splitlines() if line.strip() and not line.startswith("#")]
    return verbs, [line for line in tail.splitlines() if line.strip()]


def perform(source: str) -> str:
    """Run a script; its transcript."""
    verbs, _ = split(source)
    world = _world(verbs[0])
    for verb in verbs[1:]:
        _do(world, shlex.split(verb))
    world.oracle.check()
    return text(world.lines)


def gist(lines: list[str]) -> list[str]:
    """Who and what of each line of a transcript."""
    return [re.split(r"[:(#]", line[11:])[0].strip() for line in lines]


def rewrite() -> None:
    """Write every script's transcript anew, to be read by a person before it is believed."""
    for path in sorted(FOLDER.glob("*.txt")):
        head, _, _ = path.read_text().partition(f"{SEPARATOR}\n")
        path.write_text(f"{head}{SEPARATOR}\n{perform(path.read_text())}\n")


def _value(word: str) -> object:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"yes": True, "no": False}.get(word, word)


def _named(words: list[str]) -> dict[str, object]:
    return {name: _value(value) for name, _, value in (word.partition("=") for word in words)}


def _world(line: str) -> World:
    kind, *words = shlex.split(line)
    assert kind == "world", f"a script begins with a world, not with {line!r}"
    named = _named(words)
    habits = {f.name: named.pop(f.name) for f in dataclasses.fields(Habits) if f.name in named}
    return World(Setup(habits=Habits(**habits), keep_lines=0, **named))


def _do(world: World, words: list[str]) -> None:
    match words:
        case ["run", "until", "quiet"]:
            world.run_until_quiet()
        case ["run", until_s]:
            world.run(float(until_s))
        case ["heal"]:
            world.heal()
        case ["at", at_s, verb, *rest]:
            places = [word for word in rest if "=" not in word]
            getattr(world, verb)(*map(_value, places), at_s=float(at_s), **_named([w for w in rest if "=" in w]))
        case _:
            raise ValueError(f"unknown verb: {' '.join(words)}")
