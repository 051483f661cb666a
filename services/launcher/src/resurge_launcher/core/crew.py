"""One generation's workers as a nested machine: who lives, who ended how, who hangs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGINT, Signals
from typing import assert_never

from resurge_launcher.core import musters
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.happenings import Process, WorkerExited
from resurge_launcher.core.model import (
    Alive,
    Awaited,
    Crew,
    Dying,
    Ended,
    ExitRecord,
    Fault,
    Milestone,
    PageReading,
    Watch,
    Worker,
)
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

PACE_S = 0.4
"""Paces over a shorter time say little."""
CHECKPOINT_STALL_S = 1.0
"""Whoever saves and neither says nor writes anything for so long is not waited for."""
CHECKPOINT_PHASE = "checkpoint"
"""Sections whose name begins so are worth the grace of a ladder."""


def enlisted(run: RunGoal, local_world_size: int) -> Crew:
    """The crew of a generation before any of its processes exists."""
    return Crew(run, tuple(Worker(Rank(run.base_rank + local), local) for local in range(local_world_size)))


def never_started(crew: Crew) -> Crew:
    """The crew without the workers that were never ordered."""
    return replace(crew, workers=tuple(w for w in crew.workers if not isinstance(w.state, Awaited)))


def started(crew: Crew, pids: Iterable[tuple[int, int]]) -> Crew:
    """The crew with these (local rank, pid) alive; an end that came before this news stands."""
    known = dict(pids)
    return replace(
        crew,
        workers=tuple(
            replace(w, state=Alive(known[w.local_rank]))
            if w.local_rank in known and isinstance(w.state, Awaited)
            else w
            for w in crew.workers
        ),
    )


def ended(crew: Crew, event: WorkerExited) -> tuple[Crew, ExitRecord | None]:
    """The crew after one worker's end, with the record; None when that end is known already."""
    for worker in crew.workers:
        if worker.local_rank != event.local_rank:
            continue
        match worker.state:
            case Ended():
                return crew, None
            case Awaited() | Alive():
                record = musters.forgiven(crew, _record(worker, event))
                return crew.with_worker(replace(worker, state=Ended(record))), record
            case Dying(early):
                record = _settled(early, _record(worker, event))
                crew = crew.with_worker(replace(worker, state=Ended(record)))
                return _with_claim(crew, early, record), record
            case _:
                assert_never(worker.state)
    return crew, None


def dying(crew: Crew, end: WorkerExited) -> tuple[Crew, ExitRecord | None]:
    """The crew with one worker at its end, with the record; None when that end is known, or no fault: it can wait."""
    for worker in crew.workers:
        if worker.local_rank != end.local_rank:
            continue
        match worker.state:
            case Dying() | Ended():
                return crew, None
            case Awaited() | Alive():
                record = musters.forgiven(crew, _record(worker, end))
                if failure(record) is None and not record.forgiven:
                    return crew, None
                return crew.with_worker(replace(worker, state=Dying(record))), record
            case _:
                assert_never(worker.state)
    return crew, None


def _settled(early: ExitRecord, late: ExitRecord) -> ExitRecord:
    """What the reaping says, but since the earlier moment; whatever was known then and is missing now stays."""
    last_step = late.last_step if late.last_step is not None else early.last_step
    return replace(
        late, at=min(early.at, late.at), last_step=last_step, error=late.error or early.error, forgiven=early.forgiven
    )


def _with_claim(crew: Crew, early: ExitRecord, late: ExitRecord) -> Crew:
    """The crew with the fault that was acted upon, where the reaping tells of another end: a fault is never lost."""
    if (early.exit_code, early.signal) == (late.exit_code, late.signal) or early.forgiven:
        return crew
    because = failure(early)
    assert because is not None, "only a fault is known early"
    return replace(crew, faults=(*crew.faults, Fault(because, early.at, early.rank)))


def _record(worker: Worker, event: WorkerExited) -> ExitRecord:
    sent = worker.state.signalled if isinstance(worker.state, Alive) else None
    watched_step = None
    if isinstance(worker.state, Alive) and worker.state.watch.reading is not None:
        watched_step = worker.state.watch.reading.step
    return ExitRecord(
        rank=worker.rank,
        local_rank=worker.local_rank,
        pid=event.pid,
        at=event.at,
        exit_code=event.exit_code,
        signal=event.signal,
        last_step=event.last_step if event.last_step is not None else watched_step,
        error=event.error,
        # whoever was signalled by us and ends by another signal (SIGSEGV) ended by itself
        ended_by_launcher=sent is not None and (event.signal is None or event.signal == sent) and event.exit_code != 0,
    )


