"""What rendezvous sends to policy is what policy judges: the view survives the wire whole, so both verdicts agree."""

from dataclasses import replace

import pytest

from resurge_api.policy.v1 import policy_pb2
from resurge_launcher.views.replay import replayed_by_default
from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.budget import CauseBudget
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.offenders import CulpritView, OffenceView
from resurge_libs.core.progress import ProgressCheck, ProgressRules, ProgressSource
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.repeat_offenders import POLICY_ORDER
from resurge_libs.core.verdict import SOURCE_POLICY, FaultView, IncidentView, NoRestart, VerdictRules, default_verdict
from resurge_rendezvous import wire_out
from resurge_rendezvous.clients import verdict_of
from resurge_restart_policy import wire
from resurge_restart_policy.core.step import decide

VIEW = IncidentView(
    job=JobId("train"),
    attempt=Attempt(2),
    generation=Generation(7),
    cycle=Cycle(3),
    incident=IncidentId("inc-1"),
    round=1,
    faults=(
        FaultView(NodeId("n1"), Because(Reason.WORKER_SIGNAL, "SIGSEGV"), Rank(0), None, 11, 40),
        FaultView(NodeId("n2"), Because(Reason.WORKER_EXIT, "exited 3"), Rank(5), 3, None, None),
        FaultView(NodeId("n3"), Because(Reason.LEASE_EXPIRED, "silent")),
    ),
    restarts_spent=2,
    max_restarts=5,
    min_nodes=2,
    nodes_available=3,
    restarts_refunded=1,
    failure_ages_s=(4.0, 9.0, 400.0),
    jitter=0.25,
    advice_missing=("attribution",),
)
RULES = ProgressRules(ProgressSource.MARKER, 5, 3)
STUCK = ProgressCheck(RULES, baseline=100, without_progress=2, value=101, marker=101, sdk_step=140)
SLOW = BackoffRules(fast_failure_s=500.0, free_failures=0, first_delay_s=3.0, factor=4.0)
STOPPED = NoRestart(Because(Reason.NO_PROGRESS, "no step in three cycles"), 77)


@pytest.mark.parametrize(
    "view",
    [
        VIEW,
        replace(VIEW, no_restart=STOPPED),
        replace(VIEW, job_succeeded=True),
        replace(VIEW, shutdown_requested=Because(Reason.SHUTDOWN_REQUESTED)),
        replace(VIEW, restarts_spent=6),
        replace(VIEW, cause=FaultCause.OOM, cause_budget=CauseBudget(FaultCause.OOM, 2, 1), backoff=SLOW),
        replace(VIEW, cause=FaultCause.OOM, cause_budget=CauseBudget(FaultCause.OOM, 0)),
        replace(VIEW, progress=STUCK, no_restart_exit_code=77),
        replace(VIEW, progress=replace(STUCK, value=None, skipped="is empty", baseline=None, sdk_step=None)),
        replace(VIEW, culprit=CulpritView(NodeId("n3"), Reason.LEASE_EXPIRED)),
    ],
    ids=["plain", "latched", "succeeded", "shutdown", "spent", "backoff", "cause", "stuck", "not read", "culprit"],
)
def test_the_view_and_the_verdict_survive_the_wire(view):
    request = policy_pb2.DecideRequest(request_id="r", incident=wire_out.incident_to_proto(view))
    there = wire.incident_of(policy_pb2.DecideRequest.FromString(request.SerializeToString()))
    assert there == view
    verdict = verdict_of(wire.verdict_to_proto(decide(there, VerdictRules())))
    assert verdict == replace(default_verdict(view, VerdictRules()), source=SOURCE_POLICY)


OFFENDER = CulpritView(
    NodeId("n1"),
    Reason.WORKER_SIGNAL,
    Rank(0),
    2,
    True,
    (
        OffenceView(NodeId("n0"), Generation(2), Reason.STREAM_LOST, None, True),
        OffenceView(NodeId("n1"), Generation(4), Reason.WORKER_SIGNAL, Rank(0)),
        OffenceView(NodeId("n1"), Generation(6), Reason.WORKER_SIGNAL, Rank(1)),
    ),
)


@pytest.mark.parametrize("enough", [True, False])
def test_what_is_held_against_a_machine_and_what_follows_survive_the_wire(enough):
    view = replace(VIEW, culprit=replace(OFFENDER, is_enough=enough))
    request = policy_pb2.DecideRequest(request_id="r", incident=wire_out.incident_to_proto(view))
    there = wire.incident_of(policy_pb2.DecideRequest.FromString(request.SerializeToString()))
    assert there == view
    decided = decide(there, VerdictRules())
    assert (decided.excluded, decided.would_exclude) == (({"n1"}, set()) if enough else (set(), {"n1"}))
    assert verdict_of(wire.verdict_to_proto(decided)) == decided
    assert wire_out.verdict_to_proto(decided) == wire.verdict_to_proto(decided)
    replayed, told = replayed_by_default(request.incident, POLICY_ORDER).verdict, wire.verdict_to_proto(decided)
    assert (replayed.kind, replayed.because.code) == (told.kind, told.because.code)
    assert list(replayed.excluded_node_ids) == list(told.excluded_node_ids)
    assert list(replayed.would_exclude_node_ids) == list(told.would_exclude_node_ids)
