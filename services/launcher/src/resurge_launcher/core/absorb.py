"""What each event tells the launcher: facts are taken in, nothing is decided yet (see pursue.py). Pure."""

from __future__ import annotations

from typing import assert_never

from resurge_launcher.core import aborts, crashes, hangs, musters, notices, passing_on, reclaiming, replacing, stops
from resurge_launcher.core import control as controls
from resurge_launcher.core import crew as crews
from resurge_launcher.core import happenings as h
from resurge_launcher.core import progress as progresses
from resurge_launcher.core import teardown as teardowns
from resurge_launcher.core.goals import (
    NO_ATTEMPT,
    NO_GENERATION,
    NO_INCIDENT,
    DownGoal,
    EndGoal,
    ExitGoal,
    Goal,
    RunGoal,
)
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Exited,
    Exiting,
    ExitRecord,
    Fault,
    Finished,
    LauncherState,
    Leaving,
    Ready,
    Rules,
    Running,
    Span,
    Starting,
    Story,
    Stuck,
    Teardown,
    TearingDown,
)
from resurge_launcher.core.muster_state import MusterHeard
from resurge_launcher.core.observe import crew_of, teardown_of
from resurge_launcher.core.replaced import replaced, with_crew
from resurge_launcher.core.replacement_state import FromForkServer, ReplaceDone, ReplaceFailed
from resurge_launcher.core.worker_news import CrashSpared, GuardFired, LoopCrashed, ScriptOver
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

FromRendezvous = h.DesiredReceived | h.StreamUp | h.StreamLost | h.Refused | h.BeatAcked
FromWorkers = (
    h.PagesRead | h.Inspected | h.MarkerRead | GuardFired | LoopCrashed | CrashSpared | ScriptOver | MusterHeard
)
Outcome = tuple[LauncherState, tuple[h.Action, ...], Because]
BEAT, MILESTONE, TICK = Because(Reason.BEAT), Because(Reason.MILESTONE), Because(Reason.TICK)
PAUSE_GRACE_LIMIT_S = 60.0
"""However long the launcher itself stood still, workers that are silent afterwards get no more than this on top."""
SAVING_LOOK_S = 0.1
"""A teardown that waits for a checkpoint looks so often whether it is still written."""
REFUSED_EXIT_CODE = 2
SUPERSEDED_EXIT_CODE = 1


def absorb(state: LauncherState, event: h.Event, rules: Rules, now: Instant) -> Outcome:
    """The state with the event's facts in it."""
    if isinstance(event, FromWorkers):  # what comes often stands first
        return _looked(state, event, rules, now)
    match event:
        case h.Tick():
            return _tick(state, rules, now)
        case h.BeatAcked() | h.DesiredReceived() | h.StreamUp() | h.StreamLost() | h.Refused():
            return _from_rendezvous(state, event, rules, now)
        case h.SpawnDone() | h.SpawnFailed() | ReplaceDone() | ReplaceFailed():
            return _spawned(state, event, now)
        case h.WorkerExited():
            return _exited(state, event, now)
        case h.WorkerDying(end):
            return _dying(state, end, now)
        case h.GpuMemoryRead():
            return reclaiming.looked(state, event, rules, now)
        case h.StraysGone(generation):
            return _strays_gone(state, generation)
        case h.SignalReceived(signal):
            return _signalled(state, signal, rules, now)
        case h.StoreReserved(offer):
            how = "served" if offer.is_served else "held"
            return replace(state, offer=offer), (), Because(Reason.STORE_OFFERED, f"port {offer.port} is {how}")
        case h.Paused(for_s):
            grace_s = min(for_s, PAUSE_GRACE_LIMIT_S)
            reason = Because(Reason.PAUSED, f"the launcher stood still for {for_s:.1f} s")
            return replace(state, judge_after=after(now, grace_s)), (), reason
        case _:
            assert_never(event)


def _from_rendezvous(state: LauncherState, event: FromRendezvous, rules: Rules, now: Instant) -> Outcome:
    match event:
        case h.DesiredReceived():
            return _desired(state, event)
        case h.StreamUp():
            reason = Because(Reason.NODE_JOINED, "rendezvous answers")
            return replace(state, control=controls.found(state.control), revision_seen=0), (), reason
        case h.StreamLost(sentence):
            control = controls.lost(state.control, sentence, now, rules.limits.resume_window_s)
            return replace(state, control=control), (), Because(Reason.STREAM_LOST, sentence)
        case h.Refused():
            return _refused(state, event)
        case h.BeatAcked(sent_at, lease_ttl_s):
            control = controls.acknowledged(state.control, sent_at, lease_ttl_s, now)
            state = notices.goodbye_heard(replace(state, control=control), sent_at)
            return state, (), BEAT
        case _:
            assert_never(event)


