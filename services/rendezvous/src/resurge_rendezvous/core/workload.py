"""What workers ask for: to stop restarting, or to leave their node out. Acted on at once, once per request id.

Stopping ends every launcher with 0 where no rank had failed when it was asked, else with 1; it never tells a scheduler
not to requeue. Leaving a node out fences the generation that runs on it, so that training goes on without the node;
where MIN could not be reached without it, or the circuit breaker holds, the node is kept, and the worker is told.
Scheduler allocations are never touched. An earlier generation may still ask while the recovery from it is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from resurge_libs.core.instant import Wall
from resurge_libs.core.machine import Reply
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, StaleGeneration, Unready, WrongJob
from resurge_libs.core.verdict import EXIT_FAILED, EXIT_SUCCESS
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.events import ControlAsked
from resurge_rendezvous.core.excluding import exclude_by_verdict
from resurge_rendezvous.core.faults import corrected, raise_faults
from resurge_rendezvous.core.job import Ended, Fenced, OrderTaken, TerminalDecision
from resurge_rendezvous.core.store import was_taken
from resurge_rendezvous.core.values import ControlAction


@dataclass(frozen=True, slots=True)
class ControlTaken:
    """What came of a worker's wish; the answer to `ControlAsked`."""

    carried_out: bool
    because: Because
    decision: TerminalDecision | None = None


def on_control(d: Draft, event: ControlAsked) -> None:
    """Carry out a worker's wish. Raises StaleGeneration, BadRequest, WrongJob, or Unready before the job is open."""
    _check(d, event)
    stage, order = d.job.stage, type(event).__name__
    if was_taken(d.job, event.request, order):
        taken = ControlTaken(True, Because(Reason.OBSERVED, "carried out before"))
    elif isinstance(stage, Ended):
        taken = ControlTaken(False, Because(Reason.LATE_EVENT_IGNORED, f"the job had ended: {stage.decision.because}"))
    else:
        _check_generation(d, event)
        d.record(f.RequestAnswered(event.request, OrderTaken(order)))
        taken = _carried_out(d, event)
    d.because = taken.because
    after = d.job.stage
    decision = after.decision if isinstance(after, Ended) else None
    d.do(Reply(ControlTaken(taken.carried_out, taken.because, decision)))


def _check(d: Draft, event: ControlAsked) -> None:
    if d.job.spec is None:
        raise Unready(Because(Reason.BELOW_MIN_NODES, "no launcher has opened a job yet"))
    if event.token.job != d.spec.job_id:
        raise WrongJob(event.token.job, d.spec.job_id)
    if d.job.nodes.get(event.node) is None:
        raise BadRequest.of("node_id", f"{event.node!r} is not known to the job")


def _check_generation(d: Draft, event: ControlAsked) -> None:
    last, incident = d.job.last_formation, d.job.open_incident
    asked = event.token.generation
    is_present = last is not None and asked == last.generation
    is_of_incident = incident is not None and incident.generation_from <= asked <= d.job.generation
    if event.token.attempt != d.job.attempt or not (is_present or is_of_incident):
        raise StaleGeneration(event.token, d.job.token)


def _carried_out(d: Draft, event: ControlAsked) -> ControlTaken:
    match event.action:
        case ControlAction.CONTINUE:
            return ControlTaken(False, Because(Reason.OBSERVED, "the workload goes on, as it was asked"))
        case ControlAction.SHUTDOWN_WORKLOAD:
            return _stopped(d, event)
        case ControlAction.EXCLUDE_THIS_NODE:
            return _left_out(d, event)
        case _:
            assert_never(event.action)


def _asked(d: Draft, event: ControlAsked) -> Wall:
    """When it was asked, in the service's time."""
    seat = d.seen.seats.get(event.node)
    return corrected(d, seat, event.at) if seat is not None else Wall(min(event.at, d.stamp.wall))


def _stopped(d: Draft, event: ControlAsked) -> ControlTaken:
    because = Because(Reason.WORKLOAD_SHUTDOWN, _told(event, "asked to stop restarting"))
    terminate(d, EXIT_FAILED if _failed_before(d, event) else EXIT_SUCCESS, because)
    return ControlTaken(True, because)


def _failed_before(d: Draft, event: ControlAsked) -> bool:
    """Whether a rank had failed before this worker asked. That it leaves afterwards, by an error, is what was asked."""
    asked_at = _asked(d, event)
    match d.job.stage:
        case Fenced(_, incident):
            faults: tuple[FaultRecord, ...] = incident.faults
        case _:
            faults = d.seen.held_faults
    return any(fault.at < asked_at for fault in faults)


def _left_out(d: Draft, event: ControlAsked) -> ControlTaken:
    because = Because(Reason.EXCLUDED, _told(event, "asked to leave its node out"))
    entry = d.entry(event.node)
    if entry.exclusion is not None:
        return ControlTaken(False, Because(Reason.EXCLUDED, f"{event.node} is out already: {entry.exclusion.because}"))
    exclude_by_verdict(d, (event.node,), because, f"rank {event.rank} on {event.node}")
    entry = d.entry(event.node)
    if entry.exclusion is None:
        return ControlTaken(False, entry.would_exclude or because)
    running = d.job.running_formation
    if running is not None and event.node in d.seen.members:
        raise_faults(
            d, [FaultRecord(event.node, because, _asked(d, event), running.generation, rank=event.rank)], hold=False
        )
    return ControlTaken(True, because)


def _told(event: ControlAsked, what: str) -> str:
    return f"rank {event.rank} on {event.node} {what}" + (f": {event.reason}" if event.reason else "")
