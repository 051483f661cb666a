"""Core values to proto and back. Instants become wall-clock times here, by one offset for the launcher's whole life.

Decides nothing; what rendezvous sends that does not fit raises BadDesired, and the stream is opened anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.rendezvous.v1 import attach_pb2, drain_pb2
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.goals import DownGoal, ExitGoal, Goal, ParkGoal, RunGoal, StopOrder, StopPhase
from resurge_launcher.wire_musters import order_of, replacement_to_proto, replacing_of, report_to_proto
from resurge_libs.core.end_cause import end_cause_named
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.progress import CycleProgress, MarkerReading
from resurge_libs.core.reasons import Reason
from resurge_libs.core.recommendation import StopAction
from resurge_libs.rpc.errors import because_from_proto, because_to_proto

PROTOCOL_VERSION = 1
ERROR_LIMIT_CHARACTERS = 4_000
NS = 1_000_000_000

_PHASES = {
    h.NodePhase.READY: attach_pb2.NODE_PHASE_READY,
    h.NodePhase.STARTING: attach_pb2.NODE_PHASE_STARTING,
    h.NodePhase.RUNNING: attach_pb2.NODE_PHASE_RUNNING,
    h.NodePhase.TEARING_DOWN: attach_pb2.NODE_PHASE_TEARING_DOWN,
    h.NodePhase.FINISHED: attach_pb2.NODE_PHASE_FINISHED,
    h.NodePhase.STUCK: attach_pb2.NODE_PHASE_STUCK,
    h.NodePhase.LEAVING: attach_pb2.NODE_PHASE_LEAVING,
}
_MILESTONES = {
    m.MilestoneKind.WORKER_STARTED: attach_pb2.MILESTONE_KIND_WORKER_STARTED,
    m.MilestoneKind.PROCESS_GROUP_READY: attach_pb2.MILESTONE_KIND_PROCESS_GROUP_READY,
    m.MilestoneKind.CHECKPOINT_RESTORED: attach_pb2.MILESTONE_KIND_CHECKPOINT_RESTORED,
    m.MilestoneKind.FIRST_STEP: attach_pb2.MILESTONE_KIND_FIRST_STEP,
}
STOP_ACTIONS = {
    StopAction.LOG: attach_pb2.ATTRIBUTION_STOP_ACTION_LOG,
    StopAction.NO_RESTART: attach_pb2.ATTRIBUTION_STOP_ACTION_NO_RESTART,
}


NOTHING_DRAINS = h.Draining()
_STOP_PHASES = {
    drain_pb2.STOP_PHASE_ASK: StopPhase.ASK,
    drain_pb2.STOP_PHASE_HOLD: StopPhase.HOLD,
    drain_pb2.STOP_PHASE_DECIDED: StopPhase.DECIDED,
}


class BadDesired(Exception):
    """A desired state that this launcher cannot understand: a peer of another release."""


@dataclass(frozen=True, slots=True)
class Times:
    """Turns instants into wall-clock time."""

    wall_minus_monotonic_ns: int

    def stamp(self, instant: Instant) -> Timestamp:
        """The wall-clock time of an instant."""
        stamp = Timestamp()
        stamp.FromNanoseconds(max(0, round(instant * NS) + self.wall_minus_monotonic_ns))
        return stamp

    def of(self, stamp: Timestamp) -> float:
        """Seconds on this machine's monotonic scale; of a stamp of this launcher's own clock, its instant."""
        return (stamp.ToNanoseconds() - self.wall_minus_monotonic_ns) / NS


def duration(seconds: float) -> Duration:
    """Seconds as a Duration."""
    value = Duration()
    value.FromNanoseconds(round(seconds * NS))
    return value


def observed_to_proto(observed: h.Observed, times: Times) -> attach_pb2.Observed:
    """The whole observed state, without greeting and beat."""
    proto = attach_pb2.Observed(
        revision_seen=observed.revision_seen,
        phase=_PHASES[observed.phase],
        generation=observed.generation,
        exits=[_exit_to_proto(record, times) for record in observed.exits],
        faults=[_fault_to_proto(fault, times) for fault in observed.faults],
        milestones=[_milestone_to_proto(milestone, times) for milestone in observed.milestones],
        spans=[_span_to_proto(span, times) for span in observed.spans],
        incident_id=observed.incident_id,
        exit_acknowledged=observed.exit_acknowledged,
        workers=[
            attach_pb2.WorkerProcess(rank=worker.rank, local_rank=worker.local_rank, pid=worker.pid)
            for worker in observed.workers
        ],
    )
    if observed.store_offer is not None:
        proto.store_offer.address = observed.store_offer.address
        proto.store_offer.port = observed.store_offer.port
        proto.store_offer.is_served = observed.store_offer.is_served
    if observed.leaving_signal is not None:
        proto.leaving_signal = observed.leaving_signal
    if observed.progress is not None:
        proto.progress.CopyFrom(_progress_to_proto(observed.progress))
    for notice in observed.aborts:
        proto.aborts.add(rank=notice.rank, number=notice.number, phase=notice.phase, left=duration(notice.left_s))
    proto.replacements.extend(replacement_to_proto(one, times.stamp) for one in observed.replacements)
    if observed.muster is not None:
        proto.muster.CopyFrom(report_to_proto(observed.muster))
    if observed.draining != NOTHING_DRAINS:
        proto.draining.CopyFrom(_draining_to_proto(observed.draining))
    return proto


def _draining_to_proto(draining: h.Draining) -> drain_pb2.Draining:
    proto = drain_pb2.Draining(asks=draining.asks, told=draining.told, offer=draining.offer, held=draining.held)
    if draining.notice_signal is not None:
        proto.notice_signal = draining.notice_signal
        proto.grace.CopyFrom(duration(draining.grace_s))
    return proto


def _progress_to_proto(progress: CycleProgress) -> attach_pb2.CycleProgress:
    return attach_pb2.CycleProgress(
        at_start=_reading_to_proto(progress.at_start),
        at_end=_reading_to_proto(progress.at_end),
        is_over=progress.is_over,
        sdk_step=progress.sdk_step,
    )


def _reading_to_proto(reading: MarkerReading | None) -> attach_pb2.MarkerReading | None:
    return None if reading is None else attach_pb2.MarkerReading(value=reading.value, skipped=reading.skipped)


def _exit_to_proto(record: m.ExitRecord, times: Times) -> attach_pb2.ExitRecord:
    proto = attach_pb2.ExitRecord(
        rank=record.rank,
        local_rank=record.local_rank,
        pid=record.pid,
        at=times.stamp(record.at),
        error=record.error[:ERROR_LIMIT_CHARACTERS],
        ended_by_launcher=record.ended_by_launcher or record.forgiven,  # no fault, either way
    )
    if record.exit_code is not None:
        proto.exit_code = record.exit_code
    if record.signal is not None:
        proto.signal = record.signal
    if record.last_step is not None:
        proto.last_step = record.last_step
    return proto


def _fault_to_proto(fault: m.Fault, times: Times) -> attach_pb2.ObservedFault:
    proto = attach_pb2.ObservedFault(because=because_to_proto(fault.because), at=times.stamp(fault.at))
    if fault.rank is not None:
        proto.rank = fault.rank
    return proto


def _milestone_to_proto(milestone: m.Milestone, times: Times) -> attach_pb2.Milestone:
    proto = attach_pb2.Milestone(rank=milestone.rank, kind=_MILESTONES[milestone.kind], at=times.stamp(milestone.at))
    if milestone.step is not None:
        proto.step = milestone.step
    return proto


def _span_to_proto(span: m.Span, times: Times) -> attach_pb2.Span:
    proto = attach_pb2.Span(name=span.name, start=times.stamp(span.start), end=times.stamp(max(span.start, span.end)))
    if span.rank is not None:
        proto.rank = span.rank
    for name, value in span.attributes:
        proto.attributes[name] = value
    return proto


def desired_from_proto(desired: attach_pb2.Desired) -> h.DesiredReceived | None:
    """The goal in a message; None when it only answers a beat. Raises BadDesired."""
    if desired.WhichOneof("goal") is None:
        if desired.revision:
            raise BadDesired(f"revision {desired.revision} carries no goal that this launcher knows")
        return None
    return h.DesiredReceived(desired.revision, _goal(desired), Generation(desired.current_generation))


def _goal(desired: attach_pb2.Desired) -> Goal:
    match desired.WhichOneof("goal"):
        case "run":
            return _run(desired.run)
        case "down":
            return DownGoal(
                Generation(desired.down.generation),
                because_from_proto(desired.down.because, Reason.TEARDOWN_ORDERED),
                IncidentId(desired.down.incident_id),
                desired.down.traceparent,
                desired.down.reads_marker,
            )
        case "park":
            return ParkGoal(because_from_proto(desired.park.because, Reason.NODE_PARKED))
        case "exit":
            return ExitGoal(
                desired.exit.code,
                because_from_proto(desired.exit.because, Reason.RELEASED),
                desired.exit.all_acknowledged,
                Attempt(desired.exit.attempt),
                Generation(desired.exit.generation),
                end_cause_named(desired.exit.cause),
            )
        case other:
            raise BadDesired(f"goal {other!r} is not known to this launcher")


def _run(run: attach_pb2.Run) -> RunGoal:
    if run.generation < 1 or run.world_size < 1 or not run.master_addr or not 1 <= run.master_port <= 65_535:
        raise BadDesired(f"generation {run.generation}: the assignment to run is incomplete")
    return RunGoal(
        generation=Generation(run.generation),
        attempt=Attempt(run.attempt),
        cycle=Cycle(run.cycle),
        group_rank=run.group_rank,
        group_world_size=run.group_world_size,
        base_rank=run.base_rank,
        world_size=run.world_size,
        master_addr=run.master_addr,
        master_port=run.master_port,
        max_restarts=run.max_restarts,
        restarts_spent=run.restarts_spent,
        incident_id=IncidentId(run.incident_id),
        traceparent=run.traceparent,
        delay_s=max(0.0, run.delay.ToNanoseconds() / NS),
        store_is_served=run.store_is_served,
        stop=_stop(run.stop) if run.HasField("stop") else None,
        aborts=tuple(
            AbortNotice(Rank(one.rank), one.number, one.phase, max(0.0, one.left.ToNanoseconds() / NS))
            for one in run.aborts
        ),
        muster=order_of(run.muster) if run.HasField("muster") else None,
        in_place_refusal=run.in_place_refusal,
        replacing=replacing_of(run.replacing) if run.HasField("replacing") else None,
    )


def _stop(stop: drain_pb2.Stop) -> StopOrder:
    phase = _STOP_PHASES.get(stop.phase)
    if phase is None:
        raise BadDesired(f"stop phase {stop.phase} is not known to this launcher")
    return StopOrder(phase, stop.step)
