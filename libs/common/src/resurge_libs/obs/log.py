"""Log events: a fixed name and typed fields, at state changes, on stderr. Decides nothing, never raises.

JSON lines for machines, one readable line for people; who speaks (job, node, incarnation, generation, incident) is
bound once per task. Why something happened is always `reason`, a code of the catalogue, and `sentence`; what a process
ended with is `exit_code`; what was raised is `error`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TextIO

_bound: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar("resurge_log_bound", default=())


class _Sink:
    """Where events go; one per process, set up by its main function."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.as_json = False
        self.quiet = False


_sink = _Sink()


def configure(as_json: bool = False, stream: TextIO | None = None, quiet: bool = False) -> None:
    """Set the form and the stream of this process's events; stderr without a stream."""
    _sink.as_json, _sink.stream, _sink.quiet = as_json, stream, quiet


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
    text = json.dumps(shown, ensure_ascii=False, default=str) if _sink.as_json else _readable(shown)
    stream = _sink.stream or sys.stderr
    # a log that cannot be written (closed terminal, full disk) must never stop a recovery
    with contextlib.suppress(OSError, ValueError):
        stream.write(text + "\n")
        stream.flush()


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
