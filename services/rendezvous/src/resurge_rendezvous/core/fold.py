"""`evolve`: the only way the durable half of the state changes. One fact, one new value; replay is a fold of it.

Total over facts that our own `step` records. A fact that its stage does not allow is a bug of ours, or a journal of
other rules, and raises `Impossible`. Pure.
"""

from __future__ import annotations

from functools import reduce
from typing import assert_never

from resurge_libs.core.ids import Cycle, Generation
from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Ledger
from resurge_libs.core.progress import ProgressCount
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.core.values import replace
from resurge_rendezvous.core import exclusions, replaced
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.job import (
    Answered,
    Ended,
    Fenced,
    Gathering,
    Incident,
    Job,
    Proving,
    RecommendationTally,
    RecoveryOutcome,
    RecoveryRecord,
    RoundTimes,
    Running,
    Swapped,
    Unopened,
)
from resurge_rendezvous.core.nodes import NodeEntry
from resurge_rendezvous.core.remembered import with_charge, with_record, with_refund

ANSWERS_MAX = 1_024
ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Of the values that remembered answers hold: a compare-and-set that did not write tells what it found."""
FAILURES_MAX = 32
FAULTS_MAX = 256
"""Faults that one incident remembers; a cascade of more names no new cause."""


class Impossible(Exception):
    """Something that our own code guarantees does not hold."""


def evolve(job: Job, fact: f.Fact) -> Job:
    """Fold one fact into the durable state. Raises Impossible for a fact that the stage does not allow."""
    match fact:
        case f.JobOpened() | f.AttemptRaised() | f.JournalBehindAdopted() | f.Terminated() | f.RoundClosed():
            return _stage(job, fact)
        case f.NodeAdmitted() | f.NodesAdmitted() | f.NodeExcluded() | f.NodeReadmitted() | f.OffenceNoted():
            return _machine(job, fact)
        case f.NodeLost() | f.NodeReturned() | f.NodeFinished() | f.WouldExclude() | f.NodeDrained():
            return _drain_told(job.with_node(_node(job, fact)), fact)
        case f.DrainOrdered() | f.StopAgreed():
            return _drain(job, fact)
        case (
            f.IncidentOpened()
            | f.FaultJoined()
            | f.RoundReopened()
            | f.ProgressChecked()
            | f.CulpritChanged()
            | f.VerdictLatched()
            | f.SplitRuledOut()
        ):
            return _incident(job, fact)
        case f.RecoveryClosed(record):
            return _closed(job, record)
        case f.RecoveryAmended(incident, spans):
            amended = (replace(r, spans=r.spans + spans) if r.incident == incident else r for r in job.records)
            return replace(job, records=tuple(amended))
        case f.RestartCharged() | f.RestartRefunded() | f.RankReplaced() | f.ReplacementSettled():
            return _counted(job, fact)
        case f.NoRestartLatched() | f.RecommendationRecorded() | f.MilestoneKnown() | f.ProgressBaselineRead():
            return _learned(job, fact)
        case f.StoreWritten() | f.RequestAnswered():
            return _call(job, fact)
        case f.TimeBooked(bookings):
            return replace(job, ledger=reduce(Ledger.booked, bookings, job.ledger))
        case _:
            assert_never(fact)


def _call(job: Job, fact: f.StoreWritten | f.RequestAnswered) -> Job:
    match fact:
        case f.StoreWritten(key, entry):
            kept = {other: known for other, known in job.store.items() if other != key or entry is not None}
            return replace(job, store=kept if entry is None else {**kept, key: entry})
        case f.RequestAnswered(request, answer):
            return replace(job, answers=_within_bounds((*job.answers, Answered(request, answer))))


_Counted = f.RestartCharged | f.RestartRefunded | f.RankReplaced | f.ReplacementSettled


def _counted(job: Job, fact: _Counted) -> Job:
    match fact:
        case f.RestartCharged(incident, number, cause):
            known = {(charge.incident, charge.round) for charge in job.charges}
            _expect((incident, number) not in known, job, fact)
            return with_charge(job, Charge(incident, number, cause))
        case f.RestartRefunded(at):
            return with_refund(job, at)
        case f.RankReplaced(one):
            _expect(replaced.known(job, one.generation, one.node, one.number) is None, job, fact)
            return replaced.granted(job, one)
        case f.ReplacementSettled(node, generation, number, pid, at, sentence):
            return replaced.settled(job, (generation, node, number), pid, at, sentence)
        case _:
            assert_never(fact)


_Learned = f.NoRestartLatched | f.RecommendationRecorded | f.MilestoneKnown | f.ProgressBaselineRead


def _tallied(known: tuple[RecommendationTally, ...], said: Recommendation, at: Wall) -> tuple[RecommendationTally, ...]:
    before = next((tally.count for tally in known if tally.last.kind is said.kind), 0)
    others = (tally for tally in known if tally.last.kind is not said.kind)
    return tuple(sorted((*others, RecommendationTally(before + 1, said, at)), key=lambda tally: tally.last.kind))


def _learned(job: Job, fact: _Learned) -> Job:
    match fact:
        case f.NoRestartLatched(no_restart):
            return job if job.no_restart is not None else replace(job, no_restart=no_restart)
        case f.RecommendationRecorded(said, at):
            return replace(job, recommendations=_tallied(job.recommendations, said, at))
        case f.MilestoneKnown(kind):
            return replace(job, known_milestones=job.known_milestones | {kind})
        case f.ProgressBaselineRead(value):
            return replace(job, progress=replace(job.progress, baseline=value))
        case _:
            assert_never(fact)


def _within_bounds(answers: tuple[Answered, ...]) -> tuple[Answered, ...]:
    """The newest answers; of those that hold values no more than fit, while the others, which cost little, stay."""
    kept = answers[-ANSWERS_MAX:]
    too_many = sum(_held_bytes(known) for known in kept) - ANSWER_BYTES_MAX
    if too_many <= 0:
        return kept
    left = []
    for known in kept:
        held = _held_bytes(known)
        if too_many > 0 and held > 0:
            too_many -= held
        else:
            left.append(known)
    return tuple(left)


def _held_bytes(known: Answered) -> int:
    return len(known.answer.value or b"") if isinstance(known.answer, Swapped) else 0


_StageFact = f.JobOpened | f.AttemptRaised | f.JournalBehindAdopted | f.Terminated | f.RoundClosed


def _stage(job: Job, fact: _StageFact) -> Job:
    match fact:
        case f.JobOpened(spec, attempt, because):
            _expect(isinstance(job.stage, Unopened), job, fact)
            return replace(job, spec=spec, attempt=attempt, stage=Gathering(because))
        case f.AttemptRaised(attempt, spec, because):
            _expect(attempt > job.attempt and job.open_incident is None, job, fact)
            return replace(
                job,
                spec=spec,
                attempt=attempt,
                fenced=job.generation,
                next_cycle=Cycle(0),
                charges=(),
                charges_forgotten=0,
                causes_forgotten=(),
                refunded=0,
                refunded_wall=0.0,
                failure_walls=(),
                no_restart=None,
                recommendations=(),
                progress=ProgressCount(),
                drain=None,
                stage=Gathering(because),
            )
        case f.JournalBehindAdopted(generation, attempt, because):
            _expect(generation > job.generation and attempt >= job.attempt and job.open_incident is None, job, fact)
            return replace(
                job, generation=generation, fenced=generation, attempt=attempt, drain=None, stage=Gathering(because)
            )
        case f.Terminated(decision):
            _expect(not isinstance(job.stage, (Unopened, Ended)) and job.open_incident is None, job, fact)
            return replace(job, stage=Ended(decision), fenced=job.generation)
        case f.RoundClosed():
            return _round_closed(job, fact)
        case _:
            assert_never(fact)


def _round_closed(job: Job, fact: f.RoundClosed) -> Job:
    formation = fact.formation
    _expect(formation.generation > job.generation and formation.attempt == job.attempt, job, fact)
    after = replace(
        job,
        generation=formation.generation,
        fenced=Generation(formation.generation - 1),
        next_cycle=Cycle(formation.cycle + 1),
        last_formation=formation,
        drain=None,
    )
    match job.stage:
        case Gathering():
            return replace(after, stage=Running(formation))
        case Fenced(incident=incident):
            times = replace(incident.now_round, down_wall=fact.down_wall, closed_wall=formation.closed_wall)
            proven = replace(incident, rounds=(*incident.rounds[:-1], times))
            return replace(after, stage=Proving(formation, proven))
        case _:
            raise Impossible(f"a round closed in stage {type(job.stage).__name__}")


_MachineFact = f.NodeAdmitted | f.NodesAdmitted | f.NodeExcluded | f.NodeReadmitted | f.OffenceNoted


def _machine(job: Job, fact: _MachineFact) -> Job:
    match fact:
        case f.NodeAdmitted(entry):
            return exclusions.admitted(job, entry)
        case f.NodesAdmitted(entries):
            for entry in entries:
                job = exclusions.admitted(job, entry)
            return job
        case f.NodeExcluded(_, exclusion, identity):
            return exclusions.excluded(job, identity or _known(job, fact).identity, exclusion)
        case f.NodeReadmitted(_, _, identity):
            return exclusions.readmitted(job, _known(job, fact), identity)
        case f.OffenceNoted(offence):
            return exclusions.noted(job, offence)
        case _:
            assert_never(fact)


_NodeFact = f.NodeLost | f.NodeReturned | f.NodeFinished | f.WouldExclude | f.NodeDrained


def _known(job: Job, fact: _NodeFact | f.NodeExcluded | f.NodeReadmitted) -> NodeEntry:
    entry = job.nodes.get(fact.node)
    if entry is None:
        raise Impossible(f"{type(fact).__name__} of the unknown node {fact.node}")
    return entry


def _node(job: Job, fact: _NodeFact) -> NodeEntry:
    entry = _known(job, fact)
    match fact:
        case f.NodeLost(_, because):
            return replace(entry, lost=because)
        case f.NodeReturned():
            return replace(entry, lost=None)
        case f.NodeFinished(_, generation):
            return replace(entry, finished=generation)
        case f.WouldExclude(_, because):
            return replace(entry, would_exclude=because)
        case f.NodeDrained(_, because):
            return replace(entry, drained=because)
        case _:
            assert_never(fact)


def _drain(job: Job, fact: f.DrainOrdered | f.StopAgreed) -> Job:
    match fact:
        case f.DrainOrdered(drain):
            _expect(job.drain is None and job.running_formation is not None, job, fact)
            return replace(job, drain=drain)
        case f.StopAgreed(generation, step):
            open_ = job.drain
            if open_ is None or open_.generation != generation or open_.stop_step is not None:
                raise Impossible(f"{type(fact).__name__} without a drain that waits for it: {open_}")
            return replace(job, drain=replace(open_, stop_step=step))
        case _:
            assert_never(fact)


def _drain_told(job: Job, fact: _NodeFact) -> Job:
    if job.drain is None or not isinstance(fact, f.NodeFinished) or not fact.stopped:
        return job
    return replace(job, drain=replace(job.drain, told=True))


_IncidentFact = (
    f.IncidentOpened
    | f.FaultJoined
    | f.RoundReopened
    | f.ProgressChecked
    | f.CulpritChanged
    | f.VerdictLatched
    | f.SplitRuledOut
)


def _incident(job: Job, fact: _IncidentFact) -> Job:
    match fact, job.stage:
        case f.IncidentOpened(name, fault, opened_wall, view), Running(formation):
            times = RoundTimes(0, formation.generation, fault.at, opened_wall)
            incident = Incident(name, 0, formation.generation, job.attempt, formation.cycle, (fault,), (times,), view)
            walls = (*job.failure_walls, float(opened_wall))[-FAILURES_MAX:]
            return replace(job, stage=Fenced(formation, incident), fenced=formation.generation, failure_walls=walls)
        case f.RoundReopened(name, number, fault, opened_wall, view), Proving(formation, incident):
            _expect(name == incident.incident and number == incident.round + 1, job, fact)
            times = RoundTimes(number, formation.generation, fault.at, opened_wall)
            again = replace(
                incident,
                round=number,
                faults=(*incident.faults, fault)[:FAULTS_MAX],
                rounds=(*incident.rounds, times),
                view=view,
                verdict=None,
                split_ruled_out=None,
            )
            walls = (*job.failure_walls, float(opened_wall))[-FAILURES_MAX:]
            return replace(job, stage=Fenced(formation, again), fenced=formation.generation, failure_walls=walls)
        case f.FaultJoined(name, fault), Fenced(formation, incident):
            _expect(name == incident.incident, job, fact)
            times = incident.now_round
            if fault.at < times.fault_wall:
                times = replace(times, fault_wall=fault.at)
            joined = replace(incident, faults=(*incident.faults, fault), rounds=(*incident.rounds[:-1], times))
            return replace(job, stage=Fenced(formation, joined))
        case f.ProgressChecked(name, number, check), Fenced(formation, incident):
            _expect((name, number) == (incident.incident, incident.round) and incident.verdict is None, job, fact)
            checked = replace(incident, view=replace(incident.view, progress=check))
            return replace(job, stage=Fenced(formation, checked), progress=job.progress.after(check))
        case f.CulpritChanged(name, number, view), Fenced(formation, incident):
            _expect((name, number) == (incident.incident, incident.round) and incident.verdict is None, job, fact)
            return replace(job, stage=Fenced(formation, replace(incident, view=view)))
        case f.VerdictLatched(name, number, verdict, wall), Fenced(formation, incident):
            _expect((name, number) == (incident.incident, incident.round) and incident.verdict is None, job, fact)
            times = replace(incident.now_round, verdict_wall=wall)
            judged = replace(incident, verdict=verdict, rounds=(*incident.rounds[:-1], times))
            return replace(job, stage=Fenced(formation, judged))
        case f.SplitRuledOut(generation, because), Fenced(formation, incident):
            _expect(generation == formation.generation and incident.split_ruled_out is None, job, fact)
            return replace(job, stage=Fenced(formation, replace(incident, split_ruled_out=because)))
        case _:
            raise Impossible(f"{type(fact).__name__} in stage {type(job.stage).__name__}")


def _closed(job: Job, record: RecoveryRecord) -> Job:
    after = with_record(job, record)
    match job.stage:
        case Proving(formation) if record.outcome is not RecoveryOutcome.ENDED:
            # every rank committed a step: what fails now is no crash loop, and owes no backoff
            walls = () if record.outcome is RecoveryOutcome.RECOVERED else job.failure_walls
            return replace(after, stage=Running(formation), failure_walls=walls)
        case Proving() | Fenced() if record.outcome is RecoveryOutcome.ENDED:
            return replace(after, stage=Gathering(record.because))
        case _:
            raise Impossible(f"a recovery closed as {record.outcome} in stage {type(job.stage).__name__}")


def _expect(holds: bool, job: Job, fact: f.Fact) -> None:
    if not holds:
        raise Impossible(f"{type(fact).__name__} does not fit stage {type(job.stage).__name__}: {fact!r:.300}")
