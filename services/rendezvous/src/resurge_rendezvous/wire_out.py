"""Core values to proto: what launchers, observers and policy are told. Decides nothing; has no effects."""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import abort_pb2, attach_pb2, drain_pb2, rendezvous_pb2
from resurge_libs.core.ids import IncidentId
from resurge_libs.core.ledger import Doing, Ledger
from resurge_libs.core.trace_ids import trace_id_of
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import IncidentView, Verdict, VerdictKind
from resurge_libs.obs.traceparent import TraceContext
from resurge_libs.rpc.culprits import culprit_to_proto
from resurge_libs.rpc.errors import because_to_proto, token_to_proto
from resurge_libs.rpc.progress import check_to_proto, count_to_proto, rules_to_proto
from resurge_libs.rpc.recommendations import recommendation_to_proto
from resurge_libs.rpc.restarts import backoff_to_proto, cause_budget_to_proto, restart_rules_to_proto
from resurge_rendezvous.core.model import (
    AnswerBeat,
    Desired,
    Down,
    Exit,
    FaultRecord,
    Goal,
    JobPhase,
    JobSpec,
    JobView,
    Park,
    RecommendationTally,
    RecoveryOutcome,
    RecoveryRecord,
    RecoverySpan,
    Run,
    StopPhase,
    TerminalDecision,
)
from resurge_rendezvous.wire import STOP_ACTIONS
from resurge_rendezvous.wire_machines import exclusion_to_proto, node_to_proto
from resurge_rendezvous.wire_musters import order_to_proto
from resurge_rendezvous.wire_replacements import replaced_to_proto, replacing_to_proto
from resurge_rendezvous.wire_times import duration, timestamp

MAX_FAULTS_TOLD = 1_024
"""Policy is told the first ones; the record keeps all."""

STOP_ACTIONS_OUT = {core: proto for proto, core in STOP_ACTIONS.items()}
JOB_PHASES = {
    JobPhase.GATHERING: rendezvous_pb2.JOB_PHASE_GATHERING,
    JobPhase.RUNNING: rendezvous_pb2.JOB_PHASE_RUNNING,
    JobPhase.RECOVERING: rendezvous_pb2.JOB_PHASE_RECOVERING,
    JobPhase.FINISHING: rendezvous_pb2.JOB_PHASE_FINISHING,
    JobPhase.ENDED: rendezvous_pb2.JOB_PHASE_ENDED,
}
OUTCOMES = {
    RecoveryOutcome.OPEN: rendezvous_pb2.RECOVERY_OUTCOME_OPEN,
    RecoveryOutcome.RECOVERED: rendezvous_pb2.RECOVERY_OUTCOME_RECOVERED,
    RecoveryOutcome.STARTED_ONLY: rendezvous_pb2.RECOVERY_OUTCOME_STARTED_ONLY,
    RecoveryOutcome.ENDED: rendezvous_pb2.RECOVERY_OUTCOME_ENDED,
}
STOP_PHASES = {
    StopPhase.ASK: drain_pb2.STOP_PHASE_ASK,
    StopPhase.HOLD: drain_pb2.STOP_PHASE_HOLD,
    StopPhase.DECIDED: drain_pb2.STOP_PHASE_DECIDED,
}
VERDICT_KINDS = {
    VerdictKind.RESTART: policy_pb2.VERDICT_KIND_RESTART,
    VerdictKind.RESTART_EXCLUDING: policy_pb2.VERDICT_KIND_RESTART_EXCLUDING,
    VerdictKind.STOP: policy_pb2.VERDICT_KIND_STOP,
    VerdictKind.SHUTDOWN: policy_pb2.VERDICT_KIND_SHUTDOWN,
}


# --- down a launcher's stream -----------------------------------------------------------------------------------------