def processes(crew: Crew) -> tuple[Process, ...]:
    """The processes of those that were started, of those that have ended too, in the order of local ranks."""
    return tuple([Process(w.rank, w.local_rank, pid) for w in crew.workers if (pid := _pid_of(w)) is not None])


def _pid_of(worker: Worker) -> int | None:
    match worker.state:
        case Alive(pid):
            return pid
        case Awaited():
            return None
        case Dying(record) | Ended(record):
            return record.pid
        case _:
            assert_never(worker.state)


def signalled(crew: Crew, signal: int) -> Crew:
    """The crew after a signal that ends was sent to all that live."""
    return replace(
        crew,
        workers=tuple(
            replace(w, state=replace(w.state, signalled=signal)) if isinstance(w.state, Alive) else w
            for w in crew.workers
        ),
    )


def any_alive(crew: Crew) -> bool:
    """Whether some worker has a living process."""
    return any(isinstance(w.state, Alive) for w in crew.workers)


def any_awaited(crew: Crew) -> bool:
    """Whether the start of some worker is still to be told."""
    return any(isinstance(w.state, Awaited) for w in crew.workers)


def read(crew: Crew, readings: tuple[PageReading, ...], now: Instant) -> Crew:
    """The crew with what its pages say now; milestones of the same kind are told once."""
    by_rank = {reading.local_rank: reading for reading in readings}
    workers, milestones = [], crew.milestones
    for worker in crew.workers:
        reading = by_rank.get(worker.local_rank)
        if reading is None:
            workers.append(worker)
            continue
        state = worker.state
        if isinstance(state, Alive):
            known = state.watch.reading
            if known is None or reading.milestones != known.milestones:  # else all of them are known
                milestones = _with_fresh(milestones, reading)
            watched = Alive(state.pid, _watched(state.watch, reading, now), state.signalled)
            worker = Worker(worker.rank, worker.local_rank, watched)
        else:
            milestones = _with_fresh(milestones, reading)
        workers.append(worker)
    stop = crew.stop
    if not stop.told and any(reading.told_to_stop for reading in readings):
        stop = replace(stop, told=True)
    return replace(crew, workers=tuple(workers), milestones=milestones, stop=stop)


def _with_fresh(milestones: tuple[Milestone, ...], reading: PageReading) -> tuple[Milestone, ...]:
    """The milestones with those of a page that are new: each kind is told once of each rank."""
    known = {(m.rank, m.kind) for m in milestones}
    fresh = tuple(m for m in reading.milestones if (m.rank, m.kind) not in known)
    return (*milestones, *fresh) if fresh else milestones


def _watched(watch: Watch, reading: PageReading, now: Instant) -> Watch:
    """With a reading in it, and with the pace of its steps, where that can be told anew."""
    known, step = watch.reading, reading.asked_step
    stepped = reading.step is not None and (known is None or reading.step != known.step)
    moved = known is None or reading.moves != known.moves or reading.waits_for_disk
    step_moved_at = now if stepped else watch.step_moved_at
    moved_at = now if moved else watch.moved_at
    paced_at, paced_step, steps_per_s = watch.paced_at, watch.paced_step, watch.steps_per_s
    if step is not None and paced_at is None:
        paced_at, paced_step = now, step
    elif step is not None and paced_at is not None and (elapsed_s := now - paced_at) >= PACE_S:
        paced_at, paced_step, steps_per_s = now, step, max(0, step - paced_step) / elapsed_s
    return Watch(reading, step_moved_at, moved_at, paced_at, paced_step, steps_per_s)


def _watches(crew: Crew) -> list[tuple[Worker, Watch]]:
    return [(w, w.state.watch) for w in crew.workers if isinstance(w.state, Alive)]


def hung(crew: Crew, now: Instant, held_since: Instant | None) -> Fault | None:
    """The worker whose limit ran out first, if one's did.

    Without a lease the fence holds commits back, and with them the peers in their collectives: that silence is no hang.
    So a limit runs from the moment the lease came back at the earliest.
    """
    late = [
        (due, worker, watch.reading, watch)
        for worker, watch in _watches(crew)
        if watch.reading is not None
        and (limit := watch.reading.hung_at) is not None
        and limit <= now  # the lease can only move it away
        and (due := _hung_at(watch.reading, held_since)) is not None
        and due <= now
    ]
    if not late:
        return None
    _, worker, reading, watch = min(late, key=lambda entry: (not entry[2].stopped, entry[0], entry[1].rank))
    if reading.stopped:
        return _stopped(worker, watch, now)
    since = reading.last_beat_at if reading.last_beat_at is not None else now
    where = f" in section {reading.open_phase!r}" if reading.open_phase else ""
    step = f", last step {reading.step}" if reading.step is not None else ""
    sentence = f"rank {worker.rank} is past its limit{where}: last beat {now - since:.1f} s ago{step}"
    return Fault(Because(Reason.WORKER_HUNG, sentence), since, worker.rank)


