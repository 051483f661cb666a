"""What policy is asked about a round, and when that is put anew.

A round's verdict is asked for in the step that fences, by what is known then. Before the verdict is there a further
fault, or a launcher that closes its stream or is back, may name another culprit: then the round is put anew, and the
answer to what was asked before counts for nothing, neither for this round nor for a later one. Nothing waits longer for
it, as the limit for a verdict runs on from the fence. After a few times in one round the last question stands: later
news still moves the charge and the offence, not the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from resurge_libs.core.ids import IncidentId, NodeId, Rank
from resurge_libs.core.reasons import Reason
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import FaultView, IncidentView
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.budgets import cause_budget_of
from resurge_rendezvous.core.capacity import nodes_available
from resurge_rendezvous.core.causes import FaultRecord, by_cause, first_cause
from resurge_rendezvous.core.closing import of_round, stands_first, with_losses_in_sight
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.excluding import culprit_view
from resurge_rendezvous.core.job import Fenced, Formation, Incident
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.progressing import put_question
from resurge_rendezvous.core.questions import ANEW_MAX


def view_of(
    d: Draft, formation: Formation, name: IncidentId, number: int, faults: Sequence[FaultRecord]
) -> IncidentView:
    """What policy is asked about a round that begins."""
    wall = d.stamp.wall
    view = IncidentView(
        job=d.spec.job_id,
        attempt=d.job.attempt,
        generation=formation.generation,
        cycle=formation.cycle,
        incident=name,
        round=number,
        faults=(),
        restarts_spent=d.job.restarts_spent,
        max_restarts=d.spec.max_restarts,
        min_nodes=d.spec.min_nodes,
        nodes_available=nodes_available(d),
        failure_ages_s=tuple(max(0.0, wall - at) for at in reversed(d.job.failure_walls)),
        jitter=d.stamp.chance,
        no_restart=d.job.no_restart,
        no_restart_exit_code=d.spec.no_restart_exit_code,
        restarts_refunded=d.job.refunded,
        backoff=d.spec.restarts.backoff,
    )
    return _blaming(d, formation, view, faults)


def _blaming(d: Draft, formation: Formation, view: IncidentView, faults: Sequence[FaultRecord]) -> IncidentView:
    """The view with what happened, and whom and what began it, by what is known now."""
    faults = with_losses_in_sight(d, formation, faults)
    cause = first_cause(faults).trouble
    return replace(
        view,
        faults=tuple(
            FaultView(fault.node, fault.because, fault.rank, fault.exit_code, fault.signal, fault.step)
            for fault in by_cause(faults)
        ),
        culprit=culprit_view(d, formation, faults),
        cause=cause,
        cause_budget=cause_budget_of(d.job, d.spec, cause),
    )


def _waiting(d: Draft) -> tuple[Formation, Incident] | None:
    """The open round, while its verdict is not there and it may still be put anew."""
    match d.job.stage:
        case Fenced(formation, incident) if incident.verdict is None and d.seen.questions.anew < ANEW_MAX:
            return formation, incident
        case _:
            return None


def _put_anew(d: Draft, formation: Formation, incident: Incident) -> None:
    """Put the round anew where what is known now names another culprit."""
    view = _blaming(d, formation, incident.view, incident.faults)
    if _blamed(view) == _blamed(incident.view):
        return
    d.record(f.CulpritChanged(incident.incident, incident.round, view))
    d.see(questions=d.seen.questions.put_anew(d.seen.policy_asked))
    if d.seen.policy_asked:
        put_question(d)


def joined_in(d: Draft, joined: Sequence[FaultRecord]) -> None:
    """Faults have joined the open round: put it anew where one of them is the first now; then a loss in sight may be
    what that one follows from."""
    open_round = _waiting(d) if joined else None
    if open_round is not None and first_cause(of_round(*open_round)) in joined:
        _put_anew(d, *open_round)


def closed_in_sight(d: Draft, seat: Seat) -> None:
    """A member's kernel closed its stream: put the round anew where that would have begun it."""
    open_round = _waiting(d)
    if open_round is not None and stands_first(d, seat, *open_round):
        _put_anew(d, *open_round)


def back_in_place(d: Draft, node: NodeId) -> None:
    """A launcher is back that was taken for a loss in sight."""
    open_round = _waiting(d)
    culprit = open_round[1].view.culprit if open_round is not None else None
    if open_round is not None and culprit is not None and culprit.node == node:
        _put_anew(d, *open_round)


def _blamed(view: IncidentView) -> tuple[NodeId, Rank | None, Reason] | None:
    """Who it is, by what is known; the cause of the trouble follows from it."""
    culprit = view.culprit
    return None if culprit is None else (culprit.node, culprit.rank, culprit.code)
