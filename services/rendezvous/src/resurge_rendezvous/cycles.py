"""The record of each cycle, written for people and workers beside the job. Never delays a restart; decides nothing.

The journal decides; a record is a view of it, with the processes and directories that launchers last told. One record
is written whenever a durable fact or a start changes it, in a thread of its own, newest state only. What a restart of
this service cannot know again (processes of a cycle that is over) is kept from the file.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_libs.core.instant import Wall
from resurge_libs.core.progress import ProgressCheck
from resurge_libs.core.reasons import Because
from resurge_libs.core.verdict import Verdict
from resurge_libs.obs import cycle_files, log
from resurge_libs.obs.background import CLOSE_LIMIT_S, BackgroundWriter, Outage
from resurge_libs.obs.cycle_record import BadRecord, CycleEnd, CycleRecord, NodePlace, RankPlace, RankReplaced
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.causes import FaultRecord, by_cause
from resurge_rendezvous.core.job import Ended, Fenced, Formation, Gathering, Job, Proving, Running
from resurge_rendezvous.core.presence import Presence, RdzvState
from resurge_rendezvous.core.replacement_values import ReplacedRank

SHARE = 0.05
"""Of the writer's time, for what is not urgent."""
TELLING = (
    f.AttemptRaised | f.JournalBehindAdopted | f.RoundClosed | f.IncidentOpened | f.FaultJoined | f.RoundReopened
    | f.VerdictLatched | f.RecoveryClosed | f.Terminated | f.RankReplaced | f.ReplacementSettled
)  # fmt: skip
"""Facts that change a record."""
OWN_BYTES_MAX = 8 * 1024 * 1024
"""Of the records in the state directory; those in a directory that somebody named are that person's to remove."""
PER_NODE_S = 0.0002
"""So long, for each node of a cycle, a record waits that nobody waits for."""
LEFT_OPEN_MAX = 8
"""Records before the newest one that are looked at after a crash."""


def record_of(state: RdzvState) -> CycleRecord | None:
    """The newest cycle as the state tells it; None where no cycle of this attempt was begun, or its end is unknown."""
    job, seen = state.durable, state.volatile
    formation = job.last_formation
    if formation is None or job.spec is None or formation.attempt != job.attempt:
        return None
    match job.stage:
        case Running() | Proving():
            end, ended_by = None, CycleEnd()
        case Fenced(_, incident):
            faults = _of_generation(incident.faults, formation)
            end, ended_by = (
                incident.now_round.fault_wall,
                _incident_end(incident.incident, faults, incident.verdict, incident.view.progress),
            )
        case Ended():
            end, ended_by = _last_end(job, formation, job.stage)
        case _:
            return None
    return CycleRecord(
        job=job.spec.job_id,
        attempt=formation.attempt,
        cycle=formation.cycle,
        generation=formation.generation,
        start=formation.closed_wall,
        end=end,
        recovery_of=formation.incident or "",
        restored_iteration=_restored(job, seen, formation),
        ended_by=ended_by,
        nodes=_nodes(job, seen, formation),
        standby_hosts=_standby(job, seen, formation),
        ranks=_ranks(job, seen, formation),
        replaced=tuple(_replaced(one) for one in job.replaced if one.generation == formation.generation),
    )


def _replaced(one: ReplacedRank) -> RankReplaced:
    return RankReplaced(
        rank=one.rank,
        node=one.node,
        iteration=one.iteration,
        reason=one.because.code.value,
        sentence=one.because.sentence,
        lost=one.lost_wall,
        lost_pid=one.lost_pid,
        back=one.settled_wall if one.came else None,
        pid=one.pid or None,
        given_up=one.sentence,
    )


def _of_generation(faults: Iterable[FaultRecord], formation: Formation) -> list[FaultRecord]:
    return by_cause(fault for fault in faults if fault.generation == formation.generation)


