"""The limits that a launcher gives its workers for named sections, and what of them applies when. Pure.

A section that is not named has no limit of its own. While a run warms up, its steps may take as long as the section
`warmup`: the first ones compile, fill caches and open files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STEP = "step"
"""The section that a warm-up is for."""
WARMUP = "warmup"
"""The section whose limit holds for `step` meanwhile."""
DEFAULT_WARMUP_STEPS = 5
DEFAULT_SAFETY_FACTOR = 5.0


@dataclass(frozen=True, slots=True)
class GivenLimits:
    """What the launcher was told, in seconds; None for no limit."""

    first_beat_s: float | None = None
    beat_s: float | None = None
    sections_s: Mapping[str, float] = field(default_factory=dict)
    out_of_section_s: float | None = None
    safety_factor: float = DEFAULT_SAFETY_FACTOR
    """By how much a limit that is learned exceeds the longest time seen."""
    warmup_steps: int = DEFAULT_WARMUP_STEPS

    def section_s(self, name: str, steps_done: int) -> float | None:
        """The limit of a section after so many steps of this run."""
        return limit_of(self.sections_s, name, steps_done, self.warmup_steps)


def limit_of(sections_s: Mapping[str, float | None], name: str, steps_done: int, warmup_steps: int) -> float | None:
    """The limit of a section after so many steps of this run; None for none."""
    if name == STEP and steps_done < warmup_steps and WARMUP in sections_s:
        return sections_s[WARMUP]
    return sections_s.get(name)
