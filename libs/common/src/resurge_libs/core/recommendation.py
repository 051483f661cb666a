"""What attribution recommends, and when that may end a job. Values and one pure rule; asks nobody.

A recommendation is advice: it is counted and recorded whatever it says. Only a STOP can do more, and only where the job
was started with the action `no-restart`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Attempt, Generation, IncidentId, NodeId


class RecommendationKind(StrEnum):
    """What attribution would do."""

    RESTART = "RESTART"
    RESTART_EXCLUDING = "RESTART_EXCLUDING"
    STOP = "STOP"
    CONTINUE = "CONTINUE"
    UNKNOWN = "UNKNOWN"


class StopAction(StrEnum):
    """What a STOP of attribution does (`--ft-attribution-stop-action`)."""

    LOG = "log"
    NO_RESTART = "no-restart"


class RecommendationEffect(StrEnum):
    """What came of a recommendation."""

    RECORDED = "RECORDED"
    LATCHED = "LATCHED"
    ENDED = "ENDED"
    TOO_LATE = "TOO_LATE"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What attribution makes of the evidence of one generation."""

    kind: RecommendationKind
    sentence: str = ""
    attempt: Attempt = Attempt(0)
    """0 where it does not say: the present one."""
    generation: Generation = Generation(0)
    confidence: float | None = None
    """From 0 to 1; None where it does not say."""
    culprits: tuple[NodeId, ...] = ()
    incident: IncidentId | None = None
    source: str = ""

    @property
    def told(self) -> str:
        """Who says what and why, in one clause."""
        sure = f" ({self.confidence:.0%} sure)" if self.confidence is not None else ""
        who = self.source or "attribution"
        return f"{who} recommends {self.kind}{sure}" + (f": {self.sentence}" if self.sentence else "")


def ends_the_job(said: Recommendation, action: StopAction) -> bool:
    """Whether a recommendation, by itself, is a reason to end the job."""
    return said.kind is RecommendationKind.STOP and action is StopAction.NO_RESTART