def _incident_end(
    incident: str, faults: list[FaultRecord], verdict: Verdict | None, progress: ProgressCheck | None
) -> CycleEnd:
    end = CycleEnd(incident)
    if progress is not None:
        end = replace(
            end,
            checkpoint_iteration=progress.marker,
            reached_iteration=progress.sdk_step,
            progress_unknown=progress.skipped,
        )
    if faults:
        first = faults[0]
        culprit = first.node if first.rank is None else f"{first.node}/{first.rank}"
        end = replace(end, reason=first.because.code.value, sentence=first.because.sentence, culprit=culprit)
    if verdict is not None:
        said = verdict.because.sentence or verdict.because.code.value
        end = replace(end, verdict=verdict.kind.value, verdict_sentence=said, decided_by=verdict.source)
    return end


def _last_end(job: Job, formation: Formation, stage: Ended) -> tuple[Wall, CycleEnd]:
    decision = stage.decision
    for record in reversed(job.records):
        faults = _of_generation(record.faults, formation)
        if faults and record.generation_to == 0:
            end = _incident_end(record.incident, faults, record.verdict, record.view.progress)
            return min(fault.at for fault in faults), replace(end, exit_code=decision.exit_code)
    because = decision.because
    return decision.at, CycleEnd(reason=because.code.value, sentence=because.sentence, exit_code=decision.exit_code)


def _restored(job: Job, seen: Presence, formation: Formation) -> int | None:
    steps = [at.restored_step for at in seen.start.ranks.values() if at.restored_step is not None]
    if steps:
        return min(steps)
    known = next((r for r in reversed(job.records) if r.generation_to == formation.generation), None)
    return known.restored_step if known is not None else None


def _host(job: Job, node: str) -> str:
    entry = job.nodes.get(node)
    return entry.host if entry is not None and entry.host else node


def _nodes(job: Job, seen: Presence, formation: Formation) -> tuple[NodePlace, ...]:
    places = []
    for place in sorted(formation.assignments, key=lambda place: place.group_rank):
        seat = seen.seats.get(place.node)
        log_dir = log_file = ""
        if seat is not None and seat.incarnation == place.incarnation:
            if seat.log_root:
                log_dir = f"{seat.log_root}/{formation.attempt}/{formation.cycle}"
            if seat.log_prefix:
                log_file = cycle_files.log_path(seat.log_prefix, formation.attempt, formation.cycle)
        places.append(NodePlace(place.node, _host(job, place.node), place.group_rank, log_dir, log_file))
    return tuple(places)


def _ranks(job: Job, seen: Presence, formation: Formation) -> tuple[RankPlace, ...]:
    ranks = []
    for place in sorted(formation.assignments, key=lambda place: place.base_rank):
        seat = seen.seats.get(place.node)
        told = seat is not None and seat.incarnation == place.incarnation
        observed = seat.observed if told and seat is not None else None
        pids = {}
        if observed is not None and observed.generation == formation.generation:
            pids = {worker.local_rank: worker.pid for worker in observed.workers}
        host = _host(job, place.node)
        ranks += [
            RankPlace(place.base_rank + local, place.node, host, local, pids.get(local))
            for local in range(place.local_world_size)
        ]
    return tuple(ranks)


def _standby(job: Job, seen: Presence, formation: Formation) -> tuple[str, ...]:
    """Hosts of the nodes that are attached and have no place."""
    placed = {place.node for place in formation.assignments}
    spares = set()
    for entry in job.nodes:
        if entry.node in placed or entry.lost is not None or entry.exclusion is not None:
            continue
        seat = seen.seats.get(entry.node)
        if seat is not None and seat.stream is not None:
            spares.add(entry.host or entry.node)
    return tuple(sorted(spares))


def _with_pid(fresh: RankPlace, known: int | None) -> RankPlace:
    return fresh if fresh.pid is not None or known is None else replace(fresh, pid=known)


def _with_logs(fresh: NodePlace, known: NodePlace | None) -> NodePlace:
    if known is None or fresh.log_dir or not (known.log_dir or known.log_file):
        return fresh
    return replace(fresh, log_dir=known.log_dir, log_file=known.log_file)


