"""Somebody is told to leave: the ranks of all nodes save and stop at one step, and then the job goes on or ends.

The step is agreed on in three moves, so that no rank passes it while another stops there: every node offers the first
step at which its ranks could stop; all hold their ranks at the highest offer; when every node says that none of its
ranks had passed it, it is decided, durably, and told. A rank that was faster makes a later offer. Who does not answer
is waited for within a bound, and then the ranks of the others stop where they are held.

When all have stopped, the job goes on without the node that leaves, as after a fault of it, where enough others are
there and a restart is left; else it has been preempted. The grace bounds all of it. A fault meanwhile does not change
where it leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGTERM

from resurge_libs.core.fault_cause import cause_of
from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import after
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.budgets import may_restart_for
from resurge_rendezvous.core.capacity import could_take_part
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.drain_state import Drain
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.faults import fence
from resurge_rendezvous.core.job import Ended, Fenced, Gathering, Proving, Running, Unopened
from resurge_rendezvous.core.limits import agreement_limit_s
from resurge_rendezvous.core.offers import StepCounts, counted
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import Draining

SIGNAL_EXIT_BASE = 128


def told_to_leave(d: Draft, seat: Seat) -> None:
    """A launcher was told to leave: it has notice, or is leaving already, with what its workers save by themselves."""
    d.told_to_go = True
    d.mark_ready(seat.node)
    draining = seat.observed.draining
    if seat.leaving is None and seat.notice is not None and draining.notice_signal is not None:
        order_drain(d, seat.node, draining.notice_signal, seat.notice, draining.grace_s)
    elif seat.leaving is not None and seat.node in d.seen.members and d.job.drain is None:
        _end_if_too_few_are_left(d, seat.leaving, seat.observed.leaving_signal or int(SIGTERM))


def order_drain(d: Draft, node: NodeId | None, signal: int, because: Because, grace_s: float) -> None:
    """Have the ranks save and stop, because this node, or the whole job, is to go. The first order stays."""
    running = d.job.running_formation
    d.because = because
    if isinstance(d.job.stage, (Ended, Unopened)) or d.job.drain is not None:
        return
    if running is None:  # nobody trains: nothing to save
        if node is None:
            _preempt(d, because, signal)
        elif node in d.seen.members:
            _end_if_too_few_are_left(d, because, signal)
        return
    if node is not None and node not in d.seen.members:
        return
    d.record(f.DrainOrdered(Drain(because, node, signal, running.generation, grace_s)))
    d.see(stop_hold=None, step_counts=None)
    d.set_timers(agree_at=after(d.now, agreement_limit_s(d.limits, grace_s)), drain_at=after(d.now, grace_s))
    d.touch_all()


def drain_node(d: Draft, node: NodeId | None, because: Because, grace_s: float) -> None:
    """An operator's order: nobody has said yet whether the ranks can stop by themselves."""
    if node is not None and not isinstance(d.job.stage, Ended):
        d.record(f.NodeDrained(node, because))
        d.mark_ready(node)
        d.touch(node)
    order_drain(d, node, int(SIGTERM), because, grace_s)
    drain = d.job.drain
    if drain is not None and drain.stop_step is None and not _all_ask(d, drain):
        _conclude(d, drain)


def settle_drain(d: Draft) -> None:
    """Take a drain as far as it can go now."""
    drain, restated = d.job.drain, d.restated
    d.restated = {}
    if drain is None:
        return
    match d.job.stage:
        case Running() | Proving():
            if drain.stop_step is None:
                _agree(d, drain, restated)
            if drain.told and len(d.seen.unfinished) == 0:
                _conclude(d, drain)
        case Fenced() | Gathering() if d.facts or d.told_to_go:  # nothing else makes nodes, or restarts, fewer
            if drain.node is None or not _has_restart(d) or _could_come(d) < d.spec.min_nodes:
                _preempt(d, drain.because, drain.signal)
        case _:
            return


# --- the agreement ---


def _agree(d: Draft, drain: Drain, restated: Iterable[str]) -> None:
    counts = _counts(d, drain, restated)
    known = len(d.seen.offers)
    if known == 0 or known < len(d.seen.unfinished):
        return
    border = counts.highest
    hold = d.seen.stop_hold
    if border == 0:
        _decide(d, drain, 0, "no rank reports its steps: each stops when it asks next")
    elif hold is None or border > hold:
        d.see(stop_hold=border)
        d.touch_all()
        d.because = Because(Reason.DRAINING, f"all nodes are asked to hold their ranks at step {border}")
    elif counts.holding(hold) == known:
        _decide(d, drain, hold, f"no rank of {known} nodes had passed step {hold}")