def desired_to_proto(desired: Desired) -> attach_pb2.Desired:
    """A node's whole desired state. A goal that many nodes are given in a row is put together once."""
    goal = desired.goal
    alike = replace(goal, group_rank=0, base_rank=0) if isinstance(goal, Run) else goal
    message = attach_pb2.Desired()
    message.CopyFrom(_goal_to_proto(alike, desired.current_generation))
    message.revision = desired.revision
    if isinstance(goal, Run):
        message.run.group_rank, message.run.base_rank = goal.group_rank, goal.base_rank
    return message


@lru_cache(maxsize=4)
def _goal_to_proto(goal: Goal, current_generation: int) -> attach_pb2.Desired:
    message = attach_pb2.Desired(current_generation=current_generation)
    match goal:
        case Run() as run:
            message.run.CopyFrom(_run(run))
        case Down() as down:
            message.down.generation = down.generation
            message.down.because.CopyFrom(because_to_proto(down.because))
            message.down.reads_marker = down.reads_marker
            if down.incident is not None:
                message.down.incident_id = down.incident
                message.down.traceparent = _traceparent(down.incident)
        case Park() as park:
            message.park.because.CopyFrom(because_to_proto(park.because))
        case Exit() as leave:
            message.exit.CopyFrom(
                attach_pb2.Exit(
                    code=leave.code,
                    because=because_to_proto(leave.because),
                    all_acknowledged=leave.all_acknowledged,
                    attempt=leave.attempt,
                    generation=leave.generation,
                    cause=leave.cause,
                )
            )
        case _:
            assert_never(goal)
    return message


def _run(run: Run) -> attach_pb2.Run:
    return attach_pb2.Run(
        generation=run.generation,
        attempt=run.attempt,
        cycle=run.cycle,
        group_rank=run.group_rank,
        group_world_size=run.group_world_size,
        base_rank=run.base_rank,
        world_size=run.world_size,
        master_addr=run.master_addr,
        master_port=run.master_port,
        max_restarts=run.max_restarts,
        restarts_spent=run.restarts_spent,
        incident_id=run.incident or "",
        traceparent=_traceparent(run.incident) if run.incident is not None else "",
        store_is_served=run.store_is_served,
        stop=None if run.stop is None else drain_pb2.Stop(phase=STOP_PHASES[run.stop.phase], step=run.stop.step),
        aborts=[
            abort_pb2.AbortNotice(rank=one.rank, number=one.number, phase=one.phase, left=duration(one.left_s))
            for one in run.aborts
        ],
        muster=order_to_proto(run.muster) if run.muster is not None else None,
        in_place_refusal=run.in_place_refusal,
        replacing=replacing_to_proto(run.replacing),
    )


def beat_reply(answer: AnswerBeat, sent_wall_s: float) -> attach_pb2.BeatReply:
    """The answer to a beat with its four times."""
    return attach_pb2.BeatReply(
        sequence=answer.sequence,
        launcher_sent=timestamp(answer.launcher_sent),
        received=timestamp(answer.received),
        sent=timestamp(sent_wall_s),
        lease_ttl=duration(answer.lease_ttl_s),
    )


def _traceparent(incident: IncidentId) -> str:
    return TraceContext.of_recovery(incident).traceparent


# --- to observers -----------------------------------------------------------------------------------------------------


def job_to_proto(view: JobView) -> rendezvous_pb2.Job:
    """The job as it stands."""
    job = rendezvous_pb2.Job(
        cycle=view.cycle,
        phase=JOB_PHASES[view.phase],
        because=because_to_proto(view.because),
        restarts_spent=view.restarts_spent,
        restarts_refunded=view.restarts_refunded,
        cause_budgets=[cause_budget_to_proto(budget) for budget in view.cause_budgets],
        incident_id=view.incident or "",
        nodes=[node_to_proto(node) for node in view.nodes],
        recoveries_closed=view.recoveries_closed,
        replaced=[replaced_to_proto(one) for one in view.replaced],
    )
    if view.spec is not None:
        job.spec.CopyFrom(spec_to_proto(view.spec))
        job.recommendations.extend(_tally(tally, view.spec) for tally in view.recommendations)
    if view.token is not None:
        job.token.CopyFrom(token_to_proto(view.token))
    if view.spec is not None and view.spec.progress.is_tracked:
        job.progress.CopyFrom(count_to_proto(view.progress, view.spec.progress))
    if view.decision is not None:
        job.decision.CopyFrom(decision_to_proto(view.decision))
    if view.ledger.begun is not None:
        job.ledger.CopyFrom(ledger_to_proto(view.ledger))
    job.exclusions.extend(exclusion_to_proto(one) for one in view.exclusions)
    return job


