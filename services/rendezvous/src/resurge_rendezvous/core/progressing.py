"""Progress over restarts: whose word counts, until when it is waited for, and the count in the journal.

Policy is asked with the cycle's progress in its hands. The launcher of the lowest active rank reads the marker while
all nodes end their workers, and so the wait costs nothing: the question goes out when the reading is there, or when
every node is clear, or after `marker_read_limit_s`, whichever is first. Only where a teardown is over sooner than any
process can be woken on a busy machine, a fifth of that limit from the fault is granted all the same. A cycle whose
reading came too late is not counted. Where the lowest node cannot be heard, the next one that can is told to read.
"""

from __future__ import annotations

from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import after, earliest
from resurge_libs.core.progress import CycleProgress, ProgressCheck, ProgressSource
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.actions import AskPolicy
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.job import Assignment, Fenced, Formation, Incident
from resurge_rendezvous.core.presence import Seat, reader_of

LEAST_SHARE = 5
"""The part of the limit that a reading has, however soon the nodes are clear."""
NO_READER = "no launcher of the cycle that could read the marker is heard"
TOO_LATE = "the marker was not read before the verdict was needed"
NO_STEP = "no worker of the lowest ranks has committed a step through the SDK"


def note_baseline(d: Draft, seat: Seat, place: Assignment, formation: Formation) -> None:
    """Take the first marker that is read before workers run as what the attempt began with."""
    reading = seat.observed.progress
    if (
        d.job.progress.baseline is None
        and d.spec.progress.source is ProgressSource.MARKER
        and place.group_rank == 0
        and seat.observed.generation == formation.generation
        and reading is not None
        and reading.at_start is not None
        and reading.at_start.value is not None
    ):
        d.record(f.ProgressBaselineRead(reading.at_start.value, formation.generation))


def ask_policy(d: Draft, *, at_once: bool = False) -> None:
    """Ask for the verdict of the open round as soon as all that it depends on is known, or cannot be waited for."""
    match d.job.stage:
        case Fenced(formation, incident) if incident.verdict is None and not d.seen.policy_asked:
            pass
        case _:
            return
    if d.spec.progress.is_tracked and incident.view.progress is None:
        clear = len(d.seen.busy) == 0
        granted = (
            None if d.seen.fenced_at is None else after(d.seen.fenced_at, d.limits.marker_read_limit_s / LEAST_SHARE)
        )
        check = _check(d, formation, at_once or (clear and (granted is None or d.now >= granted)))
        if check is None:
            limit = d.seen.timers.marker_at or after(d.now, d.limits.marker_read_limit_s)
            d.set_timers(marker_at=earliest(limit, granted) if clear else limit)
            return
        d.record(f.ProgressChecked(incident.incident, incident.round, check))
    put_question(d)


def put_question(d: Draft) -> None:
    """Ask about the open round as it is known now; the limit for its verdict is not later for a further question."""
    incident = d.job.open_incident
    assert isinstance(incident, Incident), "policy is asked about an open incident"
    due = after(d.now, d.limits.verdict_limit_s)
    questions = d.seen.questions.asked()
    d.see(policy_asked=True, questions=questions)
    d.set_timers(marker_at=None, verdict_at=earliest(d.seen.timers.verdict_at, due))
    d.do(AskPolicy(incident.view, d.limits.verdict_limit_s, questions.newest))


def marker_over(d: Draft) -> None:
    """The marker was waited for long enough."""
    ask_policy(d, at_once=True)


def _check(d: Draft, formation: Formation, is_due: bool) -> ProgressCheck | None:
    """The cycle's check; None while there may still be a reading in time."""
    reader = reader_of(formation, d.seen)
    known = _told_by(d, reader, formation) if reader is not None else None
    value, skipped = _value(d.spec.progress.source, known) if known is not None else (None, "")
    if value is None and not skipped:
        if not is_due:
            return None
        skipped = NO_READER if reader is None else TOO_LATE
    marker = known.at_end.value if known is not None and known.at_end is not None else None
    if known is not None and known.at_start is not None and known.at_start.value is not None:
        # the cycle was so short that its first reading comes together with its last
        _late_baseline(d, formation, known.at_start.value)
    return ProgressCheck(
        rules=d.spec.progress,
        baseline=d.job.progress.baseline,
        without_progress=d.job.progress.without_progress,
        value=value,
        skipped=skipped,
        marker=marker,
        sdk_step=known.sdk_step if known is not None else None,
    )


def _late_baseline(d: Draft, formation: Formation, value: int) -> None:
    if d.job.progress.baseline is None and d.spec.progress.source is ProgressSource.MARKER:
        d.record(f.ProgressBaselineRead(value, formation.generation))


def _told_by(d: Draft, node: NodeId, formation: Formation) -> CycleProgress | None:
    seat = d.seen.seats.get(node)
    if seat is None or seat.observed.generation != formation.generation:
        return None
    return seat.observed.progress


def _value(source: ProgressSource, known: CycleProgress) -> tuple[int | None, str]:
    """What counts of a report, or why there will be nothing; neither while it may still come."""
    if source is ProgressSource.SDK:
        return known.sdk_step, NO_STEP if known.is_over and known.sdk_step is None else ""
    if known.at_end is None:
        return None, ""
    return known.at_end.value, known.at_end.skipped
