"""Failure traces: which node was faulty from when to when, and why. Reads the format of InfiniteHBD's public trace.

A trace is a JSON list of events: `node_id`, `event_time` in days, `event_type` fault_start or fault_end, and
`fault_type` with `Level`, `Class` and `Desc`. A fault that never ends is faulty to the end of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DAY_S = 86_400.0
_STARTS, _ENDS = "fault_start", "fault_end"


class TraceProblem(ValueError):
    """A trace that cannot be used; the sentence names the file, the event and what would be right."""


@dataclass(frozen=True, slots=True)
class TracedFault:
    """One node's fault, in seconds from the trace's beginning."""

    node: str
    start_s: float
    end_s: float
    level: str
    """Hardware Failure, Software Failure or Other Failure."""
    what: str

    @property
    def is_hardware(self) -> bool:
        """Whether the trace calls it a fault of the hardware."""
        return self.level.lower().startswith("hardware")


def read_trace(path: Path) -> tuple[TracedFault, ...]:
    """All faults, by their start. Raises TraceProblem."""
    try:
        events = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceProblem(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise TraceProblem(f"{path} is no JSON: {error}") from None
    if not isinstance(events, list) or not events:
        raise TraceProblem(f"{path} holds no list of events; expected [{{'node_id': ..., 'event_time': days, ...}}]")
    return faults_of([_checked(path, number, event) for number, event in enumerate(events)])


def _checked(path: Path, number: int, event: Any) -> Mapping[str, Any]:
    where = f"{path}, event {number}"
    if not isinstance(event, dict) or not isinstance(event.get("node_id"), str) or not event["node_id"]:
        raise TraceProblem(f"{where}: node_id must be a name")
    at = event.get("event_time")
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < float("inf"):
        raise TraceProblem(f"{where}: event_time must be days from 0 on, got {at!r}")
    if event.get("event_type") not in (_STARTS, _ENDS):
        raise TraceProblem(f"{where}: event_type must be {_STARTS} or {_ENDS}, got {event.get('event_type')!r}")
    if not isinstance(event.get("fault_type"), dict):
        raise TraceProblem(f"{where}: fault_type must be an object with Level, Class and Desc")
    return event


def faults_of(events: Sequence[Mapping[str, Any]]) -> tuple[TracedFault, ...]:
    """Starts paired with their ends, by node and kind, oldest first."""
    open_since: dict[tuple[str, str], list[float]] = {}
    faults: list[TracedFault] = []
    last_s = max(event["event_time"] for event in events) * DAY_S

    def add(key: tuple[str, str], kind: Mapping[str, Any], start_s: float, end_s: float) -> None:
        what = f"{kind.get('Class', '')}: {kind.get('Desc', '')}"
        faults.append(TracedFault(key[0], start_s, end_s, str(kind.get("Level", "")), what))

    kinds: dict[tuple[str, str], Mapping[str, Any]] = {}
    for event in sorted(events, key=lambda item: (item["event_time"], item["event_type"] == _ENDS)):
        key = event["node_id"], json.dumps(event["fault_type"], sort_keys=True)
        kinds[key] = event["fault_type"]
        at_s = event["event_time"] * DAY_S
        if event["event_type"] == _STARTS:
            open_since.setdefault(key, []).append(at_s)
        elif open_since.get(key):
            add(key, kinds[key], open_since[key].pop(0), at_s)
    for key, starts in open_since.items():
        for start_s in starts:
            add(key, kinds[key], start_s, last_s)
    return tuple(sorted(faults, key=lambda fault: (fault.start_s, fault.node, fault.end_s)))
