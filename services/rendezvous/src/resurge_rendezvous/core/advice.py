"""What attribution recommends: counted and recorded whatever it says; a STOP ends the job where the job wants that.

A STOP holds for the whole job and at once, but a success is never turned into a stop: once some nodes have finished it
is latched only, and holds at the next fault if there is one. The first latched STOP stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.machine import Reply
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.recommendation import Recommendation, RecommendationEffect, ends_the_job
from resurge_libs.core.refusals import Unready
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import NoRestart, Verdict, VerdictKind
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.events import RecommendationMade
from resurge_rendezvous.core.job import Ended, Fenced, OrderTaken
from resurge_rendezvous.core.store import was_taken
from resurge_rendezvous.core.verdicts import latch

ATTRIBUTION = "attribution"


@dataclass(frozen=True, slots=True)
class AdviceTaken:
    """What came of a recommendation; the answer to `RecommendationMade`."""

    effect: RecommendationEffect
    because: Because


def on_recommendation(d: Draft, event: RecommendationMade) -> None:
    """Take what attribution says, once per request id. Raises Unready before the job is open."""
    if d.job.spec is None:
        raise Unready(Because(Reason.BELOW_MIN_NODES, "no launcher has opened a job yet"))
    order = type(event).__name__
    if was_taken(d.job, event.request, order):
        taken = _standing(d)
    else:
        d.record(f.RequestAnswered(event.request, OrderTaken(order)))
        d.record(f.RecommendationRecorded(event.said, d.stamp.wall))
        taken = _weighed(d, event.said)
    d.because = taken.because
    d.do(Reply(taken))


def _standing(d: Draft) -> AdviceTaken:
    """What is answered when the same recommendation comes again."""
    stage = d.job.stage
    if isinstance(stage, Ended):
        return AdviceTaken(RecommendationEffect.ENDED, stage.decision.because)
    if d.job.no_restart is not None:
        return AdviceTaken(RecommendationEffect.LATCHED, d.job.no_restart.because)
    return AdviceTaken(RecommendationEffect.RECORDED, Because(Reason.OBSERVED, "recorded before"))


def _weighed(d: Draft, said: Recommendation) -> AdviceTaken:
    if not ends_the_job(said, d.spec.attribution_stop_action):
        how = f"; a STOP is only recorded ({d.spec.attribution_stop_action})" if said.kind == "STOP" else ""
        return AdviceTaken(RecommendationEffect.RECORDED, Because(Reason.OBSERVED, f"{said.told}{how}"))
    if isinstance(d.job.stage, Ended):
        over = Because(Reason.LATE_EVENT_IGNORED, f"the job had ended: {d.job.stage.decision.because}")
        return AdviceTaken(RecommendationEffect.TOO_LATE, over)
    if said.attempt and said.attempt != d.job.attempt:
        other = f"it speaks of attempt {said.attempt}, and attempt {d.job.attempt} runs"
        return AdviceTaken(RecommendationEffect.TOO_LATE, Because(Reason.LATE_EVENT_IGNORED, other))
    if d.job.no_restart is None:
        because = Because(Reason.ATTRIBUTION_STOP, said.told)
        d.record(f.NoRestartLatched(NoRestart(because, d.spec.no_restart_exit_code)))
    if d.job.running_formation is not None and len(d.seen.unfinished) < len(d.seen.members):
        held = Because(Reason.NO_RESTART_LATCHED, f"some nodes have finished; it holds at the next fault: {said.told}")
        return AdviceTaken(RecommendationEffect.LATCHED, held)
    return _end(d)


def _end(d: Draft) -> AdviceTaken:
    """End the job for what is latched; an incident that waits for its verdict gets this one."""
    latched = d.job.no_restart
    assert latched is not None, "it was latched just now, or before"
    match d.job.stage:
        case Fenced(_, incident) if incident.verdict is None:
            because = Because(Reason.NO_RESTART_LATCHED, str(latched.because))
            stop = Verdict(VerdictKind.STOP, because, latched.exit_code, source=ATTRIBUTION)
            latch(d, incident, replace(stop, restarts_left=incident.view.budget.left))
        case _:
            terminate(d, latched.exit_code, latched.because)
    stage = d.job.stage
    assert isinstance(stage, Ended), "an open job can always be ended"
    return AdviceTaken(RecommendationEffect.ENDED, stage.decision.because)