def ledger_to_proto(ledger: Ledger) -> rendezvous_pb2.Ledger:
    """Where the wall time went."""
    accounts = {
        doing.lower(): duration(ledger.of(doing))
        for doing in Doing
        if doing is not Doing.TRAINING  # its accounts are productive and lost
    }
    return rendezvous_pb2.Ledger(
        begun=timestamp(ledger.begun or 0.0),
        reached=timestamp(ledger.reached),
        doing=f"ACTIVITY_{ledger.doing}",
        productive=duration(ledger.productive_s),
        lost=duration(ledger.lost_s),
        lost_steps=ledger.lost_steps,
        unmeasured=duration(ledger.unmeasured_s),
        **accounts,
    )


def _tally(tally: RecommendationTally, spec: JobSpec) -> rendezvous_pb2.RecommendationCount:
    last = recommendation_to_proto(tally.last, spec.job_id)
    return rendezvous_pb2.RecommendationCount(
        kind=last.kind, count=tally.count, last=last, last_at=timestamp(tally.last_at)
    )


def spec_to_proto(spec: JobSpec) -> attach_pb2.JobSpec:
    """What the job is."""
    return attach_pb2.JobSpec(
        job_id=spec.job_id,
        attempt=spec.attempt,
        min_nodes=spec.min_nodes,
        max_nodes=spec.max_nodes,
        max_restarts=spec.max_restarts,
        segment=spec.segment,
        command_digest=spec.command_digest,
        strict_fence=spec.strict_fence,
        lease_ttl=duration(spec.lease_ttl_s),
        fault_grace=duration(spec.fault_grace_s),
        no_restart_exit_code=spec.no_restart_exit_code,
        attribution_stop_action=STOP_ACTIONS_OUT[spec.attribution_stop_action],
        progress=rules_to_proto(spec.progress) if spec.progress.is_tracked else None,
        max_excluded_share=spec.max_excluded_share,
        exclusion_window=duration(spec.exclusion_window_s),
        preempted_exit_code=spec.preempted_exit_code,
        restarts=restart_rules_to_proto(spec.restarts),
    )


def decision_to_proto(decision: TerminalDecision) -> rendezvous_pb2.TerminalDecision:
    """The end of an attempt."""
    return rendezvous_pb2.TerminalDecision(
        exit_code=decision.exit_code,
        because=because_to_proto(decision.because),
        at=timestamp(decision.at),
        token=token_to_proto(decision.token),
        cause=decision.cause,
    )


def recovery_to_proto(record: RecoveryRecord) -> rendezvous_pb2.Recovery:
    """The durable record of one incident."""
    recovery = rendezvous_pb2.Recovery(
        incident_id=record.incident,
        trace_id=trace_id_of(record.incident).hex(),
        outcome=OUTCOMES[record.outcome],
        start=timestamp(record.start),
        end=timestamp(record.end),
        incident=incident_to_proto(record.view, record),
        generation_from=record.generation_from,
        generation_to=record.generation_to,
        spans=[_span(span) for span in record.spans],
        restored_step=record.restored_step,
        faults=[_fault(fault, index == 0) for index, fault in enumerate(record.faults[:MAX_FAULTS_TOLD])],
    )
    if record.verdict is not None:
        recovery.verdict.CopyFrom(verdict_to_proto(record.verdict))
    return recovery


