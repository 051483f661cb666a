"""What goes over a model stream besides the cores' own values."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.refusals import RpcProblem
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


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """The root ends one link of a relay."""

    refusal: RpcProblem | None


@dataclass(frozen=True, slots=True)
class Downward:
    """One message of the root to a relay: what each link is told, in order."""

    told: tuple[tuple[int, object], ...]
