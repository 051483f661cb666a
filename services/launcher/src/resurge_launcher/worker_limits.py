"""The limits of workers that were given to the launcher, as it hands them on to their SDK. A value; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """In seconds; None for no limit."""

    first_beat_s: float | None = None
    sections_s: Mapping[str, float] = field(default_factory=dict)
    out_of_section_s: float | None = None
    safety_factor: float = 5.0
    warmup_steps: int = 5
