"""A round that is put anew: what becomes known before its verdict names another culprit than policy was told of."""

from __future__ import annotations

import pytest

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import IncidentId, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.progress import ProgressRules, ProgressSource
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import NodePhase, ObservedFault, VerdictUnavailable
from resurge_rendezvous.core.questions import ANEW_MAX, Questions
from tests.unit.rendezvous.desk import Desk, spec, started
from tests.unit.rendezvous.late_service import exits, late, recovered, settled

STOP = Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "enough"), exit_code=93, source="policy")
OUT = Verdict(
    VerdictKind.RESTART_EXCLUDING,
    Because(Reason.EXCLUDED, "n0 fails"),
    excluded=frozenset({NodeId("n0")}),
    source="policy",
)


def blamed(asked) -> tuple[str, Reason, FaultCause]:
    view = asked.view
    return view.culprit.node, view.culprit.code, view.cause


def judged_too_soon(**more) -> Desk:
    """A rank of n0 has ended while nobody looked, and policy is asked; then n1's stream is seen to be closed."""
    d = late(**more)
    exits(d, d.wall - 1.0)
    d.close("n1")
    return d


def test_a_loss_that_comes_into_sight_before_the_verdict_is_asked_about_anew():
    d = judged_too_soon()
    assert [blamed(asked) for asked in d.asked] == [
        ("n0", Reason.WORKER_EXIT, FaultCause.EXIT),
        ("n1", Reason.STREAM_LOST, FaultCause.NODE),
    ]
    assert [fault.node for fault in d.asked[1].view.faults] == ["n1", "n0"]
    assert d.asked[0].question != d.asked[1].question


@pytest.mark.parametrize("said", [STOP, OUT], ids=["stop", "exclude"])
def test_what_policy_says_of_the_wrong_culprit_counts_neither_now_nor_later(said):
    d = judged_too_soon()
    d.answer(d.asked[0], said)
    assert d.last.reason.code is Reason.LATE_EVENT_IGNORED
    assert d.job.open_incident.verdict is None
    d.answer(d.asked[1])
    d.answer(d.asked[0], said)
    assert (d.job.no_restart, d.job.exclusions) == (None, ())
    assert d.job.open_incident.verdict.kind is VerdictKind.RESTART
    recovered(d)
    d.answer(d.asked[0], said)
    assert (d.job.no_restart, d.job.exclusions) == (None, ())
    assert settled(d) == ("n1", Reason.STREAM_LOST, FaultCause.NODE, "n1")


def test_that_the_first_question_could_not_be_asked_decides_nothing_once_it_is_put_anew():
    d = judged_too_soon()
    for asked, is_decided in ((d.asked[0], False), (d.asked[1], True)):
        name = IncidentId(asked.view.incident)
        d.ask(VerdictUnavailable(d.stamp(), name, 0, "connection refused", asked.question))
        assert (d.job.open_incident.verdict is not None) is is_decided


@pytest.mark.parametrize("bounded", [FaultCause.NODE, FaultCause.EXIT])
def test_the_bound_of_the_cause_that_is_known_by_then_holds(bounded):
    d = judged_too_soon(spec_=spec(restarts=RestartRules(by_cause=((bounded, 0),))))
    d.verdict()
    assert d.stage == ("Ended" if bounded is FaultCause.NODE else "Fenced")


def test_the_default_judges_by_what_is_known_at_the_limit_and_no_later():
    d = judged_too_soon(spec_=spec(restarts=RestartRules(by_cause=((FaultCause.NODE, 0),))))
    d.late_s = 0.0
    d.wait(d.limits.verdict_limit_s - 0.1, ("n0", "n2"))
    assert d.stage == "Fenced"
    d.wait(0.2, ("n0", "n2"))
    assert d.stage == "Ended"


def test_the_limit_of_a_verdict_runs_from_the_fence_whatever_is_asked_anew():
    d = late()
    exits(d, d.wall - 1.0)
    due = d.state.volatile.timers.verdict_at
    d.now += d.limits.verdict_limit_s - 0.5
    d.late_s = 4.0
    d.close("n1")
    assert len(d.asked) == 2
    assert d.state.volatile.timers.verdict_at == due


def test_a_launcher_that_is_back_before_the_verdict_is_blamed_no_longer():
    d = judged_too_soon()
    d.late_s = 0.0
    d.hello("n1")
    assert [blamed(asked)[0] for asked in d.asked] == ["n0", "n1", "n0"]
    d.verdict()
    d.down("n0", "n1")
    assert settled(d) == ("n0", Reason.WORKER_EXIT, FaultCause.EXIT, "n0")


def test_a_launcher_whose_successor_comes_before_the_verdict_is_blamed_as_before():
    d = judged_too_soon()
    d.late_s = 0.0
    d.hello("n1", 2)
    assert [blamed(asked)[0] for asked in d.asked][-1] == "n1"
    assert "n0" not in [blamed(asked)[0] for asked in d.asked][1:]
    recovered(d)
    assert settled(d)[0] == settled(d)[3] == "n1"


def test_a_launcher_that_is_back_and_was_not_blamed_changes_nothing():
    d = late()
    d.late_s = 0.0
    d.close("n1")
    exits(d, d.wall - 1.0)
    d.hello("n1")
    assert len(d.asked) == 1


