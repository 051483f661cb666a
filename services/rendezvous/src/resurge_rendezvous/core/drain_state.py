"""The durable part of a drain: who is to go, and the step that ranks agreed to stop at. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Generation, NodeId
from resurge_libs.core.reasons import Because


@dataclass(frozen=True, slots=True)
class Drain:
    """Somebody was told to leave: the ranks are to save and stop at one step."""

    because: Because
    node: NodeId | None
    """Whose launcher, or machine, is to go; None: all of them."""
    signal: int
    generation: Generation
    grace_s: float
    stop_step: int | None = None
    """The step agreed on; 0: at once."""
    told: bool = False
    """Some worker was told to stop."""