def _fault(fault: FaultRecord, is_culprit: bool) -> policy_pb2.Fault:
    return policy_pb2.Fault(
        node_id=fault.node,
        rank=fault.rank,
        because=because_to_proto(fault.because),
        at=timestamp(fault.at),
        culprit=is_culprit,
        cause=fault.trouble,
    )


def _span(span: RecoverySpan) -> rendezvous_pb2.RecoverySpan:
    told = rendezvous_pb2.RecoverySpan(
        span=attach_pb2.Span(
            name=span.name,
            start=timestamp(span.start),
            end=timestamp(span.end),
            rank=span.rank,
            attributes=dict(span.attributes),
        ),
        node_id=span.node or "",
    )
    if span.round:
        told.span.attributes["resurge.round"] = str(span.round)
    if span.clock_error_s is not None:
        told.clock_error.CopyFrom(duration(span.clock_error_s))
    return told


# --- to policy --------------------------------------------------------------------------------------------------------


def incident_to_proto(view: IncidentView, record: RecoveryRecord | None = None) -> policy_pb2.Incident:
    """What policy is given; from a record, with the times of the faults."""
    times = {(fault.node, fault.rank): fault.at for fault in record.faults} if record is not None else {}
    faults = []
    for index, fault in enumerate(view.faults[:MAX_FAULTS_TOLD]):
        told = policy_pb2.Fault(
            node_id=fault.node,
            rank=fault.rank,
            because=because_to_proto(fault.because),
            culprit=index == 0,
            exit_code=fault.exit_code,
            signal=fault.signal,
            last_step=fault.step,
        )
        at = times.get((fault.node, fault.rank))
        if at is not None:
            told.at.CopyFrom(timestamp(at))
        faults.append(told)
    incident = policy_pb2.Incident(
        incident_id=view.incident,
        cycle=view.cycle,
        round=view.round,
        faults=faults,
        restarts_spent=view.restarts_spent,
        restarts_refunded=view.restarts_refunded,
        max_restarts=view.max_restarts,
        recent_cycle_s=_gaps(view.failure_ages_s),
        jitter=view.jitter,
        nodes_available=view.nodes_available,
        min_nodes=view.min_nodes,
        job_succeeded=view.job_succeeded,
        shutdown_requested=view.shutdown_requested is not None,
        advice_missing=view.advice_missing,
        no_restart_exit_code=view.no_restart_exit_code,
        progress=None if view.progress is None else check_to_proto(view.progress),
        cause=view.cause,
        cause_budget=None if view.cause_budget is None else cause_budget_to_proto(view.cause_budget),
        backoff=None if view.backoff is None else backoff_to_proto(view.backoff),
    )
    incident.token.job_id = view.job
    incident.token.attempt, incident.token.generation = view.attempt, view.generation
    if view.no_restart is not None:
        incident.latched_stop.CopyFrom(because_to_proto(view.no_restart.because))
        incident.latched_stop_exit_code = view.no_restart.exit_code
    if view.culprit is not None:
        incident.culprit.CopyFrom(culprit_to_proto(view.culprit))
    return incident


def _gaps(ages_s: tuple[float, ...]) -> list[float]:
    """From the ages of earlier failures, youngest first, the times between them."""
    return [max(0.0, age_s - younger_s) for younger_s, age_s in zip((0.0, *ages_s), ages_s, strict=False)]


def verdict_to_proto(verdict: Verdict) -> policy_pb2.Verdict:
    """A verdict, for records."""
    return policy_pb2.Verdict(
        kind=VERDICT_KINDS[verdict.kind],
        because=because_to_proto(verdict.because),
        exit_code=verdict.exit_code,
        delay=duration(verdict.delay_s),
        excluded_node_ids=sorted(verdict.excluded),
        would_exclude_node_ids=sorted(verdict.would_exclude),
        restarts_left=verdict.restarts_left,
        source=verdict.source,
    )
