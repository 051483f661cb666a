"""Limits that are learned: the longest time that any rank has seen, times a factor.

A limit that was learned before moves half the way to the new one; one that was given is replaced. Decides nothing about
when. Effects: one all-reduce, where torch.distributed is there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_FIRST_BEAT, _BEAT_GAP, _OUTSIDE = "\0first beat", "\0beat gap", "\0outside"


@dataclass(frozen=True, slots=True)
class HeartbeatTimeouts:
    """Limits of the heartbeats in seconds; None for no limit."""

    initial: float | None = None
    """To the first one."""
    subsequent: float | None = None
    were_calculated: bool = False

    @property
    def are_valid(self) -> bool:
        """Whether both are there."""
        return self.initial is not None and self.subsequent is not None

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SectionTimeouts:
    """Limits of sections in seconds; None for no limit. Sections that are not named are not watched."""

    section: Mapping[str, float | None] = field(default_factory=dict)
    out_of_section: float | None = None
    calculated_sections: frozenset[str] = frozenset()
    is_out_of_section_calculated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As plain values that JSON can hold."""
        return {
            "section": dict(self.section),
            "out_of_section": self.out_of_section,
            "calculated_sections": sorted(self.calculated_sections),
            "is_out_of_section_calculated": self.is_out_of_section_calculated,
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SectionTimeouts:
        """What `as_dict` gave."""
        calculated = frozenset(values.get("calculated_sections", ()))
        is_outside = bool(values.get("is_out_of_section_calculated"))
        return cls(dict(values.get("section", {})), values.get("out_of_section"), calculated, is_outside)


class LongestTimes:
    """The longest times in seconds that this rank has seen, by what they are of."""

    def __init__(self, longest_s: Mapping[str, float] | None = None) -> None:
        self._longest_s = dict(longest_s or {})

    def first_beat(self, took_s: float) -> None:
        """From the begin to the first heartbeat."""
        self._see(_FIRST_BEAT, took_s)

    def beat_gap(self, took_s: float) -> None:
        """From one heartbeat to the next."""
        self._see(_BEAT_GAP, took_s)

    def section(self, name: str, took_s: float) -> None:
        """Of a section, from its begin to its end."""
        self._see(name, took_s)

    def outside(self, took_s: float) -> None:
        """While no section was open."""
        self._see(_OUTSIDE, took_s)

    def of_all_ranks(self) -> LongestTimes:
        """The longest times of all ranks, on every rank; those that some rank has not seen count as well."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return self
        seen: list[dict[str, float]] = [{} for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(seen, self._longest_s)
        names = {name for times in seen for name in times}
        return LongestTimes({name: max(times.get(name, 0.0) for times in seen) for name in names})

    def _see(self, name: str, took_s: float) -> None:
        self._longest_s[name] = max(self._longest_s.get(name, 0.0), took_s)

    def get(self, name: str) -> float | None:
        """Of a section; None where it was never seen."""
        return self._longest_s.get(name)

    @property
    def beats(self) -> tuple[float | None, float | None]:
        """To the first heartbeat, and between two."""
        return self.get(_FIRST_BEAT), self.get(_BEAT_GAP)

    @property
    def longest_outside_s(self) -> float | None:
        """While no section was open."""
        return self.get(_OUTSIDE)


def learned_heartbeats(times: LongestTimes, factor: float, present: HeartbeatTimeouts) -> HeartbeatTimeouts | None:
    """The limits of the heartbeats; None where too little was seen."""
    first_s, gap_s = times.beats
    if first_s is None or gap_s is None:
        return None
    blends = present.were_calculated
    initial = _moved(present.initial, first_s * factor, blends)
    return HeartbeatTimeouts(initial, _moved(present.subsequent, gap_s * factor, blends), were_calculated=True)


def learned_sections(
    times: LongestTimes, factor: float, present: SectionTimeouts, chosen: tuple[str, ...], with_outside: bool
) -> SectionTimeouts | None:
    """The limits of the chosen sections, the others as they are; None where one of those was never seen."""
    seen_s = {name: times.get(name) for name in chosen}
    outside_s = times.longest_outside_s
    if None in seen_s.values() or (with_outside and outside_s is None):
        return None
    limits_s = dict(present.section)
    for name, longest_s in seen_s.items():
        assert longest_s is not None, "checked above"
        limits_s[name] = _moved(limits_s.get(name), longest_s * factor, name in present.calculated_sections)
    outside_limit_s = present.out_of_section
    if with_outside and outside_s is not None:
        outside_limit_s = _moved(outside_limit_s, outside_s * factor, present.is_out_of_section_calculated)
    return SectionTimeouts(
        limits_s,
        outside_limit_s,
        present.calculated_sections | frozenset(chosen),
        present.is_out_of_section_calculated or with_outside,
    )


def _moved(present_s: float | None, new_s: float, blends: bool) -> float:
    return new_s if not blends or present_s is None else (present_s + new_s) / 2
