"""The ending of a generation as a nested machine: rungs by time, then strays, then over, or stuck.

First the living workers' process groups are signalled by the ladder. When the last worker is reaped, what is left of
its descendants is ended too and looked for until a full look finds nothing: only then the teardown is over. Pure.
"""

from __future__ import annotations

from signal import SIGKILL

from resurge_launcher.core import crew as crews
from resurge_launcher.core.happenings import Action, SignalWorkers, SweepStrays
from resurge_launcher.core.ladders import AT_ONCE, Ladder, Rung
from resurge_launcher.core.model import Alive, Crew, Teardown
from resurge_launcher.core.worker_news import OrderAbort
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import replace

Outcome = tuple[Teardown, tuple[Action, ...]]


def begin(crew: Crew, because: Because, ladder: Ladder, now: Instant, held_until: Instant | None = None) -> Outcome:
    """Start to end a crew; the first rung is climbed at once, or when an open checkpoint is no longer waited for."""
    return climb(Teardown(crew, crew.generation, because, ladder, now, held_until=held_until), now)


def released(teardown: Teardown, now: Instant) -> Outcome:
    """No checkpoint is waited for any longer: the ladder begins now."""
    return climb(replace(teardown, ladder=_later(teardown.ladder, now - teardown.began_at), held_until=None), now)


def _later(ladder: Ladder, for_s: float) -> Ladder:
    return replace(ladder, rungs=tuple(Rung(rung.at_s + for_s, rung.signal) for rung in ladder.rungs))


def begin_leftovers(because: Because, now: Instant) -> Outcome:
    """Start to end what an older launcher of this node left behind."""
    return climb(Teardown(None, Generation(0), because, AT_ONCE, now), now)


def nothing_left(generation: Generation, because: Because, now: Instant) -> Teardown:
    """A teardown that is over, for where nothing was alive."""
    return Teardown(None, generation, because, AT_ONCE, now, climbed=1, sweeping=True, over=True)


def climb(teardown: Teardown, now: Instant) -> Outcome:
    """Climb every rung that is due, and sweep when the last worker is gone."""
    actions: tuple[Action, ...] = ()
    if teardown.held_until is not None:
        if now < teardown.held_until and not (teardown.crew is None or teardown.crew.all_ended):
            return teardown, actions
        return released(teardown, now)
    if teardown.ladder.aborts and _only_tidies(teardown.crew):
        return hurry(teardown, now)
    while teardown.climbed < len(teardown.ladder.rungs) and now >= _rung_at(teardown, teardown.climbed):
        signal = teardown.ladder.rungs[teardown.climbed].signal
        teardown = replace(teardown, climbed=teardown.climbed + 1)
        if teardown.crew is not None and not teardown.crew.all_ended:
            actions += (*_abort(teardown), SignalWorkers(teardown.generation, signal))
            teardown = replace(teardown, crew=crews.signalled(teardown.crew, signal))
        if signal == SIGKILL and not teardown.over:
            # strays go with the workers then: a worker that cannot die must not shelter them
            actions += (SweepStrays(teardown.generation, SIGKILL),)
            teardown = replace(teardown, sweeping=True)
    return _swept(teardown, actions)


def _only_tidies(crew: Crew | None) -> bool:
    """After a fault nobody is to wait for destructors: taking an interpreter with torch apart needs half a second."""
    if crew is None or not crews.any_alive(crew):
        return False
    return all(w.state.pid in crew.tidying for w in crew.workers if isinstance(w.state, Alive))


def _abort(teardown: Teardown) -> tuple[OrderAbort, ...]:
    """Before the first signal: a handler for it runs once the main thread is out of native code, and not before."""
    ladder = teardown.ladder
    if teardown.climbed != 1 or not ladder.aborts:
        return ()
    left_s = ladder.rungs[-1].at_s - ladder.rungs[0].at_s
    return (OrderAbort(teardown.generation, left_s, str(teardown.because)),)


def _swept(teardown: Teardown, actions: tuple[Action, ...]) -> Outcome:
    """With no worker left there is nobody to protect: what remains is ended too."""
    if teardown.sweeping or not (teardown.crew is None or teardown.crew.all_ended):
        return teardown, actions
    return replace(teardown, sweeping=True), (*actions, SweepStrays(teardown.generation, teardown.ladder.strays))


def workers_changed(teardown: Teardown, crew: Crew, now: Instant) -> Outcome:
    """After an end, or after the news that a worker was started: newcomers get the signal of the present rung."""
    newcomers = (
        any(w.state.signalled is None for w in crew.workers if isinstance(w.state, Alive)) and teardown.climbed > 0
    )
    actions: tuple[Action, ...] = ()
    if newcomers:
        signal = teardown.ladder.rungs[teardown.climbed - 1].signal
        crew = crews.signalled(crew, signal)
        actions = (SignalWorkers(teardown.generation, signal),)
    teardown, more = climb(replace(teardown, crew=crew), now)
    return teardown, actions + more


def strays_gone(teardown: Teardown) -> Teardown:
    """A full look found nothing; it counts once no worker is left either."""
    if teardown.crew is not None and not teardown.crew.all_ended:
        return replace(teardown, sweeping=False)
    return replace(teardown, over=True)


def hurry(teardown: Teardown, now: Instant) -> Outcome:
    """KILL now instead of waiting for the rung."""
    if teardown.climbed >= len(teardown.ladder.rungs):
        return teardown, ()
    kill_now = Rung(max(0.0, now - teardown.began_at), SIGKILL)
    rungs = (*teardown.ladder.rungs[: teardown.climbed], kill_now)
    return climb(replace(teardown, ladder=Ladder(rungs, SIGKILL), held_until=None), now)


def _rung_at(teardown: Teardown, index: int) -> Instant:
    return after(teardown.began_at, teardown.ladder.rungs[index].at_s)


def stuck_at(teardown: Teardown, teardown_limit_s: float) -> Instant:
    """From when on the node is stuck: so long after KILL."""
    last = _rung_at(teardown, len(teardown.ladder.rungs) - 1)
    if teardown.held_until is not None:
        last = after(teardown.held_until, teardown.ladder.rungs[-1].at_s)
    return after(last, teardown_limit_s)


def next_deadline(teardown: Teardown, teardown_limit_s: float) -> Instant | None:
    """The next rung, or the moment it counts as stuck; None when it is over."""
    if teardown.over:
        return None
    if teardown.held_until is not None:
        return teardown.held_until
    if teardown.climbed < len(teardown.ladder.rungs):
        return _rung_at(teardown, teardown.climbed)
    return stuck_at(teardown, teardown_limit_s)