def _late(state: LauncherState, what: str) -> Outcome:
    return state, (), Because(Reason.LATE_EVENT_IGNORED, what)


def _desired(state: LauncherState, event: h.DesiredReceived) -> Outcome:
    if event.revision < state.revision_seen:
        return _late(state, f"revision {event.revision} is older than {state.revision_seen}")
    goal = event.goal
    reason = Because(Reason.NOTHING_CHANGED)
    state = replace(state, revision_seen=event.revision)
    if isinstance(goal, RunGoal) and goal.generation < event.current_generation:
        return _late(state, f"generation {goal.generation} is fenced by {event.current_generation}")
    if _holds(state.goal, goal):
        return _late(state, "the end of the launcher is decided")
    if goal != state.goal:
        reason = Because(Reason.OBSERVED, f"the goal is {type(goal).__name__.removesuffix('Goal').upper()}")
    actions: tuple[h.Action, ...] = ()
    crew = crew_of(state.phase)
    if crew is not None and event.current_generation > crew.generation:
        actions = (h.Fence(crew.generation),)
    state = replace(
        state,
        goal=goal,
        story=_story(state.story, goal),
        highest_generation=max(state.highest_generation, event.current_generation, _generation(goal)),
        highest_attempt=max(
            state.highest_attempt, goal.attempt if isinstance(goal, (RunGoal, ExitGoal)) else NO_ATTEMPT
        ),
    )
    return state, actions, reason


def _holds(present: Goal | None, coming: Goal) -> bool:
    """A terminal decision gives way to nothing, the launcher's own end only to a terminal decision."""
    return isinstance(present, (ExitGoal, EndGoal)) and not isinstance(coming, ExitGoal)


def _generation(goal: Goal) -> Generation:
    return goal.generation if isinstance(goal, (RunGoal, DownGoal, ExitGoal)) else NO_GENERATION


def _story(story: Story, goal: Goal) -> Story:
    incident_id = goal.incident_id if isinstance(goal, (RunGoal, DownGoal)) else NO_INCIDENT
    if not incident_id or incident_id == story.incident_id:
        return story
    # spans gathered before the incident had its name belong to it
    return Story(incident_id, () if story.incident_id else story.spans)


def _refused(state: LauncherState, event: h.Refused) -> Outcome:
    code = SUPERSEDED_EXIT_CODE if event.refusal is h.Refusal.SUPERSEDED else REFUSED_EXIT_CODE
    crew = crew_of(state.phase)
    actions: tuple[h.Action, ...] = ()
    if crew is not None and event.refusal is h.Refusal.SUPERSEDED:
        actions = (h.Fence(crew.generation),)
    if _holds(state.goal, EndGoal(code, event.because)):
        return _late(state, "the end of the launcher is decided")
    return replace(state, goal=EndGoal(code, event.because)), actions, event.because


def _spawned(state: LauncherState, event: h.SpawnDone | h.SpawnFailed | FromForkServer, now: Instant) -> Outcome:
    if isinstance(event, FromForkServer):
        return replaced(state, event, now)
    crew = crew_of(state.phase)
    if crew is None or crew.generation != event.generation or isinstance(state.phase, Delayed):
        return _late(state, f"generation {event.generation} was not ordered or is over")
    if not crews.any_awaited(crew):
        return _late(state, f"the start of generation {event.generation} is known")
    crew = crews.started(crew, event.pids)
    reason = Because(Reason.STARTED, f"{len(event.pids)} workers of generation {event.generation} run")
    if isinstance(event, h.SpawnFailed):
        reason = event.because
        crew = crews.never_started(replace(crew, faults=(*crew.faults, Fault(event.because, now))))
    actions: tuple[h.Action, ...] = ()
    if isinstance(state.phase, Starting):
        attributes = (("resurge.generation", str(event.generation)), ("resurge.workers", str(len(event.pids))))
        span = Span("spawn", state.phase.ordered_at, now, None, attributes)
        story = replace(state.story, spans=(*state.story.spans, span))
        state = replace(state, phase=Running(crew), story=story, pages_at=now)
        if isinstance(event, h.SpawnDone):
            state, actions = passing_on.started(state, crew.generation, now)
    else:
        state, actions = with_crew(state, crew, now)
    return state, actions, reason


def _exited(state: LauncherState, event: h.WorkerExited, now: Instant) -> Outcome:
    crew = crew_of(state.phase)
    if crew is None or crew.generation != event.generation:
        return _late(state, f"pid {event.pid} of generation {event.generation} ended late")
    crew, record = crews.ended(crew, event)
    if record is None:
        return _late(state, f"the end of local rank {event.local_rank} is known")
    if record.forgiven and isinstance(state.phase, Running):
        return _bereaved(state, crew, record, now)
    settle = crashes.harmless if crews.failure(record) is None else crashes.ended
    crew = settle(crew, record.rank)
    gathers = record.succeeded and isinstance(state.phase, Running)
    crew, told = musters.finished(crew) if gathers else (crew, ())
    state, actions = with_crew(state, crew, now)
    reason = crews.failure(record) or Because(Reason.FINISHED, f"rank {record.rank} ended as it should")
    return state, (*told, *actions), reason