def with_stopped(crew: Crew, now: Instant) -> Crew:
    """The crew with a fault against each worker that the kernel holds stopped: a teardown destroys that evidence."""
    known = {fault.rank for fault in crew.faults}
    fresh = tuple(
        _stopped(worker, watch, now)
        for worker, watch in _watches(crew)
        if watch.reading is not None and watch.reading.stopped and worker.rank not in known
    )
    return replace(crew, faults=crew.faults + fresh)


def _stopped(worker: Worker, watch: Watch, now: Instant) -> Fault:
    """Since its last sign: its peers fail later than that, and for want of it."""
    reading = watch.reading
    beat_at = reading.last_beat_at if reading is not None else None
    since = beat_at if beat_at is not None else watch.moved_at if watch.moved_at is not None else now
    sign = "last beat" if beat_at is not None else "last sign"
    step = f", last step {reading.step}" if reading is not None and reading.step is not None else ""
    sentence = f"rank {worker.rank} is stopped (SIGSTOP, or a debugger): {sign} {now - since:.1f} s ago{step}"
    return Fault(Because(Reason.WORKER_STOPPED, sentence), since, worker.rank)


def _hung_at(reading: PageReading, held_since: Instant | None) -> Instant | None:
    if reading.hung_at is None or reading.last_beat_at is None or held_since is None:
        return reading.hung_at
    return max(reading.hung_at, after(held_since, reading.hung_at - reading.last_beat_at))


def next_hang_at(crew: Crew) -> Instant | None:
    """The first instant at which some worker would count as hung."""
    return earliest(*[watch.reading.hung_at for _, watch in _watches(crew) if watch.reading is not None])


def finish_skew(crew: Crew, now: Instant, limit_s: float) -> Fault | None:
    """The rank that ended with 0 so long ago that its peers should have followed."""
    due = skew_at(crew, limit_s)
    if due is None or now < due:
        return None
    first = min((r for r in crew.exits if r.succeeded), key=lambda r: (r.at, r.rank))
    sentence = f"rank {first.rank} ended with 0 {now - first.at:.1f} s ago while others of its node run"
    return Fault(Because(Reason.FINISH_SKEW, sentence), first.at, first.rank)


def skew_at(crew: Crew, limit_s: float) -> Instant | None:
    """When a finish skew becomes a fault; None while nobody, or everybody, has ended."""
    ends = [record.at for record in crew.exits if record.succeeded]
    if not ends or crew.all_ended:
        return None
    return Instant(min(ends) + limit_s)


def last_progress_at(crew: Crew) -> Instant | None:
    """When some worker's step moved last; None while no worker reports steps."""
    moved = [watch.step_moved_at for _, watch in _watches(crew) if watch.step_moved_at is not None]
    return max(moved) if moved else None


def has_open_checkpoint(crew: Crew) -> bool:
    """Whether some living worker is saving its state."""
    return any(
        watch.reading is not None and watch.reading.open_phase.startswith(CHECKPOINT_PHASE)
        for _, watch in _watches(crew)
    )


def is_writing_checkpoint(crew: Crew, now: Instant) -> bool:
    """Whether some living worker is saving its state and still moves; not one that a fault is known of."""
    blamed = {fault.rank for fault in crew.faults}
    return any(
        watch.reading is not None
        and watch.reading.open_phase.startswith(CHECKPOINT_PHASE)
        and not watch.reading.stopped
        and worker.rank not in blamed
        and watch.moved_at is not None
        and now < watch.moved_at + CHECKPOINT_STALL_S
        for worker, watch in _watches(crew)
    )


def failure(record: ExitRecord) -> Because | None:
    """What is wrong with an end; None for exit code 0 and for ends that the launcher itself brought about."""
    if record.succeeded or record.ended_by_launcher or record.forgiven:
        return None
    return end_of(record)


def end_of(record: ExitRecord) -> Because:
    """What an end was, as a fault would say it."""
    step = f" after step {record.last_step}" if record.last_step is not None else ""
    who = f"rank {record.rank} (pid {record.pid})"
    if record.signal is not None:
        return Because(Reason.WORKER_SIGNAL, f"{who} was ended by {signal_name(record.signal)}{step}")
    return Because(Reason.WORKER_EXIT, f"{who} exited with {record.exit_code}{step}")


def signal_name(number: int) -> str:
    """SIGSEGV for 11; the number itself where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_interrupt(number: int) -> bool:
    """Whether the signal is the terminal's own."""
    return number == SIGINT
