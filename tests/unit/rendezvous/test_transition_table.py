"""The transition table: where each event may lead from each stage of a job. Every pair has an entry, and no other.

U unopened · G gathering · R running · F fenced · P proving · E ended · ! refused. Walked are the events of
test_totality, and verdicts and recommendations of every kind; a stage is entered in every way that test_totality knows.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

import pytest

from resurge_libs.core.ids import Generation, IncidentId, NodeId, Rank, RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.recommendation import Recommendation, RecommendationKind, StopAction
from resurge_libs.core.refusals import Refused
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core import model as m
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started
from tests.unit.rendezvous.test_totality import STAGES, events, fenced, judged, proving

TABLE = """
                        U    G    R    F    P    E
HelloReceived           G    G    FGR  FGPR FGP  EG
ObservedReceived        U    GR   EFR  EFP  FPR  E
StreamClosed            U    G    R    FP   P    E
BeatReceived            U    G    R    F    P    E
BeatsReceived           U    G    R    F    P    E
VerdictArrived          U    G    R    EFP  P    E
VerdictUnavailable      U    G    R    EFP  P    E
Tick                    U    EG   FR   EFP  FP   E
Paused                  U    G    R    FP   P    E
ExcludeAsked            !    !G   !R   !FP  !P   !E
ReadmitAsked            !    !G   !R   !FP  !P   !E
ShutdownAsked           !    E    E    E    E    E
DrainAsked              !    EG   EF   EFP  EF   E
RecommendationMade      !    EG   ER   EFP  EP   E
ControlAsked            !    !EG  !EFR !EFP !EFP !E
StorePutAsked           !    !    R    !    !    !
StoreAddAsked           !    !    R    !    !    !
StoreCompareAndSetAsked !    !    R    !    !    !
StoreDeleteAsked        !    !    R    !    !    !
"""
LETTERS = {"Unopened": "U", "Gathering": "G", "Running": "R", "Fenced": "F", "Proving": "P", "Ended": "E"}
LATER_S = (0.0, 3.0, 1000.0)
"""Each event comes now, after a backoff, and when every deadline is over."""


def entries() -> dict[tuple[str, str], str]:
    """The table by event and letter of the stage."""
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return {(row[0], letter): cell for row in rows for letter, cell in zip(head, row[1:], strict=True)}


def nearly_proven() -> Desk:
    """Every rank but n1's has committed a step of the new generation."""
    d = proving()
    d.proven("n0")
    return d


def fenced_without_budget() -> Desk:
    d = started(Desk(spec(max_restarts=0)))
    d.crash("n1")
    return d


def all_but_one_have_left() -> Desk:
    d = started()
    for node in ("n0", "n1"):
        d.tell(node, m.NodePhase.LEAVING, 1, leaving_signal=15)
    d.tell("n0", m.NodePhase.READY, 1, leaving_signal=15)
    d.tell("n1", m.NodePhase.READY, 1, leaving_signal=15)
    d.close("n0")
    return d


def one_to_come() -> Desk:
    d = Desk()
    d.join("n0")
    d.hello("n1")
    return d


def one_to_confirm() -> Desk:
    d = judged()
    d.down("n0")
    return d


def backing_off() -> Desk:
    d = fenced()
    d.verdict(dataclasses.replace(RESTART, delay_s=2.0))
    d.down("n0", "n1")
    return d


WAYS = (
    *STAGES,
    nearly_proven,
    fenced_without_budget,
    all_but_one_have_left,
    one_to_come,
    one_to_confirm,
    backing_off,
)


def all_events(d: Desk) -> Iterator[m.Event]:
    yield from events(d)
    incident = d.job.open_incident.incident if d.job.open_incident else IncidentId("id-1")
    because = Because(Reason.NO_PROGRESS, "no step in three cycles")
    for kind in VerdictKind:
        excluded = frozenset({NodeId("n0")}) if kind is VerdictKind.RESTART_EXCLUDING else frozenset()
        for number in (0, 1):
            yield m.VerdictArrived(d.stamp(), incident, number, Verdict(kind, because, 1, excluded=excluded))
    for kind in RecommendationKind:
        yield m.RecommendationMade(d.stamp(), RequestId("more"), Recommendation(kind, "x"))
    if "n1" in d.streams:
        clear = m.Observed(m.NodePhase.READY, Generation(1), 99, store_offer=m.StoreOffer("n1", 1))
        yield m.ObservedReceived(d.stamp(), d.streams["n1"], NodeId("n1"), clear)
    if "n1" in d.streams and d.job.running_formation is not None:
        rank, generation = Rank(1), d.job.generation
        marks = tuple(m.Milestone(rank, kind, Wall(d.wall), 7) for kind in m.MilestoneKind)
        seen = m.Observed(m.NodePhase.RUNNING, generation, milestones=marks)
        yield m.ObservedReceived(d.stamp(), d.streams["n1"], NodeId("n1"), seen)


def walked() -> dict[tuple[str, str], str]:
    """Where each event led from each stage, over all ways into the stage."""
    found: dict[tuple[str, str], set[str]] = {}
    for way in WAYS:
        d = way()
        before, now = d.state, d.now
        for action in StopAction:
            state = _with_action(before, action)
            for event in all_events(d):
                if action is StopAction.NO_RESTART and not isinstance(event, m.RecommendationMade):
                    continue  # it makes no difference to others
                for late_s in LATER_S:
                    try:
                        step = d.machine.step(state, event, type(now)(now + late_s))
                        after = LETTERS[type(step.state.durable.stage).__name__]
                    except Refused:
                        after = "!"
                    found.setdefault((type(event).__name__, LETTERS[d.stage]), set()).add(after)
    return {pair: "".join(sorted(after)) for pair, after in found.items()}


def _with_action(state: m.RdzvState, action: StopAction) -> m.RdzvState:
    """The state of a job that was started with this action for a STOP of attribution."""
    if state.durable.spec is None:
        return state
    spec = dataclasses.replace(state.durable.spec, attribution_stop_action=action)
    return dataclasses.replace(state, durable=dataclasses.replace(state.durable, spec=spec))


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, str], str]:
    return walked()


def test_every_event_has_an_entry_for_every_stage():
    kinds = {kind.__name__ for kind in typing.get_args(m.Event)}
    stages = {LETTERS[kind.__name__] for kind in typing.get_args(m.Stage)}
    assert entries().keys() == {(kind, stage) for kind in kinds for stage in stages}


def test_each_event_leads_where_its_entry_says_and_nowhere_else(seen: dict[tuple[str, str], str]):
    wrong = {pair: (cell, seen.get(pair)) for pair, cell in entries().items() if seen.get(pair) != cell}
    assert wrong == {}, "entry and what was seen"


def test_an_ended_job_is_left_by_a_new_attempt_alone(seen: dict[tuple[str, str], str]):
    ways_out = {event for (event, stage), after in seen.items() if stage == "E" and set(after) - {"E", "!"}}
    assert ways_out == {"HelloReceived"}
