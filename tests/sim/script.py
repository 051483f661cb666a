"""Scripts: a world told in verbs, and the transcript it must give. See scripts/*.txt.

A script's first line makes the world (`world nodes=2 workers=1`), further lines are verbs (`at 20 crash n1`,
`run 30`, `run until quiet`), `----` ends it, and what follows is the transcript. It is compared by who and what, line
by line; when and why are there to be read.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

from resurge_launcher.core.model import OnLostControl
from tests.sim.model_worker import Habits
from tests.sim.transcript import text
from tests.sim.verbs import Verbs
from tests.sim.world import Setup, World

SEPARATOR = "----"
FOLDER = Path(__file__).with_name("scripts")
UNTOLD = frozenset({"seed", "limits", "habits", "keep_lines"})
"""What `world_line` does not tell by itself."""


def split(source: str) -> tuple[list[str], list[str]]:
    """The verbs and the expected transcript."""
    head, _, tail = source.partition(f"{SEPARATOR}\n")
    verbs = [line for line in head.splitlines() if line.strip() and not line.startswith("#")]
    return verbs, [line for line in tail.splitlines() if line.strip()]


def perform(source: str) -> str:
    """Run a script; its transcript."""
    verbs, _ = split(source)
    world = make_world(verbs[0])
    play(world, verbs[1:])
    return text(world.lines)


def play(world: World, verbs: list[str]) -> None:
    """Do what the lines after the first say, and let the oracle judge the end. Raises what is broken."""
    for verb in verbs:
        do(world, verb)
    world.oracle.check()


def gist(lines: list[str]) -> list[str]:
    """Who and what of each line of a transcript."""
    return [re.split(r"[:(#]", line[11:])[0].strip() for line in lines]


def rewrite() -> None:
    """Write every script's transcript anew, to be read by a person before it is believed."""
    for path in sorted(FOLDER.glob("*.txt")):
        head, _, _ = path.read_text().partition(f"{SEPARATOR}\n")
        path.write_text(f"{head}{SEPARATOR}\n{perform(path.read_text())}\n")


def world_line(setup: Setup) -> str:
    """The first line of a script that makes this world."""
    usual, habits = Setup(), Habits()
    told = {"seed": setup.seed}
    told |= {f.name: getattr(setup, f.name) for f in dataclasses.fields(Setup) if f.name not in UNTOLD}
    told |= {f.name: getattr(setup.habits, f.name) for f in dataclasses.fields(Habits)}
    known = {f.name: getattr(usual, f.name) for f in dataclasses.fields(Setup) if f.name != "seed"}
    known |= {f.name: getattr(habits, f.name) for f in dataclasses.fields(Habits)}
    return " ".join(["world", *(f"{name}={_word(value)}" for name, value in told.items() if value != known.get(name))])


def act_line(verb: str, now_s: float, args: tuple[object, ...], named: dict[str, object]) -> str:
    """The line of a verb that was used at a time of a world."""
    signature = inspect.signature(getattr(Verbs, verb))
    given = signature.bind(None, *args, **named).arguments
    at_s = given.pop("at_s", None)
    places, words = [], []
    for name, value in list(given.items())[1:]:
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            words += [f"{word}={_word(one)}" for word, one in value.items()]
        elif signature.parameters[name].default is inspect.Parameter.empty:
            places.append(_word(value))
        elif value != signature.parameters[name].default:
            words.append(f"{name}={_word(value)}")
    return " ".join(["at", repr(now_s if at_s is None else at_s), verb, *places, *words])


def _word(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case enum.IntEnum():
            return str(int(value))
        case enum.Enum():
            return str(value.value)
        case _:
            return str(value)


def _value(word: str) -> object:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"yes": True, "no": False, "none": None}.get(word, word)


def _named(words: list[str]) -> dict[str, Any]:
    return {name: _value(value) for name, _, value in (word.partition("=") for word in words)}


def make_world(line: str, keep_lines: int = 0) -> World:
    """The world of a script's first line."""
    kind, *words = shlex.split(line)
    assert kind == "world", f"a script begins with a world, not with {line!r}"
    named = _named(words)
    habits = {f.name: named.pop(f.name) for f in dataclasses.fields(Habits) if f.name in named}
    if "on_lost_control" in named:
        named["on_lost_control"] = OnLostControl(named["on_lost_control"])
    return World(Setup(habits=Habits(**habits), keep_lines=keep_lines, **named))


def do(world: World, line: str) -> None:
    """One line of a script after its first."""
    match words := shlex.split(line):
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
