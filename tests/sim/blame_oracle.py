"""What a verdict judges: the question that it answers names the culprit that is known when it is taken.

Where a round was put anew as often as may be, or the service started again since the fence, an earlier word stands.
"""

from __future__ import annotations

from collections.abc import Callable

from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import IncidentView
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core.causes import FaultRecord, first_cause
from resurge_rendezvous.core.presence import RdzvState
from resurge_rendezvous.core.questions import ANEW_MAX


class BlameOracle:
    """Told of each question and each step."""

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail
        self.asked: dict[int, IncidentView] = {}
        """Of this life of the service, by their numbers."""
        self.anew = 0
        """Rounds that were put anew in this world."""

    def decided(self, event: object, before: RdzvState, step: Step[RdzvState]) -> None:
        """A step was taken: is a verdict that it latches about the right culprit?"""
        self.anew += sum(isinstance(fact, rm.CulpritChanged) for fact in step.facts)
        stage = before.durable.stage
        if not isinstance(event, rm.VerdictArrived) or not isinstance(stage, rm.Fenced):
            return
        if not any(isinstance(fact, rm.VerdictLatched) for fact in step.facts):
            return
        view, seen = stage.incident.view, before.volatile
        asked = self.asked[event.question]
        if _blamed(asked) != _blamed(view):
            self._fail("blame", f"a verdict on {_blamed(asked)} is taken for one on {_blamed(view)}")
        if seen.fenced_at is None or seen.questions.anew >= ANEW_MAX:
            return
        known = _known(stage, before)
        if known is not None and (known.node, known.because.code) != _blamed(view):
            self._fail("blame", f"{known.node} ({known.because}) began it, and policy is asked about {_blamed(view)}")


def _blamed(view: IncidentView) -> tuple[str, Reason] | None:
    return None if view.culprit is None else (view.culprit.node, view.culprit.code)


def _known(stage: rm.Fenced, state: RdzvState) -> FaultRecord | None:
    """Who began the round by all that is known: its faults, and members whose kernel has closed the stream."""
    generation, seen = stage.formation.generation, state.volatile
    faults = [fault for fault in stage.incident.faults if fault.generation == generation]
    told = {fault.node for fault in faults if fault.rank is None}
    for seat in seen.seats.values():
        place = seen.members.get(seat.node)
        if place is None or place.incarnation != seat.incarnation or seat.node in told:
            continue
        if seat.closed_by_peer_at is None or seat.leaving is not None or seat.doomed is not None:
            continue
        if seat.silent_since is not None and seat.node in seen.unfinished:
            lost = Because(Reason.STREAM_LOST)
            faults.append(FaultRecord(seat.node, lost, seat.silent_since, generation, seat.unseen_s))
    return first_cause(faults) if faults else None
