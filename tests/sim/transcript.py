"""How a world is told to people: one line per event, as in scripts/*.txt."""

from __future__ import annotations

from collections.abc import Iterable

WIDTH = 200


def line(at_s: float, who: str, what: str) -> str:
    """Time in the world, who, what."""
    return f"{at_s:9.3f}  {who:6s} {what}"[:WIDTH].rstrip()


def text(lines: Iterable[tuple[float, str, str]]) -> str:
    return "\n".join(line(*one) for one in lines)