def merged(fresh: CycleRecord, known: CycleRecord) -> CycleRecord:
    """The fresh record with what only the earlier one of the same start still knows."""
    pids = {at.rank: at.pid for at in known.ranks}
    logs = {node.node: node for node in known.nodes}
    return replace(
        fresh,
        ranks=tuple(_with_pid(at, pids.get(at.rank)) for at in fresh.ranks),
        nodes=tuple(_with_logs(node, logs.get(node.node)) for node in fresh.nodes),
        restored_iteration=known.restored_iteration if fresh.restored_iteration is None else fresh.restored_iteration,
        # the spares of a cycle are those that it had, not those that its end left over
        standby_hosts=fresh.standby_hosts if fresh.end is None else known.standby_hosts or fresh.standby_hosts,
        ended_by=known.ended_by if fresh.end is None or _lacks_verdict(fresh, known) else fresh.ended_by,
        end=fresh.end if fresh.end is not None else known.end,
    )


def _lacks_verdict(fresh: CycleRecord, known: CycleRecord) -> bool:
    same = fresh.ended_by.incident == known.ended_by.incident
    return same and not fresh.ended_by.verdict and bool(known.ended_by.verdict)


def closed_by(known: CycleRecord, state: RdzvState) -> CycleRecord:
    """An earlier record with the end that the state still tells: a verdict may come with the next round in one step."""
    job = state.durable
    incident = job.open_incident
    if incident is not None and incident.now_round.generation == known.generation:
        faults = by_cause(x for x in incident.faults if x.generation == known.generation)
        end = _incident_end(incident.incident, faults, incident.verdict, incident.view.progress)
        return replace(known, end=incident.now_round.fault_wall, ended_by=end)
    for record in reversed(job.records):
        faults = by_cause(x for x in record.faults if x.generation == known.generation)
        if faults:
            # of several rounds the record keeps what the last one was given and got
            was_last = max(x.generation for x in record.faults) == known.generation
            verdict, progress = (record.verdict, record.view.progress) if was_last else (None, None)
            end = _incident_end(record.incident, faults, verdict, progress)
            return replace(known, end=min(fault.at for fault in faults), ended_by=end)
    return known


def abandoned(known: CycleRecord, because: Because, at: float) -> CycleRecord:
    """A record of a cycle whose end nobody saw: another attempt began, or the journal had lost it."""
    return replace(known, end=at, ended_by=CycleEnd(reason=because.code.value, sentence=because.sentence))


@dataclass(frozen=True, slots=True)
class CyclePlace:
    """Where records go."""

    root: Path
    is_given: bool
    """Somebody named it, and workers look there: a new cycle's record is written at once."""
    link: Path | None = None
    """A name in the state directory that leads to it, for commands that are told no other place."""