def test_an_earlier_fault_that_is_told_later_is_asked_about_anew():
    d = started(None, "n2")
    d.crash("n1", signal=6)
    d.crash("n0", signal=11, at=d.wall - 0.5)
    assert [blamed(asked)[0] for asked in d.asked] == ["n1", "n0"]
    d.crash("n0", signal=11, at=d.wall - 0.5)
    assert len(d.asked) == 2


def test_a_clearer_word_on_the_same_rank_is_asked_about_anew():
    d = started(None, "n2")
    d.tell("n1", NodePhase.TEARING_DOWN, 1, faults=(ObservedFault(Because(Reason.WORKER_HUNG), d.wall, Rank(1)),))
    d.crash("n1", signal=9)
    assert [(blamed(asked)[1], blamed(asked)[2]) for asked in d.asked] == [
        (Reason.WORKER_HUNG, FaultCause.HANG),
        (Reason.WORKER_SIGNAL, FaultCause.SIGNAL),
    ]


def test_a_later_fault_and_one_after_the_verdict_are_not_asked_about():
    d = started(None, "n2")
    d.crash("n1", signal=11)
    d.now += 0.1
    d.crash("n0", signal=6)
    assert len(d.asked) == 1
    d = started(None, "n2")
    d.crash("n1", signal=6)
    d.verdict()
    d.crash("n0", signal=11, at=d.wall - 0.5)
    assert len(d.asked) == 1
    assert not d.facts_of(f.CulpritChanged)


def test_a_round_is_put_anew_a_few_times_and_each_round_as_often():
    d = started()
    for number in range(2):
        asked = len(d.asked)
        for sooner in range(ANEW_MAX + 3):
            d.crash("n0", signal=6, rank=10 + sooner, at=d.wall - sooner / 10)
        assert len(d.asked) == asked + 1 + ANEW_MAX
        assert d.asked[-1].view.round == number
        assert d.job.open_incident.first_cause.rank == 12 + ANEW_MAX, "the charge and the offence go on"
        d.verdict()
        d.now += 1.0
        d.down("n0", "n1")
        d.running("n0", "n1")
        d.now += 1.0


def test_after_a_restart_of_the_service_policy_is_asked_what_was_known():
    d = judged_too_soon()
    d.restart_service()
    for node in ("n0", "n2"):
        d.hello(node)
    d.wait(0.1)
    assert blamed(d.asked[-1]) == ("n1", Reason.STREAM_LOST, FaultCause.NODE)


def test_a_round_that_waits_for_its_progress_is_asked_about_once_and_rightly():
    d = late(spec_=spec(progress=ProgressRules(ProgressSource.MARKER, 1, 3)))
    exits(d, d.wall - 1.0)
    d.close("n1")
    assert d.asked == []
    d.late_s = 0.0
    d.wait(d.limits.marker_read_limit_s + 0.1, ("n0", "n2"))
    assert [blamed(asked)[0] for asked in d.asked] == ["n1"]
    d.verdict()
    assert d.job.open_incident.verdict is not None


def test_only_what_was_asked_is_withdrawn():
    questions = Questions().asked()
    assert questions.put_anew(was_asked=False).withdrawn == ()
    assert questions.put_anew(was_asked=True).withdrawn == (1,)


def test_a_fault_that_may_follow_from_the_loss_that_is_blamed_changes_nothing():
    d = late()
    d.close("n1")
    exits(d, d.wall - 1.0)
    d.crash("n0", signal=6, rank=9, at=d.wall - 1.5)
    assert [blamed(asked)[0] for asked in d.asked] == ["n1"]
    assert not d.facts_of(f.CulpritChanged)


def test_a_loss_stands_before_a_silence_however_long_that_lasts():
    d = started(None, "n2")
    silent = ObservedFault(Because(Reason.WORKER_HUNG), Wall(d.wall - 50.0), Rank(0))
    d.tell("n0", NodePhase.TEARING_DOWN, 1, faults=(silent,))
    d.close("n1")
    assert [blamed(asked)[:2] for asked in d.asked] == [("n0", Reason.WORKER_HUNG), ("n1", Reason.STREAM_LOST)]


def test_of_several_losses_the_one_that_would_have_begun_it_is_asked_about():
    d = Desk(spec(min_nodes=3))
    d.join("n0", "n1", "n2")
    d.proven("n0", "n1", "n2")
    d.now += 2.0
    d.crash("n0", signal=6, at=d.wall)
    d.now += 0.5
    d.late_s = 1.0
    d.close("n2")
    d.close("n1")
    assert [blamed(asked)[0] for asked in d.asked] == ["n0", "n2", "n1"], "at one moment, by their names"
    assert [fault.node for fault in d.asked[-1].view.faults] == ["n1", "n2", "n0"]


def test_a_leaving_launcher_that_closes_its_stream_is_no_loss_in_sight():
    d = late()
    exits(d, d.wall - 1.0)
    d.down("n1")
    d.late_s = 0.0
    d.tell("n1", NodePhase.READY, 0, leaving_signal=15)
    d.late_s = 2.0
    d.close("n1")
    assert {blamed(asked)[0] for asked in d.asked} == {"n0"}


def test_a_launcher_that_was_given_no_place_is_no_loss_in_sight():
    d = late()
    exits(d, d.wall - 1.0)
    d.down("n1")
    d.late_s = 0.0
    d.close("n1")
    d.hello("n1", incarnation=2)
    d.late_s = 2.0
    d.close("n1")
    assert {blamed(asked)[0] for asked in d.asked} == {"n0"}
