"""Reads a duration as people write it. Pure, and imports nothing heavy: command lines use it at start."""

from __future__ import annotations

import math
import re

_DURATION = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)(ms|s|m|h)?")
_UNITS_S = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NEVER = ("none", "null", "never", "")


def seconds_of(text: str) -> float:
    """Seconds of `2.5`, `500ms`, `2s`, `10m` or `1h`. Raises ValueError, saying what would be right."""
    found = _DURATION.fullmatch(text.strip().lower())
    duration_s = float(found[1]) * _UNITS_S[found[2]] if found else math.inf
    if not math.isfinite(duration_s):
        raise ValueError(f"{text!r} is not a duration")
    return duration_s
