"""Stopping at one step with all other ranks of the job: what this node offers, keeps and is told. Pure.

Rendezvous asks for an offer, has every node hold its ranks at the highest one, and decides once no rank had passed it.
A worker says at which step it asks before it looks for the border, and the launcher writes the border before it looks
where its workers are: so one of the two sees the other. A rank that was faster makes a later offer. A launcher that
cannot reach rendezvous decides for its own ranks, at the step where they are held if they are.
"""

from __future__ import annotations

from resurge_launcher.core.goals import RunGoal, StopPhase
from resurge_launcher.core.happenings import Action, Draining, WriteStop
from resurge_launcher.core.model import (
    Alive,
    Crew,
    LauncherState,
    PageReading,
    Rules,
    Running,
)
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.values import replace

AGREEMENT_S = 0.3
"""So long an agreement may take: ranks go on meanwhile, and the step offered lies behind what they do by then."""
HOLD_LOOK_S = 0.01
"""From writing a border to looking who had passed it: whatever a worker stored before it looked is seen by then."""
ALONE_SHARE = 1 / 3
"""Of the grace: so long rendezvous is waited for, then a launcher decides for its own ranks."""


def asks(crew: Crew) -> bool:
    """Whether every living worker asks whether to stop, and there is one."""
    is_any = False
    for worker in crew.workers:
        if isinstance(worker.state, Alive):
            reading = worker.state.watch.reading
            if reading is None or not reading.asks_stop:
                return False
            is_any = True
    return is_any


def draining(state: LauncherState, crew: Crew | None) -> Draining:
    """What rendezvous is told of it."""
    notice = state.notice
    signal, grace_s = (notice.signal, notice.ends_at - notice.at) if notice is not None else (None, 0.0)
    if crew is None:
        return Draining(signal, grace_s)
    stop = crew.stop
    return Draining(signal, grace_s, asks(crew), stop.offer, stop.held if stop.kept else None, stop.told)


def looked(crew: Crew, now: Instant) -> Crew:
    """After the pages were read: had some rank passed the border at which it is held?"""
    stop = crew.stop
    if stop.held is None or stop.held_at is None or stop.kept or stop.decided is not None:
        return crew
    if now < after(stop.held_at, HOLD_LOOK_S):
        return crew
    if any(_has_passed(reading, stop.held) for reading in _readings(crew)):
        return replace(crew, stop=replace(stop, offer=max(_earliest_border(crew), stop.held + 1)))
    return replace(crew, stop=replace(stop, kept=True))


def look_at(crew: Crew) -> Instant | None:
    """When the pages are to be read for the answer; None while none is owed."""
    stop = crew.stop
    if stop.held is None:
        return None
    owed = stop.held is not None and not stop.kept and stop.decided is None and not _refused(crew)
    return after(stop.held_at, HOLD_LOOK_S) if owed and stop.held_at is not None else None


def followed(state: LauncherState, crew: Crew, rules: Rules, now: Instant) -> tuple[Crew, tuple[Action, ...]] | None:
    """What the present order asks of the crew, if anything is left to do."""
    stop = crew.stop
    if stop.decided is not None:
        return None
    order = state.goal.stop if isinstance(state.goal, RunGoal) else None
    match order.phase if order is not None else None:
        case StopPhase.ASK if stop.offer is None:
            return replace(crew, stop=replace(stop, offer=_earliest_border(crew))), ()
        case StopPhase.HOLD if order is not None and order.step > (stop.held or 0):
            held = replace(stop, held=order.step, held_at=now, kept=False)
            return replace(crew, stop=held), (WriteStop(crew.generation, held=order.step),)
        case StopPhase.DECIDED if order is not None:
            return _decided(crew, order.step, alone=False)
        case _:
            pass
    due = alone_at(state, crew, rules)
    if due is None or now < due:
        return None
    return _decided(crew, stop.held if stop.held is not None else _earliest_border(crew), alone=True)


def alone_at(state: LauncherState, crew: Crew, rules: Rules) -> Instant | None:
    """When this launcher decides for its own ranks; None while nobody asks that of it."""
    notice, stop = state.notice, crew.stop
    if stop.decided is not None or not isinstance(state.phase, Running):
        return None
    if notice is not None:
        return after(notice.at, ALONE_SHARE * (notice.ends_at - notice.at))
    lost_at = state.control.lost_at
    return after(lost_at, rules.limits.lease_ttl_s) if stop.held is not None and lost_at is not None else None


def _decided(crew: Crew, step: int, *, alone: bool) -> tuple[Crew, tuple[Action, ...]]:
    stop = replace(crew.stop, decided=step)
    return replace(crew, stop=stop), (WriteStop(crew.generation, decided=step, alone=alone),)


def _readings(crew: Crew) -> list[PageReading]:
    states = (worker.state for worker in crew.workers)
    return [state.watch.reading for state in states if isinstance(state, Alive) and state.watch.reading is not None]


def _has_passed(reading: PageReading, border: int) -> bool:
    step = reading.asked_step
    return step is not None and (step > border or (step == border and not reading.waits_to_stop))


def _refused(crew: Crew) -> bool:
    stop = crew.stop
    return stop.held is not None and stop.offer is not None and stop.offer > stop.held


def _earliest_border(crew: Crew) -> int:
    """The first step that no rank has passed when the agreement is there; 0 where none reports steps."""
    paces = [
        (reading.asked_step, state.watch.steps_per_s)
        for worker in crew.workers
        if isinstance(state := worker.state, Alive)
        and (reading := state.watch.reading) is not None
        and reading.asked_step is not None
    ]
    if not paces:
        return 0
    return max(step + 1 + int(pace * AGREEMENT_S) for step, pace in paces)
