"""Log events: a fixed name and typed fields, at state changes, on stderr. Decides nothing, never raises.

JSON lines for machines, one readable line with every field for files, and a short one for people at a terminal; who
speaks (job, node, incarnation, generation, incident) is bound once per task. Why something happened is always `reason`,
a code of the catalogue, and `sentence`; what a process ended with is `exit_code`; what was raised is `error`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TextIO

from resurge_libs.core.reasons import Reason

_bound: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar("resurge_log_bound", default=())


Told = tuple[str, Any, Any]
"""A sentence, and the rank and the other node that it is about."""


class _Sink:
    """Where events go; one per process, set up by its main function."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.as_json = False
        self.quiet = False
        self.colours = False
        self.told: Told | None = None
        """What a person read last."""


_sink = _Sink()


def configure(as_json: bool = False, stream: TextIO | None = None, quiet: bool = False, colours: bool = False) -> None:
    """Set the form and the stream of this process's events; stderr without a stream. A stream that is a terminal gets
    the short form, with `colours` where these are wanted."""
    _sink.as_json, _sink.stream, _sink.quiet, _sink.colours, _sink.told = as_json, stream, quiet, colours, None


def wants_colours(environ: Mapping[str, str]) -> bool:
    """Whether a terminal of this environment shows colours, and nobody has asked for none by NO_COLOR."""
    return not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb")


def bind(**who: Any) -> None:
    """Add to who speaks, for this task and those it starts. A value of None removes the field."""
    now = dict(_bound.get())
    now.update(who)
    _bound.set(tuple((name, value) for name, value in now.items() if value is not None))


@contextlib.contextmanager
def bound(**who: Any) -> Iterator[None]:
    """Add to who speaks inside the block."""
    before = _bound.get()
    bind(**who)
    try:
        yield
    finally:
        _bound.set(before)


def event(name: str, /, **typed: Any) -> None:
    """Write one event. Fields of None are left out; enums show their value, dataclasses their fields."""
    if _sink.quiet:
        return
    record: dict[str, Any] = {"time": time.time(), "event": name}
    record.update(_bound.get())
    record.update(typed)
    shown = {key: _plain(value) for key, value in record.items() if value is not None}
    stream = _sink.stream or sys.stderr
    # a log that cannot be written (closed terminal, full disk) must never stop a recovery
    with contextlib.suppress(OSError, ValueError):
        if _sink.as_json:
            text = json.dumps(shown, ensure_ascii=False, default=str)
        elif stream.isatty():
            if not _is_news(shown):
                return
            text = for_terminal(shown, dict(_bound.get()), _sink.colours)
        else:
            text = _readable(shown)
        stream.write(text + "\n")
        stream.flush()


def _is_news(shown: dict[str, Any]) -> bool:
    """Whether a person has not just read all that matters of it. A sentence is told once in a row."""
    sentence, node, own = str(shown.get("sentence", "")), shown.get("node"), dict(_bound.get()).get("node")
    before, told = _sink.told, (sentence, shown.get("rank"), None if node == own else node)
    if not sentence:
        return True
    _sink.told = told
    if told != before:
        return True
    del shown["sentence"]
    return any(key in shown for key in ("exit_code", *BLOCKS))


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case bytes():
            return value.hex()
        case bool() | int() | float() | str() | None:
            return value
        case tuple() | list():
            return [_plain(item) for item in value]
        case frozenset() | set():
            return sorted((_plain(item) for item in value), key=str)
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
        case _:
            return str(value)


def _readable(shown: dict[str, Any]) -> str:
    at = shown.pop("time")
    name = shown.pop("event")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
    pairs = " ".join(f"{key}={_word(value)}" for key, value in shown.items())
    return f"{clock} resurge {name} {pairs}".rstrip()


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) and (not text or " " in text) else text


# --- at a terminal ---

BESIDE_A_SENTENCE = ("node", "rank", "reason", "exit_code", "hint", "log")
"""The fields that a person still wants where a sentence has told the rest."""
SELF_EVIDENT = frozenset({"node", "reason", "hint", "what"})
"""Fields whose value says what it is."""
BLOCKS = ("text", "trace")
"""Fields of several lines, shown as such."""
RED, YELLOW, GREEN, DIM, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"
GOOD = frozenset({Reason.RECOVERED, Reason.SUCCEEDED, Reason.FINISHED})
BAD_ENDS = ("_failed", "_lost", "_damaged", "fault_seen", "fault_evidence")
WARNING_WORDS = frozenset({"not", "dropped", "ended", "unfit", "off", "cut", "refused", "awaited", "complaint", "cold"})


def for_terminal(shown: Mapping[str, Any], speaker: Mapping[str, Any], colours: bool) -> str:
    """One event for a person: time, what is the matter, the few fields that matter. Job and node are left out where
    they are the speaker's own. Nothing that workers or peers say can steer the terminal."""
    clock = time.strftime("%H:%M:%S", time.localtime(shown["time"]))
    sentence = _printable(str(shown.get("sentence", "")))
    hidden = {"time", "event", "sentence", *BLOCKS, *(key for key, value in speaker.items() if shown.get(key) == value)}
    names = BESIDE_A_SENTENCE if sentence else tuple(shown)
    told = (_told(key, shown[key]) for key in names if key in shown and key not in hidden)
    fields_told = [words for words in told if words not in sentence]
    lead = sentence or _printable(shown["event"].replace("_", " "))
    after = f" ({', '.join(fields_told)})" if fields_told else ""
    blocks = [_block(str(shown[key])) for key in BLOCKS if shown.get(key)]
    if colours:
        clock, lead, after = _painted(DIM, clock), _painted(_colour(shown), lead), _painted(DIM, after)
    return "\n".join([f"{clock} resurge {lead}{after}", *blocks])


def _told(key: str, value: Any) -> str:
    text = _printable(value if isinstance(value, str) else _word(value))
    if key in SELF_EVIDENT:
        return text
    name, unit = (key.removesuffix("_s"), " s") if key.endswith("_s") else (key, "")
    return f"{name.replace('_', ' ')} {text}{unit}"


def _block(text: str) -> str:
    lines = textwrap.dedent(text.strip("\n")).split("\n")
    return "\n".join("    " + _printable(line) for line in lines)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)


def _painted(colour: str, text: str) -> str:
    return f"{colour}{text}{PLAIN}" if colour and text else text


def _colour(shown: Mapping[str, Any]) -> str:
    name = shown["event"]
    if shown.get("exit_code") or name.endswith(BAD_ENDS):
        return RED
    if WARNING_WORDS.intersection(name.split("_")):
        return YELLOW
    return GREEN if shown.get("reason") in GOOD else ""