def _counts(d: Draft, drain: Drain, restated: Iterable[str]) -> StepCounts:
    """What all nodes say, from what was known and who has news; collected whole where nothing is known."""
    counts = d.seen.step_counts
    if counts is None or counts.generation != drain.generation:
        found = ((node, _offer(d, node, drain)) for node in d.seen.unfinished)
        d.see(offers=ShardMap.of((node, said) for node, said in found if said is not None))
        counts = counted(drain.generation, d.seen.offers)
    else:
        for node in restated:
            was = d.seen.offers.get(node)
            now = _offer(d, node, drain) if node in d.seen.unfinished else None
            if now != was:
                counts = counts.changed(was, now)
                d.see(offers=d.seen.offers.drop(node) if now is None else d.seen.offers.put(node, now))
    if counts is not d.seen.step_counts:
        d.see(step_counts=counts)
    return counts


def _offer(d: Draft, node: str, drain: Drain) -> Draining | None:
    said = _said(d, node, drain)
    return said if said is not None and said.offer is not None else None


def _said(d: Draft, node: str, drain: Drain) -> Draining | None:
    seat = d.seen.seats.get(node)
    if seat is None or seat.observed.generation != drain.generation:
        return None
    return seat.observed.draining


def _all_ask(d: Draft, drain: Drain) -> bool:
    said = [_said(d, node, drain) for node in d.seen.unfinished]
    return all(one is not None and one.asks for one in said)


def _decide(d: Draft, drain: Drain, step: int, sentence: str) -> None:
    because = Because(Reason.STOP_AGREED, sentence)
    d.record(f.StopAgreed(drain.generation, step, because))
    d.set_timers(agree_at=None)
    d.see(offers=ShardMap(), step_counts=None)
    d.touch_all()
    d.because = because


def agreement_over(d: Draft) -> None:
    """Some nodes have not answered in time: the others stop where they are held, or where they offered to."""
    drain = d.job.drain
    if drain is None or drain.stop_step is not None or d.job.running_formation is None:
        return
    counts = _counts(d, drain, d.restated)
    step = d.seen.stop_hold if d.seen.stop_hold is not None else counts.highest
    missing = len(d.seen.unfinished) - len(d.seen.offers)
    _decide(d, drain, step, f"{missing} nodes did not agree within {agreement_limit_s(d.limits, drain.grace_s):g} s")


# --- where it leads ---


def drain_over(d: Draft) -> None:
    """The grace is over: whoever still runs is ended."""
    drain = d.job.drain
    if drain is not None and d.job.running_formation is not None:
        _conclude(d, drain)


def _conclude(d: Draft, drain: Drain) -> None:
    """The ranks have stopped, or will not: go on without the node that leaves, or end."""
    present = sum(could_take_part(d, node) for node in d.seen.seats)
    if drain.node is None or not _has_restart(d) or present < d.spec.min_nodes:
        _preempt(d, drain.because, drain.signal)
        return
    running = d.job.running_formation
    assert running is not None, "a drain is concluded while its generation runs"
    stopped = f"; its ranks stopped at step {drain.stop_step}" if drain.told and drain.stop_step else ""
    because = Because(Reason.NODE_LEFT, f"{drain.because.sentence}{stopped}")
    fence(d, [FaultRecord(drain.node, because, d.stamp.wall, running.generation)])


def _end_if_too_few_are_left(d: Draft, because: Because, signal: int) -> None:
    """Somebody leaves whose workers do not stop by agreement, and nobody can take the place: the job leaves with it."""
    if isinstance(d.job.stage, (Ended, Unopened)) or d.job.last_formation is None:
        return
    if d.job.last_formation.attempt == d.job.attempt and _could_come(d) < d.spec.min_nodes:
        _preempt(d, because, signal)


def _preempt(d: Draft, because: Because, signal: int) -> None:
    drain = d.job.drain
    stopped = f"; the ranks stopped at step {drain.stop_step}" if drain and drain.told and drain.stop_step else ""
    code = d.spec.preempted_exit_code or SIGNAL_EXIT_BASE + signal
    terminate(d, code, Because(Reason.PREEMPTED, f"{because.sentence}{stopped}"))


def _has_restart(d: Draft) -> bool:
    return may_restart_for(d.job, d.spec, cause_of(Reason.NODE_LEFT))


def _could_come(d: Draft) -> int:
    """Nodes that are there or may still come back: not told to leave, and not gone because they were."""
    told = d.job.drain.node if d.job.drain is not None else None
    return sum(
        entry.exclusion is None
        and entry.drained is None
        and not (entry.lost is not None and (entry.lost.code is Reason.NODE_LEFT or entry.node == told))
        and not ((seat := d.seen.seats.get(entry.node)) is not None and seat.is_going)
        for entry in d.job.nodes
    )