class CycleExport:
    """Writes the records of one job; belongs to one event loop but for the thread that writes."""

    def __init__(self, place: CyclePlace | None) -> None:
        self._place = place
        self._known: dict[Path, CycleRecord] = {}
        """The newest record and the one before it, as written; the writer's alone."""
        self._newest: tuple[int, int] | None = None
        self._current = 0
        """The generation that `current` points to; the writer's alone."""
        if place is not None:
            remedy = "Make it a directory with room that the control plane may write (--ft-cycle-info-dir)."
            self._outage = Outage("the record of a cycle", place.root, remedy)
            self._writer = BackgroundWriter("cycle-records", self._outage, SHARE)

    def told(self, state: RdzvState, facts: Iterable[f.Fact]) -> None:
        """A step became durable; returns at once."""
        if self._place is None or not any(isinstance(fact, TELLING) for fact in facts):
            return
        self._put(state, urgent=self._place.is_given)

    def shown(self, state: RdzvState) -> None:
        """The job looks different: processes may have come."""
        if self._place is not None:
            self._put(state, urgent=False)

    def catch_up(self, state: RdzvState) -> None:
        """Close what a crash left open, and write the newest record anew."""
        if self._place is not None:
            self._writer.put("catch-up", lambda: self._close_open(state))
            self._put(state, urgent=False)

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Finish what was begun, for a short time."""
        if self._place is not None:
            self._writer.close(limit_s)

    def _put(self, state: RdzvState, urgent: bool) -> None:
        formation = state.durable.last_formation
        if formation is None:
            return
        key = f"{formation.attempt}/{formation.cycle}/{formation.generation}"
        if isinstance(state.durable.stage, Gathering):  # tells of an end alone: it must not replace what tells the rest
            self._writer.put(f"{key}/left", lambda: self._abandon(state))
            return
        # a record that exists may wait for its turn; workers wait for one that does not
        urgent = urgent and self._newest != (formation.attempt, formation.generation)
        self._newest = (formation.attempt, formation.generation)
        # a round of very many nodes is first told to them: a record takes this process's time as well
        after_s = PER_NODE_S * len(formation.assignments)
        self._writer.put(key, lambda: self._write(state), urgent, after_s)

    # in the writer's thread

    def _write(self, state: RdzvState) -> None:
        assert self._place is not None
        record = record_of(state)
        if record is None:
            return
        path = cycle_files.record_path(self._place.root, record.job, record.attempt, record.cycle)
        known = self._known.get(path)
        is_new = known is None
        if known is None:
            known = self._found(path, record)
        if known is not None:
            record = merged(record, known)
        if record != known or is_new:
            cycle_files.write_record(path, record)
        self._known[path] = record
        if is_new and not self._place.is_given:
            cycle_files.keep_newest(self._place.root, record.job, OWN_BYTES_MAX)
        if record.generation > self._current:  # one that waited longer may come after its successor
            cycle_files.point_current(path)
            self._current = record.generation
            self._close_earlier(state, path)
        self._outage.written()

    def _close_earlier(self, state: RdzvState, newest: Path) -> None:
        for path in [path for path in self._known if path != newest]:
            known = self._known.pop(path)
            closed = closed_by(known, state) if not known.ended_by.verdict else known
            if closed != known:
                cycle_files.write_record(path, closed)

    def _found(self, path: Path, record: CycleRecord) -> CycleRecord | None:
        """What the file holds of this same start; a record of another one is put aside."""
        try:
            found = cycle_files.read_record(path)
        except FileNotFoundError:
            return None
        except BadRecord:
            found = None
        if found is not None and found.is_of_same_start(record):
            return found
        aside = cycle_files.put_aside(path)
        log.event("cycle_record_put_aside", path=str(path), aside=str(aside))
        return None

    def _close_open(self, state: RdzvState) -> None:
        assert self._place is not None
        link = self._place.link
        if link is not None and (link.is_symlink() or not link.exists()):
            with contextlib.suppress(OSError):  # without it a command is told the directory
                link.unlink(missing_ok=True)
                link.symlink_to(self._place.root)
        job, newest = state.durable, state.durable.last_formation
        if job.spec is None or newest is None:
            return
        for cycle in range(max(0, newest.cycle - LEFT_OPEN_MAX), newest.cycle):
            path = cycle_files.record_path(self._place.root, job.spec.job_id, newest.attempt, cycle)
            with contextlib.suppress(FileNotFoundError, BadRecord):
                known = cycle_files.read_record(path)
                if known.end is None and known.generation < newest.generation:
                    cycle_files.write_record(path, closed_by(known, state))

    def _abandon(self, state: RdzvState) -> None:
        """Close the last record of an attempt, or of a journal, that ended without a word."""
        job, last = state.durable, state.durable.last_formation
        if job.spec is None or last is None or not isinstance(job.stage, Gathering):
            return
        assert self._place is not None
        path = cycle_files.record_path(self._place.root, job.spec.job_id, last.attempt, last.cycle)
        with contextlib.suppress(FileNotFoundError, BadRecord):
            known = cycle_files.read_record(path)
            if known.end is None and known.generation == last.generation:
                cycle_files.write_record(path, abandoned(known, job.stage.because, time.time()))
