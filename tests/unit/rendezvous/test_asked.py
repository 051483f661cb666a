"""What attribution recommends and what workers ask for: counted, carried out at once, and never against a success."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ids import Attempt, FencingToken, Generation, JobId, NodeId, Rank, RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Reason
from resurge_libs.core.recommendation import Recommendation, RecommendationEffect, RecommendationKind, StopAction
from resurge_libs.core.refusals import BadRequest, StaleGeneration, Unready, WrongJob
from resurge_rendezvous.core.facts import NodeExcluded
from resurge_rendezvous.core.limits import SHUTDOWN_KEY
from resurge_rendezvous.core.model import ControlAction, ControlAsked, NodePhase, RecommendationMade, StorePutAsked
from resurge_rendezvous.core.store import read
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started

NO_RESTART = spec(attribution_stop_action=StopAction.NO_RESTART, no_restart_exit_code=95)
STOP = Recommendation(RecommendationKind.STOP, "the same assert in three cycles", confidence=0.9)


def recommend(d: Desk, said: Recommendation = STOP, request: str = "") -> None:
    stamp = d.stamp()
    d.ask(RecommendationMade(stamp, RequestId(request or stamp.fresh_id), said))


def control(d: Desk, action: ControlAction, node: str = "n1", request: str = "", **more) -> None:
    stamp, spec_ = d.stamp(), d.job.spec
    token = FencingToken(
        more.get("job", spec_.job_id if spec_ else JobId("job")),
        Attempt(more.get("attempt", d.job.attempt)),
        Generation(more.get("generation", d.job.generation)),
    )
    at = Wall(more.get("at", d.wall))
    d.ask(ControlAsked(stamp, RequestId(request or stamp.fresh_id), token, NodeId(node), Rank(1), action, "nan", at))


# --- attribution ---


@pytest.mark.parametrize("kind", RecommendationKind)
def test_by_default_a_recommendation_is_recorded_and_ends_nothing(kind: RecommendationKind):
    d = started(None, "n2")
    for _ in range(3):
        recommend(d, replace(STOP, kind=kind))
    assert d.replies[-1].effect is RecommendationEffect.RECORDED
    assert d.stage == "Running" and d.job.no_restart is None
    assert [(tally.count, tally.last.kind) for tally in d.job.recommendations] == [(3, kind)]
    d.crash("n1")
    assert d.asked[-1].view.no_restart is None


def test_a_stop_ends_the_healthy_job_with_its_own_code_on_every_node_spares_too():
    d = started(Desk(NO_RESTART), "n2")
    recommend(d)
    assert d.replies[-1].effect is RecommendationEffect.ENDED
    assert [d.told(n) for n in ("n0", "n1", "n2")] == ["EXIT 95"] * 3
    assert {d.goals[n].cause for n in ("n0", "n1", "n2")} == {EndCause.ATTRIBUTION_STOP}
    assert "same assert" in d.job.stage.decision.because.sentence


@pytest.mark.parametrize("kind", [kind for kind in RecommendationKind if kind is not RecommendationKind.STOP])
def test_only_a_stop_does(kind: RecommendationKind):
    d = started(Desk(NO_RESTART))
    recommend(d, replace(STOP, kind=kind))
    assert d.stage == "Running"


def test_a_stop_is_the_verdict_of_an_incident_that_waits_for_one():
    d = started(Desk(NO_RESTART))
    d.crash("n1")
    recommend(d)
    verdict = d.exported[-1].verdict
    assert (verdict.source, verdict.exit_code, verdict.because.code) == ("attribution", 95, Reason.NO_RESTART_LATCHED)
    assert d.job.stage.decision.cause is EndCause.ATTRIBUTION_STOP
    d.verdict()
    assert d.last.reason.code is Reason.LATE_EVENT_IGNORED


def test_a_stop_after_the_verdict_to_restart_ends_the_job_too():
    d = started(Desk(NO_RESTART))
    d.crash("n1")
    d.verdict()
    recommend(d)
    assert (d.stage, d.job.stage.decision.exit_code) == ("Ended", 95)
    assert d.exported[-1].verdict == RESTART


def test_a_success_is_never_turned_into_a_stop():
    d = started(Desk(NO_RESTART))
    d.finish("n0")
    recommend(d)
    assert d.replies[-1].effect is RecommendationEffect.LATCHED and d.stage == "Running"
    d.finish("n1")
    recommend(d)
    assert d.replies[-1].effect is RecommendationEffect.TOO_LATE
    decision = d.job.stage.decision
    assert (decision.exit_code, decision.cause) == (0, EndCause.SUCCESS)


def test_a_latched_stop_holds_at_the_next_fault_whatever_policy_says():
    d = started(Desk(NO_RESTART))
    d.finish("n0")
    recommend(d)
    d.crash("n1")
    d.wait(d.limits.finish_window_s + 0.1, ("n0", "n1"))
    assert d.asked[-1].view.no_restart is not None
    d.verdict(RESTART)
    decision = d.job.stage.decision
    assert (decision.exit_code, decision.cause) == (95, EndCause.ATTRIBUTION_STOP)


def test_the_first_latched_stop_stays():
    d = started(Desk(NO_RESTART))
    d.finish("n0")
    recommend(d)
    recommend(d, replace(STOP, sentence="another"))
    assert "same assert" in d.job.no_restart.because.sentence


def test_a_word_about_another_attempt_ends_nothing():
    d = started(Desk(NO_RESTART))
    recommend(d, replace(STOP, attempt=Attempt(9)))
    assert d.replies[-1].effect is RecommendationEffect.TOO_LATE and d.stage == "Running"


def test_a_repeated_recommendation_counts_once():
    d = started()
    for _ in range(3):
        recommend(d, request="same")
    assert [tally.count for tally in d.job.recommendations] == [1]


def test_a_new_attempt_begins_without_what_was_recommended():
    d = started(Desk(NO_RESTART))
    recommend(d)
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.READY, 1, exit_acknowledged=True)
        d.close(node)
    d.hello("n0", incarnation=2)
    assert (d.stage, d.job.recommendations, d.job.no_restart) == ("Gathering", (), None)
    assert SHUTDOWN_KEY not in d.job.store


# --- workers ---


def test_a_shutdown_ends_every_launcher_with_0_where_no_rank_had_failed():
    d = started(Desk(spec(no_restart_exit_code=95)), "n2")
    control(d, ControlAction.SHUTDOWN_WORKLOAD)
    assert d.replies[-1].carried_out
    assert [d.told(n) for n in ("n0", "n1", "n2")] == ["EXIT 0"] * 3
    assert {d.goals[n].cause for n in ("n0", "n1", "n2")} == {EndCause.WORKLOAD_SHUTDOWN}


def test_a_shutdown_ends_with_1_where_a_rank_had_failed_before():
    d = started()
    d.crash("n0", at=d.wall - 1.0)
    control(d, ControlAction.SHUTDOWN_WORKLOAD, at=d.wall - 0.5)
    decision = d.job.stage.decision
    assert (decision.exit_code, decision.cause) == (1, EndCause.WORKLOAD_SHUTDOWN)


def test_the_worker_that_asked_and_left_by_its_error_path_had_not_failed_before():
    """Its wish comes after the news of its exit, as when the control plane was started anew in between."""
    d = started()
    asked_at = d.wall - 2.0
    d.crash("n1", at=d.wall - 1.0)
    d.verdict()
    d.down("n0", "n1")
    assert d.stage == "Proving"
    control(d, ControlAction.SHUTDOWN_WORKLOAD, generation=1, at=asked_at)
    assert d.job.stage.decision.exit_code == 0


def test_a_generation_of_before_the_incident_may_not_end_the_job():
    d = started()
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    d.proven("n0", "n1")
    assert d.stage == "Running"
    for stale in ({"generation": 1}, {"attempt": 9}):
        with pytest.raises(StaleGeneration):
            control(d, ControlAction.SHUTDOWN_WORKLOAD, **stale)
    assert d.stage == "Running"


def test_a_wish_is_carried_out_once():
    d = started(None, "n2")
    for _ in range(2):
        control(d, ControlAction.EXCLUDE_THIS_NODE, request="same")
        assert d.replies[-1].carried_out
    assert len(d.facts_of(NodeExcluded)) == 1


def test_an_excluded_node_is_left_at_once_and_a_spare_takes_its_place():
    d = started(None, "n2")
    control(d, ControlAction.EXCLUDE_THIS_NODE)
    assert d.stage == "Fenced"
    assert d.job.stage.incident.first_cause.because.code is Reason.EXCLUDED
    d.verdict()
    d.down("n0", "n1")
    assert (d.told("n0"), d.told("n1"), d.told("n2")) == ("RUN 2", "PARK", "RUN 2")


def test_a_node_without_which_too_few_are_left_is_kept():
    d = started()
    control(d, ControlAction.EXCLUDE_THIS_NODE)
    answer = d.replies[-1]
    assert not answer.carried_out and answer.because.code is Reason.WOULD_EXCLUDE
    assert d.stage == "Running" and d.job.nodes.get("n1").exclusion is None


def test_a_spare_that_asks_is_excluded_without_harm_to_the_others():
    d = started(None, "n2")
    control(d, ControlAction.EXCLUDE_THIS_NODE, node="n2")
    assert d.stage == "Running" and d.job.nodes.get("n2").exclusion is not None


def test_continue_changes_nothing():
    d = started()
    control(d, ControlAction.CONTINUE)
    assert d.stage == "Running" and not d.replies[-1].carried_out


def test_a_wish_after_the_end_changes_nothing_and_says_how_it_ended():
    d = started()
    d.finish("n0", "n1")
    control(d, ControlAction.SHUTDOWN_WORKLOAD)
    answer = d.replies[-1]
    assert not answer.carried_out and answer.decision.cause is EndCause.SUCCESS


def test_refusals_say_what_is_wrong():
    with pytest.raises(Unready):
        control(Desk(), ControlAction.CONTINUE)
    with pytest.raises(Unready):
        recommend(Desk())
    d = started()
    with pytest.raises(WrongJob):
        control(d, ControlAction.CONTINUE, job="other")
    with pytest.raises(BadRequest, match="n9"):
        control(d, ControlAction.CONTINUE, node="n9")


# --- the store's shutdown key ---


def test_the_cause_of_the_end_stands_in_the_store_for_whoever_asks():
    d = started()
    token = d.job.token
    assert read(d.job, token, SHUTDOWN_KEY) is None
    d.finish("n0", "n1")
    assert read(d.job, token, SHUTDOWN_KEY) == b"success"
    with pytest.raises(StaleGeneration):
        read(d.job, token, "another")
    with pytest.raises(WrongJob):
        read(d.job, replace(token, job=JobId("other")), SHUTDOWN_KEY)


def test_nobody_else_writes_it():
    d = started()
    with pytest.raises(BadRequest, match="cause of the job's end"):
        d.ask(StorePutAsked(d.stamp(), RequestId("x"), d.job.token, SHUTDOWN_KEY, b"success"))
