"""From what was seen to faults, and from faults to an open incident.

A fault fences the running generation and orders all down in the same step. While some nodes have finished it is held
for the finish window first: what looks like a loss may be the end of the job. Before every rank has committed a step,
a fault continues the open incident with a further round; after that it opens one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from resurge_libs.core.fault_cause import cause_of
from resurge_libs.core.ids import IncidentId, NodeId, Rank
from resurge_libs.core.instant import Wall, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.asking import joined_in, view_of
from resurge_rendezvous.core.causes import FaultRecord, by_cause
from resurge_rendezvous.core.clearing import confirm_members
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.fold import FAULTS_MAX
from resurge_rendezvous.core.job import Fenced, Formation, Proving, Running
from resurge_rendezvous.core.limits import teardown_patience_s
from resurge_rendezvous.core.presence import Seat, Timers
from resurge_rendezvous.core.progressing import ask_policy
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.sweeps import next_sweep
from resurge_rendezvous.core.values import ExitRecord, NodePhase


def corrected(d: Draft, seat: Seat, at: Wall) -> Wall:
    """A launcher's time in the service's own: after 1970, whatever its clock says, and not later than now, as it has
    been heard of already."""
    offset_s = seat.clock.offset_s if seat.clock is not None else 0.0
    return Wall(max(0.0, min(at + offset_s, d.stamp.wall)))


def unseen_s(d: Draft, seat: Seat) -> float:
    """For how long before now a launcher may have been gone, or going, unseen: while the service had no time to look,
    but not while the launcher is known to have sent beats."""
    late_s = d.stamp.late_s
    return late_s if seat.said_at is None else max(0.0, min(late_s, d.stamp.wall - seat.said_at))


def faults_observed(d: Draft, seat: Seat, formation: Formation) -> list[FaultRecord]:
    """The faults that a node's observed state claims about the given generation."""
    observed = seat.observed
    found: list[FaultRecord] = []
    if observed.generation == formation.generation:
        found += [_of_exit(d, seat, formation, record) for record in observed.exits if record.is_fault]
        for fault in observed.faults:
            at = corrected(d, seat, fault.at)
            cause = cause_of(fault.because.code, fault.because.sentence)
            found.append(replace(_record(seat, formation, fault.because, at, rank=fault.rank), cause=cause))
    if seat.leaving is not None and seat.node in d.seen.unfinished:
        found.append(replace(_record(seat, formation, seat.leaving, d.stamp.wall), clock_error_s=unseen_s(d, seat)))
    if not found and observed.phase is NodePhase.READY and observed.generation >= formation.generation:
        because = Because(Reason.ENDED_ITS_WORKERS, f"{seat.node} ended its workers by itself")
        found.append(_record(seat, formation, because, d.stamp.wall))
    return found


def _of_exit(d: Draft, seat: Seat, formation: Formation, exit_: ExitRecord) -> FaultRecord:
    if exit_.signal is not None:
        because = Because(Reason.WORKER_SIGNAL, f"rank {exit_.rank} was ended by signal {exit_.signal}")
    else:
        because = Because(Reason.WORKER_EXIT, f"rank {exit_.rank} exited with code {exit_.exit_code}")
    cause = cause_of(because.code, exit_.error)
    return FaultRecord(
        node=seat.node,
        because=because,
        at=corrected(d, seat, exit_.at),
        generation=formation.generation,
        clock_error_s=seat.clock.error_s if seat.clock is not None else None,
        rank=exit_.rank,
        exit_code=exit_.exit_code,
        signal=exit_.signal,
        step=exit_.last_step,
        cause=cause,
    )


def _record(seat: Seat, formation: Formation, because: Because, at: Wall, rank: Rank | None = None) -> FaultRecord:
    error_s = seat.clock.error_s if seat.clock is not None else None
    return FaultRecord(seat.node, because, at, formation.generation, error_s, rank)


def raise_faults(d: Draft, faults: Sequence[FaultRecord], hold: bool = True) -> None:
    """Act on faults of the newest generation: hold them, fence for them, or join them to the open incident."""
    match d.job.stage:
        case Running() | Proving():
            new = _new_faults(faults, d.seen.held_faults)
            if not new:
                return
            some_finished = len(d.seen.unfinished) < len(d.seen.members)
            if hold and some_finished:
                _hold(d, new)
            else:
                fence(d, (*d.seen.held_faults, *new))
        case Fenced(_, incident):
            room = FAULTS_MAX - len(incident.faults)
            joined = _new_faults(faults, incident.faults)[:room]
            for fault in joined:
                d.record(f.FaultJoined(incident.incident, fault))
                d.because = fault.because
            joined_in(d, joined)
        case _:
            return


def _new_faults(faults: Sequence[FaultRecord], known: Sequence[FaultRecord]) -> list[FaultRecord]:
    seen = {_claim(fault) for fault in known}
    new = []
    for fault in faults:
        if _claim(fault) not in seen:
            seen.add(_claim(fault))
            new.append(fault)
    return new


def _claim(fault: FaultRecord) -> tuple[int, NodeId, int | None, Reason]:
    return fault.generation, fault.node, fault.rank, fault.because.code


def _hold(d: Draft, new: list[FaultRecord]) -> None:
    d.see(held_faults=(*d.seen.held_faults, *new)[:FAULTS_MAX])
    if d.seen.timers.fence_at is None:
        d.set_timers(fence_at=after(d.now, d.limits.finish_window_s))
    d.because = Because(
        new[0].because.code,
        f"{new[0].because.sentence}; held for {d.limits.finish_window_s:g} s, as some nodes have finished",
    )


def fence(d: Draft, faults: Sequence[FaultRecord]) -> None:
    """Fence the running generation, order all down, ask policy: one step."""
    ordered = by_cause(faults)
    known = d.job.open_incident
    room = FAULTS_MAX - (len(known.faults) if known is not None else 0)
    first, others = ordered[0], ordered[1 : max(1, room)]
    match d.job.stage:
        case Running(formation):
            name = IncidentId(d.stamp.fresh_id)
            view = view_of(d, formation, name, 0, ordered)
            d.record(f.IncidentOpened(name, first, d.stamp.wall, view))
        case Proving(formation, incident):
            name, number = incident.incident, incident.round + 1
            view = view_of(d, formation, name, number, (*incident.faults, *ordered))
            d.record(f.RoundReopened(name, number, first, d.stamp.wall, view))
        case _:
            raise AssertionError("only a running generation is fenced")
    for fault in others:
        d.record(f.FaultJoined(name, fault))
    timers = Timers(
        verdict_at=after(d.now, d.limits.verdict_limit_s),
        teardown_at=after(d.now, teardown_patience_s(d.limits)),
        exclusion_at=d.seen.timers.exclusion_at,
    )
    d.see(
        timers=timers,
        held_faults=(),
        policy_asked=False,
        questions=d.seen.questions.of_new_round(),
        fenced_at=d.now,
        last_call_over=False,
        down_wall=None,
        waits_for=None,
    )
    if d.seen.spans_of != name:
        d.see(spans=ShardMap(), spans_of=name)
    d.set_timers(sweep_at=next_sweep(d))  # closed streams have the resume window from now on, not the whole lease
    ask_policy(d)  # at once, or when the cycle's progress is known
    confirm_members(d)
    d.touch_all()
    d.because = first.because