def _dying(state: LauncherState, end: h.WorkerExited, now: Instant) -> Outcome:
    crew = crew_of(state.phase)
    if crew is None or crew.generation != end.generation:
        return _late(state, f"pid {end.pid} of generation {end.generation} is at its end late")
    crew, record = crews.dying(crew, end)
    if record is not None and record.forgiven and isinstance(state.phase, Running):
        return _bereaved(state, crew, record, now)
    because = crews.failure(record) if record is not None else None
    if record is None or because is None:
        return _late(state, f"the end of local rank {end.local_rank} is known, or no fault and still to be reaped")
    state, actions = with_crew(state, crashes.ended(crew, record.rank), now)
    return state, actions, because


def _bereaved(state: LauncherState, crew: Crew, record: ExitRecord, now: Instant) -> Outcome:
    """A worker has ended that the others go on without."""
    crew, actions, because = replacing.bereaved(crew, record, now)
    return replace(state, phase=Running(crew)), actions, because


def _looked(state: LauncherState, event: FromWorkers, rules: Rules, now: Instant) -> Outcome:
    if isinstance(event, GuardFired):
        return aborts.fired(state, event, now)
    if isinstance(event, MusterHeard):
        return musters.heard(state, event, rules, now)
    if isinstance(event, (LoopCrashed, CrashSpared)):
        return crashes.heard(state, event)
    if isinstance(event, ScriptOver):
        return _tidies(state, event, now)
    if isinstance(event, h.PagesRead):
        return _pages(state, event, rules, now)
    if isinstance(event, h.Inspected):
        return _inspected(state, event, now)
    noted = progresses.with_marker(state, event)
    if noted is None:
        return _late(state, f"the marker at the time of generation {event.generation}")
    return noted, (), Because(Reason.OBSERVED, "the checkpoint marker was looked at")


def _tidies(state: LauncherState, event: ScriptOver, now: Instant) -> Outcome:
    crew = crew_of(state.phase)
    if crew is None or crew.generation != event.generation or event.pid in crew.tidying:
        return _late(state, f"the script of rank {event.rank} of generation {event.generation} is over")
    state, actions = with_crew(state, replace(crew, tidying=crew.tidying | {event.pid}), now)
    return state, actions, Because(Reason.OBSERVED, f"the script of rank {event.rank} is over, its files are flushed")


def _pages(state: LauncherState, event: h.PagesRead, rules: Rules, now: Instant) -> Outcome:
    crew = crew_of(state.phase)
    if crew is None or crew.run.generation != event.generation:
        return _late(state, f"pages of generation {event.generation}")
    before = len(crew.milestones)
    crew = musters.excused(crews.read(crew, event.readings, now))
    if not isinstance(state.phase, Running):
        if progresses.ended(state, rules) == crew.generation:
            crew = progresses.with_last_steps(crew, event.readings)
        return _torn_down_page(_replace_quietly(state, crew), crew, now)
    crew = stops.looked(crew, now)
    routine = after(now, rules.page_interval_s)
    hang = crews.next_hang_at(crew)
    soon = earliest(stops.look_at(crew), routine if hang is None or hang <= now else earliest(routine, hang))
    reason = MILESTONE if len(crew.milestones) > before else BEAT
    unjudged = (state.judge_after is not None and now < state.judge_after) or not state.control.holds(now)
    unjudged = unjudged or crew.inspection is not None or musters.is_gathering(crew)
    fault = None if unjudged else crews.hung(crew, now, state.control.held_since)
    actions: tuple[h.Action, ...] = ()
    if fault is not None:
        (seen, looks), reason = hangs.noticed(crew, fault, rules, now), fault.because
        crew, actions = musters.hung(crew, seen, now, looks)
    return replace(state, phase=Running(crew), pages_at=soon), actions, reason


def _inspected(state: LauncherState, event: h.Inspected, now: Instant) -> Outcome:
    crew = crew_of(state.phase)
    if crew is None or crew.generation != event.generation or not isinstance(state.phase, Running):
        return _late(state, f"the look at workers of generation {event.generation}")
    if crew.inspection is None or crew.inspection.is_over:
        return _late(state, f"the look at workers of generation {event.generation} was given up")
    seen = hangs.concluded(crew, event.findings, state.control.held_since, now)
    reason = seen.faults[-1].because if seen.faults else Because(Reason.OBSERVED, "the workers were looked at")
    crew, actions = musters.hung(crew, seen, now)
    return replace(state, phase=Running(crew)), actions, reason


