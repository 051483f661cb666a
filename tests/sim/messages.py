"""What goes over a model stream besides the cores' own values."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_rendezvous.core.model import Hello, Observed


@dataclass(frozen=True, slots=True)
class Introduction:
    """A stream's first message."""

    hello: Hello
    observed: Observed


@dataclass(frozen=True, slots=True)
class Beat:
    """A beat with the launcher's clock."""

    sequence: int
    sent_wall: float
    clock_offset_s: float | None
    clock_error_s: float | None
