"""A worker's silence, and what becomes of it: the look at all of the node's workers, and who of them is to blame. Pure.

Rules, in prose:
1. A worker past its limit is not ended at once: for a bounded moment all of the node's workers are looked at, for a
   teardown destroys what can be seen.
2. Blamed is the worker that hangs in the clearest way, of those past their limits and of those that clearly hang and
   are silent at least half as long, though their own limits are longer. A worker that has never beaten is silent for
   nobody knows how long: its limit alone tells. Several that are blocked at one line wait, as a rule, for one that
   stands elsewhere: the fewer stand there, the sooner one of them is blamed. Among equals it is one past its limit,
   then the one that is furthest behind.
3. Whoever is in a collective waits for another rank. If nobody else is to blame, the fault only says that nothing more
   was heard, and another node's clearer word stands before it.
4. A worker that moves again while it is looked at is let live.
5. What was seen of the others is told as well, of each that clearly hangs, but not of several at one line.
6. A node that is told to end its workers because others hang looks at its own first. Where none of them is late, those
   are held to be at work that are silent for less than half of the shortest limit.
7. Where the cause elsewhere is a clearest one, that look keeps stacks and judges no wait: workers are ordered out of
   their waits as it begins, behind the signal that writes their stacks. Whoever ends of that was ended by the launcher.
   Not while a checkpoint is waited for: its writers may be in a collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGTERM

from resurge_launcher.core import crew as crews
from resurge_launcher.core.findings import CLEAR, Captures, Finding, How, Inspection
from resurge_launcher.core.happenings import Action, Inspect
from resurge_launcher.core.model import Alive, Crew, Fault, PageReading, Rules, Worker
from resurge_launcher.core.worker_news import OrderAbort
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import HANGS, Because, Reason
from resurge_libs.core.values import replace

INSPECTION_LIMIT_S = 0.5
"""Of a look at silent workers; it takes a twentieth of a second as a rule."""
REASONS = {
    How.STOPPED: Reason.WORKER_STOPPED,
    How.GIL_HELD: Reason.WORKER_GIL_HELD,
    How.LIVELOCK: Reason.WORKER_LIVELOCK,
    How.DEVICE: Reason.WORKER_BLOCKED,
    How.BLOCKED: Reason.WORKER_BLOCKED,
    How.UNKNOWN: Reason.WORKER_HUNG,
    How.WAITS: Reason.WORKER_HUNG,
}
CLEAREST = frozenset({Reason.WORKER_STOPPED, Reason.WORKER_GIL_HELD})
"""Seen elsewhere, these leave little to find here: workers are released without being watched for long."""
WORDS = {
    How.STOPPED: "is stopped (SIGSTOP, or a debugger)",
    How.GIL_HELD: "is past its limit{limit}: native code holds the GIL{where}",
    How.LIVELOCK: "is past its limit{limit}: it runs without getting on{where}",
    How.DEVICE: "is past its limit{limit}: the kernel waits for a device{where}",
    How.BLOCKED: "is past its limit{limit}: it is blocked{where}",
    How.UNKNOWN: "is past its limit{limit}{where}",
    How.WAITS: "is past its limit{limit}: it waits for other ranks{where}",
}


@dataclass(frozen=True, slots=True)
class _Suspect:
    worker: Worker
    reading: PageReading
    finding: Finding


def noticed(crew: Crew, fault: Fault, rules: Rules, now: Instant) -> tuple[Crew, tuple[Action, ...]]:
    """A worker is past its limit: look at all of them first, or hold it against the worker at once."""
    if rules.captures is None:
        return replace(crew, faults=(*crew.faults, fault)), ()
    return _begun(crew, rules, Inspection(now, after(now, INSPECTION_LIMIT_S)), _in_section(crew, now))


def ordered(
    crew: Crew, because: Because, rules: Rules, now: Instant, is_saving: bool = False
) -> tuple[Crew, tuple[Action, ...]] | None:
    """The crew that looks before it is torn down for a hang elsewhere; None when there is nothing to look at."""
    if rules.captures is None or because.code not in HANGS or crew.inspection is not None:
        return None
    if not any(isinstance(w.state, Alive) and w.state.watch.reading is not None for w in crew.workers):
        return None
    inspection = Inspection(now, after(now, INSPECTION_LIMIT_S), is_ordered=True)
    in_section = any(reading.open_phase for _, reading in _readings(crew))
    is_brief = because.code in CLEAREST
    crew, actions = _begun(crew, rules, inspection, in_section, is_brief)
    if not is_brief or is_saving:
        return crew, actions
    order = OrderAbort(crew.generation, rules.limits.fault_grace_s, str(because))
    return crews.signalled(crew, SIGTERM), (*actions, order)


def _begun(
    crew: Crew, rules: Rules, inspection: Inspection, in_section: bool, is_brief: bool = False
) -> tuple[Crew, tuple[Action, ...]]:
    with_stacks = rules.captures is Captures.ALL or (rules.captures is Captures.SECTIONS and in_section)
    inspect = Inspect(crew.generation, with_stacks, INSPECTION_LIMIT_S * 0.8, is_brief)
    return replace(crew, inspection=inspection), (inspect,)


def _in_section(crew: Crew, now: Instant) -> bool:
    return any(reading.open_phase and _is_late(reading, now) for _, reading in _readings(crew))


def is_looking(crew: Crew, now: Instant) -> bool:
    """Whether a look is under way: nothing that it looks at may be ended."""
    return crew.inspection is not None and not crew.inspection.is_over and now < crew.inspection.until


def due_at(crew: Crew) -> Instant | None:
    """When a look that is under way is given up."""
    return crew.inspection.until if crew.inspection is not None and not crew.inspection.is_over else None


def concluded(crew: Crew, findings: tuple[Finding, ...], held_since: Instant | None, now: Instant) -> Crew:
    """The crew after the look, with a fault for whoever is to blame; without one when all move again."""
    assert crew.inspection is not None, "only a look that was begun ends"
    crew = replace(crew, inspection=replace(crew.inspection, is_over=True, findings=findings))
    late = crews.hung(crew, now, held_since)
    if late is None:
        return crew if crew.inspection is not None and crew.inspection.is_ordered else replace(crew, inspection=None)
    culprit = _culprit(crew, findings, now)
    return replace(crew, faults=(*crew.faults, _fault(culprit, now) if culprit is not None else late))


def with_evidence(crew: Crew, now: Instant) -> Crew:
    """The crew with a fault against each worker that was clearly seen to hang, whatever brought the teardown."""
    if crew.inspection is None or not crew.inspection.is_over:
        return crew
    known = {fault.rank for fault in crew.faults}
    fresh = tuple(
        _fault(suspect, now)
        for suspect in _clearly_hung(crew, crew.inspection.findings, now)
        if suspect.worker.rank not in known and _crowd(suspect.finding, crew.inspection.findings) < 2
    )
    return replace(crew, faults=crew.faults + fresh)


def _culprit(crew: Crew, findings: tuple[Finding, ...], now: Instant) -> _Suspect | None:
    late = [s for s in _suspects(crew, findings) if _is_late(s.reading, now)]
    others = _clearly_hung(crew, findings, now)
    return min((*late, *others), key=lambda s: _order(s, findings, now)) if late else None


def _clearly_hung(crew: Crew, findings: tuple[Finding, ...], now: Instant) -> list[_Suspect]:
    """Those that clearly hang and are past their limits, or silent for so long that they may be why others are."""
    bound_s = _bound_s([reading for _, reading in _readings(crew)], now)
    clear = [s for s in _suspects(crew, findings) if s.finding.how in CLEAR]
    return [s for s in clear if _is_late(s.reading, now) or _is_silent_for(s.reading, bound_s, now)]


def _bound_s(readings: list[PageReading], now: Instant) -> float | None:
    """How long a worker within its limit is silent before it may be the cause; None where nothing tells.

    Half as long as who is late; where nobody is who ever beat, half of the shortest limit, which work stays well below.
    """
    late = [silent_s for r in readings if _is_late(r, now) and (silent_s := _silence_s(r, now)) is not None]
    if late:
        return max(late) / 2
    limits = [r.hung_at - r.last_beat_at for r in readings if r.hung_at is not None and r.last_beat_at is not None]
    return min(limits) / 2 if limits else None


def _suspects(crew: Crew, findings: tuple[Finding, ...]) -> list[_Suspect]:
    found = {finding.local_rank: finding for finding in findings}
    return [
        _Suspect(worker, reading, found[worker.local_rank])
        for worker, reading in _readings(crew)
        if worker.local_rank in found
    ]


def _readings(crew: Crew) -> list[tuple[Worker, PageReading]]:
    return [
        (w, w.state.watch.reading)
        for w in crew.workers
        if isinstance(w.state, Alive) and w.state.watch.reading is not None
    ]


def _order(suspect: _Suspect, findings: tuple[Finding, ...], now: Instant) -> tuple[int, int, bool, int, float, int]:
    reading, found = suspect.reading, suspect.finding
    step = reading.step if reading.step is not None else -1
    due = reading.hung_at or 0.0
    return found.place, _crowd(found, findings), not _is_late(reading, now), step, due, suspect.worker.rank


def _crowd(finding: Finding, findings: tuple[Finding, ...]) -> int:
    """How many workers are blocked where this one is; one for any other way to hang, and where the place is unknown."""
    if finding.how is not How.BLOCKED or not finding.where:
        return 1
    return sum(other.how is How.BLOCKED and other.where == finding.where for other in findings)


def _is_late(reading: PageReading, now: Instant) -> bool:
    return reading.hung_at is not None and reading.hung_at <= now


def _silence_s(reading: PageReading, now: Instant) -> float | None:
    """Since its last beat; None where it never beat, which says nothing of how long it is silent."""
    return now - reading.last_beat_at if reading.last_beat_at is not None else None


def _is_silent_for(reading: PageReading, bound_s: float | None, now: Instant) -> bool:
    silent_s = _silence_s(reading, now)
    return bound_s is not None and silent_s is not None and silent_s >= bound_s


def _fault(suspect: _Suspect, now: Instant) -> Fault:
    reading, finding = suspect.reading, suspect.finding
    since = reading.last_beat_at if reading.last_beat_at is not None else now
    words = WORDS[finding.how].format(
        limit=f" in section {reading.open_phase!r}" if reading.open_phase else "",
        where=f" at {finding.where}" if finding.where else "",
    )
    step = f", last step {reading.step}" if reading.step is not None else ""
    sentence = f"rank {suspect.worker.rank} {words}; last beat {now - since:.1f} s ago{step}"
    return Fault(Because(REASONS[finding.how], sentence), since, suspect.worker.rank)