def _torn_down_page(state: LauncherState, crew: Crew, now: Instant) -> Outcome:
    """A teardown moves by what pages say in one case only: the checkpoint that it waits for is closed, or stuck."""
    teardown = teardown_of(state.phase)
    if teardown is None or teardown.held_until is None or crews.is_writing_checkpoint(crew, now):
        return state, (), BEAT
    teardown, actions = teardowns.released(teardown, now)
    return _with_teardown(state, teardown), actions, Because(Reason.TEARDOWN_ORDERED, "no checkpoint is open any more")


def _replace_quietly(state: LauncherState, crew: Crew) -> LauncherState:
    match state.phase:
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown) | Exiting(teardown):
            return _with_teardown(state, replace(teardown, crew=crew))
        case Delayed() | Starting() | Running():
            return replace(state, phase=replace(state.phase, crew=crew))
        case Ready() | Finished() | Exited():
            return state
        case _:
            assert_never(state.phase)


def _with_teardown(state: LauncherState, teardown: Teardown) -> LauncherState:
    assert isinstance(state.phase, (TearingDown, Stuck, Leaving, Exiting)), "only these phases have a teardown"
    return replace(state, phase=replace(state.phase, teardown=teardown))


def _strays_gone(state: LauncherState, generation: int) -> Outcome:
    teardown = teardown_of(state.phase)
    if teardown is None or teardown.generation != generation or not teardown.sweeping:
        return _late(state, f"sweep of generation {generation}")
    teardown = teardowns.strays_gone(teardown)
    reason = Because(Reason.TEARDOWN_CONFIRMED, f"nothing of generation {generation} is alive here")
    return _with_teardown(state, teardown), (), reason


def _signalled(state: LauncherState, signal: int, rules: Rules, now: Instant) -> Outcome:
    name = crews.signal_name(signal)
    noticed = notices.given(state, signal, rules, now)
    if noticed is not None:
        return noticed
    if signal in rules.pass_on_signals:
        early = notices.kept(state, signal, rules, now)[0] if signal in rules.drain_signals else state
        return passing_on.received(early, signal, now)
    if signal not in notices.ENDING_SIGNALS:
        return notices.kept(state, signal, rules, now)
    reason = Because(Reason.SIGNAL_RECEIVED, f"{name} told the launcher to leave")
    match state.phase:
        case Exited():
            return _late(state, f"{name} after the end")
        case Leaving(teardown) | Exiting(teardown):
            if not crews.is_interrupt(signal):
                return _late(state, f"{name}: the launcher is leaving already")
            teardown, hurried = teardowns.hurry(teardown, now)
            phase = notices.hurried(replace(state.phase, teardown=teardown), now)
            return replace(state, phase=phase), hurried, Because(Reason.SIGNAL_RECEIVED, f"{name} again: KILL now")
        case TearingDown(teardown) | Stuck(teardown):
            return replace(state, phase=Leaving(teardown, signal)), (), reason
        case Ready() | Delayed() | Starting() | Running() | Finished():
            return notices.leave(state, signal, reason, rules, now)
        case _:
            assert_never(state.phase)


def _tick(state: LauncherState, rules: Rules, now: Instant) -> Outcome:
    actions: tuple[h.Action, ...] = ()
    reason = TICK
    match state.phase:
        case Running(crew):
            before = crew
            crew, actions = replacing.overdue(crashes.over(aborts.over(crew, now), now), now)
            looks_until = hangs.due_at(crew)
            if looks_until is not None and now >= looks_until:
                crew, more = musters.hung(crew, hangs.concluded(crew, (), state.control.held_since, now), now)
                actions += more
            state = state if crew is before else replace(state, phase=Running(crew))
            if state.pages_at is not None and now >= state.pages_at:
                actions += (h.ReadPages(crew.generation),)
                state = replace(state, pages_at=after(now, rules.page_interval_s))
            skew = crews.finish_skew(crew, now, rules.limits.finish_skew_limit_s)
            if skew is not None:
                state, reason = replace(state, phase=Running(replace(crew, faults=(*crew.faults, skew)))), skew.because
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown) | Exiting(teardown) if not teardown.over:
            teardown, actions = teardowns.climb(teardown, now)
            state = _with_teardown(state, teardown)
            if teardown.held_until is not None and teardown.crew is not None:
                actions += (h.ReadPages(teardown.crew.generation),)
                state = replace(state, pages_at=after(now, SAVING_LOOK_S))
        case Ready() | Delayed():
            state, actions = reclaiming.ticked(state, now)
        case _:
            pass
    return state, actions, reason
