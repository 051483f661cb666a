"""The launcher's moves: compares where it stands with what is wanted, one move at a time, until nothing is left to do.

Level-triggered: no move depends on the event that made it possible, so a repeated, late or lost event changes
nothing. Pure.
"""

from __future__ import annotations

from signal import SIGTERM
from typing import assert_never

from resurge_launcher.core import aborts, hangs, muster_lines, notices, reclaiming, replacements, replacing, stops
from resurge_launcher.core import control as controls
from resurge_launcher.core import crew as crews
from resurge_launcher.core import happenings as h
from resurge_launcher.core import teardown as teardowns
from resurge_launcher.core.goals import DownGoal, EndGoal, ExitGoal, ParkGoal, RunGoal
from resurge_launcher.core.ladders import AT_ONCE, Ladder, drain_ladder, fault_ladder, finish_ladder
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Exited,
    Exiting,
    Fault,
    Finished,
    LauncherState,
    Leaving,
    OnExcluded,
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
from resurge_launcher.core.observe import crew_of, observe
from resurge_libs.core.end_cause import end_cause_of
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import HANGS, Because, Reason
from resurge_libs.core.values import replace

Move = tuple[LauncherState, tuple[h.Action, ...], Because]
EXCLUDED_EXIT_CODE = 1
FAILED_EXIT_CODE = 1


def move(state: LauncherState, rules: Rules, now: Instant) -> Move | None:
    """The next move; None when the launcher stands where it should."""
    alone = _without_control(state, rules, now)
    if alone is not None:
        return alone
    left = notices.counts(state, rules, now) or notices.over(state, rules, now)
    if left is not None:
        return left
    match state.phase:
        case Ready():
            return _from_ready(state, state.phase, rules, now)
        case Delayed() | Starting() | Running() | Finished():
            return _from_crew(state, state.phase.crew, rules, now)
        case TearingDown() | Stuck():
            return _from_teardown(state, state.phase, rules, now)
        case Leaving():
            return _from_leaving(state, state.phase, rules, now)
        case Exiting():
            return _from_exiting(state, state.phase, rules, now)
        case Exited():
            return None
        case _:
            assert_never(state.phase)


def _without_control(state: LauncherState, rules: Rules, now: Instant) -> Move | None:
    if state.control.lost_at is None or isinstance(state.goal, (ExitGoal, EndGoal)):
        return None
    if isinstance(state.phase, (Leaving, Exiting, Exited)):
        return None
    end = controls.end_without_control(state.control, crew_of(state.phase), rules, now)
    return None if end is None else (replace(state, goal=end), (), end.because)


# ------------------------------------------------------------------------------------------------- from nothing


def _from_ready(state: LauncherState, phase: Ready, rules: Rules, now: Instant) -> Move | None:
    match state.goal:
        case ExitGoal() | EndGoal():
            over = replace(teardowns.nothing_left(phase.generation, state.goal.because, now), crew=phase.last)
            return _exiting(state, over, state.goal, rules, now)
        case RunGoal() as run if run.generation > phase.generation:
            crew = crews.enlisted(run, rules.local_world_size)
            reason = Because(Reason.STARTED, f"generation {run.generation} is to run here from rank {run.base_rank}")
            return replace(state, phase=Delayed(crew, now, after(now, run.delay_s)), pages_at=None), (), reason
        case DownGoal() as down if down.generation > phase.generation:
            reason = Because(Reason.TEARDOWN_CONFIRMED, f"nothing of generation {down.generation} was alive here")
            return replace(state, phase=Ready(down.generation)), (), reason
        case ParkGoal(because) if because.code == Reason.EXCLUDED and rules.on_excluded is OnExcluded.EXIT:
            return replace(state, goal=EndGoal(EXCLUDED_EXIT_CODE, because)), (), because
        case _:
            return None


# -------------------------------------------------------------------------------------------------- from a crew


def _from_crew(state: LauncherState, crew: Crew, rules: Rules, now: Instant) -> Move | None:
    if isinstance(state.goal, (ExitGoal, EndGoal)):
        teardown, actions = _begun(state, crew, state.goal.because, _end_ladder(state, rules), now)
        return _exiting(state, teardown, state.goal, rules, now, actions)
    ordered = _ordered_down(state, crew)
    if ordered is not None and isinstance(state.phase, Running) and isinstance(state.goal, DownGoal):
        if hangs.is_looking(crew, now):
            return None
        is_saving = notices.saving_until(state, crew, rules, now) is not None
        if (looking := hangs.ordered(crew, ordered, rules, now, is_saving)) is not None:
            crew, actions = looking
            return replace(state, phase=Running(crew)), actions, ordered
    if ordered is not None:
        held_until = notices.saving_until(state, crew, rules, now) if isinstance(state.goal, DownGoal) else None
        return _tear_down(state, crew, ordered, fault_ladder(rules.limits.fault_grace_s), now, held_until)
    found = _fault(crew)
    if found is not None:
        return _faulted(state, crew, found, rules, now)
    cut_off = controls.stop_workers(state.control, crew, rules, now)
    if cut_off is not None and not isinstance(state.phase, Finished):
        crew = replace(crew, faults=(*crew.faults, Fault(cut_off, now)))
        return _tear_down(state, crew, cut_off, fault_ladder(rules.limits.fault_grace_s), now)
    all_ended, is_replacing = crew.all_ended, bool(replacements.awaited(crew.muster))
    match state.phase:
        case Delayed(_, _, spawn_at) if now >= spawn_at and not reclaiming.holds_back(state):
            reason = Because(Reason.STARTED, f"workers of generation {crew.generation} are being started")
            return replace(state, phase=Starting(crew, now)), (h.SpawnWorkers(crew.run),), reason
        case Running() if not all_ended and (followed := stops.followed(state, crew, rules, now)) is not None:
            crew, actions = followed
            reason = Because(Reason.STOP_AGREED, "the ranks are to stop at one step")
            return (
                replace(state, phase=Running(crew), pages_at=earliest(state.pages_at, stops.look_at(crew))),
                actions,
                reason,
            )
        case Running() if (not all_ended or is_replacing) and (passed_on := _passed_on(state, crew, now)) is not None:
            return passed_on
        case Running() if all_ended and not is_replacing:
            reason = Because(Reason.FINISHED, f"all {len(crew.workers)} workers of this node ended with 0")
            return replace(state, phase=Finished(crew), pages_at=None), (), reason
        case _:
            return None


def _passed_on(state: LauncherState, crew: Crew, now: Instant) -> Move | None:
    """What rendezvous has heard from other nodes, or decided, for the ranks as they run."""
    if (passed_on := aborts.followed(state, crew, now)) is not None:
        reason = Because(Reason.OBSERVED, "guards of ranks elsewhere have fired")
        return replace(state, phase=Running(passed_on[0])), passed_on[1], reason
    if (mustered := muster_lines.followed(state, crew, now)) is not None:
        reason = Because(Reason.OBSERVED, "rendezvous orders the ranks that restart in place")
        return replace(state, phase=Running(mustered[0])), mustered[1], reason
    if (replaced := replacing.followed(state, crew, now)) is not None:
        reason = Because(Reason.OBSERVED, "a fresh process takes the place of a rank, or none does")
        return replace(state, phase=Running(replaced[0])), replaced[1], reason
    return None


def _ordered_down(state: LauncherState, crew: Crew) -> Because | None:
    match state.goal:
        case DownGoal(generation, because) if generation >= crew.generation:
            return because
        case ParkGoal(because):
            return because
        case RunGoal(generation) if generation > crew.generation:
            return Because(Reason.STALE_GENERATION, f"generation {generation} follows {crew.generation}")
        case _:
            return None


ORDERED_ENDS = frozenset({Reason.SHUTDOWN_REQUESTED, Reason.WORKLOAD_SHUTDOWN, Reason.PREEMPTED})
"""Ends that no fault brought: workers get the whole grace to save what they have."""
Found = tuple[Because, Instant, h.TellFault, bool]


def _fault(crew: Crew) -> Found | None:
    """The first thing that is wrong: why, since when, what to tell people, and whether it is a hang."""
    found: list[Found] = []
    exits = crew.exits
    if not exits and not crew.faults:
        return None
    for record in exits:
        because = crews.failure(record)
        if because is not None:
            tell = h.TellFault(crew.generation, because, record.rank, record)
            found.append((because, record.at, tell, False))
    for fault in crew.faults:
        its_end = next((record for record in crew.exits if record.rank == fault.rank), None)
        tell = h.TellFault(crew.generation, fault.because, fault.rank, its_end)
        found.append((fault.because, fault.at, tell, fault.because.code in HANGS))
    return min(found, key=lambda entry: entry[1]) if found else None


def _faulted(state: LauncherState, crew: Crew, found: Found, rules: Rules, now: Instant) -> Move:
    because, since, tell, hangs = found
    held_until = notices.saving_until(state, crew, rules, now)
    ladder = AT_ONCE if hangs and not crews.has_open_checkpoint(crew) else fault_ladder(rules.limits.fault_grace_s)
    attributes = (("resurge.reason", str(because.code)), ("resurge.generation", str(crew.generation)))
    detect = Span("detect", since, now, tell.rank, attributes)
    # the incident has no name yet: the next order brings it
    told = replace(state, story=Story(spans=(detect,)))
    state, actions, reason = _tear_down(told, crew, because, ladder, now, held_until)
    return state, (*actions, tell), reason


def _tear_down(
    state: LauncherState, crew: Crew, because: Because, ladder: Ladder, now: Instant, held_until: Instant | None = None
) -> Move:
    teardown, actions = _begun(state, crew, because, ladder, now, held_until)
    pages_at = now if teardown.held_until is not None else None
    return replace(state, phase=TearingDown(teardown), pages_at=pages_at), actions, because


def _begun(
    state: LauncherState, crew: Crew, because: Because, ladder: Ladder, now: Instant, held_until: Instant | None = None
) -> tuple[Teardown, tuple[h.Action, ...]]:
    if isinstance(state.phase, Delayed):
        crew = crews.never_started(crew)
    crew = hangs.with_evidence(crews.with_stopped(crew, now), now)
    return teardowns.begin(crew, because, ladder, now, held_until)


def _end_ladder(state: LauncherState, rules: Rules) -> Ladder:
    assert state.goal is not None and not isinstance(state.goal, RunGoal)
    if isinstance(state.phase, Finished):
        return finish_ladder(rules.limits.fault_grace_s)
    crew = crew_of(state.phase)
    was_asked = crew is not None and crew.stop.decided is not None  # then the grace was theirs already
    if state.goal.because.code in ORDERED_ENDS and not was_asked:
        return drain_ladder(SIGTERM, rules.term_timeout_s)
    return fault_ladder(rules.limits.fault_grace_s)


# ---------------------------------------------------------------------------------------------- from a teardown


def _from_teardown(state: LauncherState, phase: TearingDown | Stuck, rules: Rules, now: Instant) -> Move | None:
    teardown = phase.teardown
    if isinstance(state.goal, (ExitGoal, EndGoal)):
        return _exiting(state, teardown, state.goal, rules, now)
    if teardown.over:
        reason = Because(Reason.TEARDOWN_CONFIRMED, f"nothing of generation {teardown.generation} is alive here")
        story = replace(state.story, spans=(*state.story.spans, _teardown_span(teardown, now)))
        ready = Ready(Generation(teardown.generation), teardown.crew)
        # the last offer was spent: the node is not to be chosen before there is another
        state, looks = reclaiming.begin(replace(state, story=story), teardown.crew, rules, now)
        return replace(state, phase=ready, offer=None), (h.ReserveStore(), *looks), reason
    if isinstance(phase, TearingDown) and now >= teardowns.stuck_at(teardown, rules.limits.teardown_limit_s):
        since_s = now - teardown.began_at
        reason = Because(Reason.NODE_STUCK, f"something of generation {teardown.generation} lives {since_s:.1f} s on")
        return replace(state, phase=Stuck(teardown)), (), reason
    return None


def _teardown_span(teardown: Teardown, now: Instant) -> Span:
    attributes = (("resurge.generation", str(teardown.generation)), ("resurge.reason", str(teardown.because.code)))
    return Span("teardown", teardown.began_at, now, None, attributes)


def _from_leaving(state: LauncherState, phase: Leaving, rules: Rules, now: Instant) -> Move | None:
    if isinstance(state.goal, ExitGoal):
        # a failure decided after the signal says no more than the signal: the code must not depend on who was sooner
        left = notices.exit_code_of(phase.signal, rules)
        code = left if state.goal.code == FAILED_EXIT_CODE else state.goal.code
        return _exiting(state, phase.teardown, replace(state.goal, code=code), rules, now)
    if not _gone(phase.teardown, rules, now):
        return None
    if phase.goodbye is None and (goodbye := notices.farewell(state, rules, now)) is not None:
        reason = Because(Reason.SIGNAL_RECEIVED, "nothing is left here; rendezvous is told so")
        return (
            replace(state, phase=replace(phase, goodbye=goodbye)),
            (h.SendObserved(observe(state), beats=True),),
            reason,
        )
    if phase.goodbye is not None and not phase.goodbye.heard and now < phase.goodbye.until:
        return None
    reason = Because(Reason.SIGNAL_RECEIVED, f"left after {crews.signal_name(phase.signal)}")
    exited = Exited(notices.exit_code_of(phase.signal, rules), phase.teardown, phase.signal)
    return _exited(state, exited, reason)


def _exiting(
    state: LauncherState,
    teardown: Teardown,
    goal: ExitGoal | EndGoal,
    rules: Rules,
    now: Instant,
    actions: tuple[h.Action, ...] = (),
) -> Move:
    wait_until = after(now, rules.limits.terminal_ack_limit_s)
    phase = Exiting(teardown, goal.code, goal.because, wait_until, decided=isinstance(goal, ExitGoal))
    return replace(state, phase=phase, pages_at=None), actions, goal.because


def _from_exiting(state: LauncherState, phase: Exiting, rules: Rules, now: Instant) -> Move | None:
    if isinstance(state.goal, ExitGoal) and not phase.decided:
        return _exiting(state, phase.teardown, state.goal, rules, now)
    if not _gone(phase.teardown, rules, now):
        return None
    acknowledged = isinstance(state.goal, ExitGoal) and state.goal.all_acknowledged
    if phase.decided and not acknowledged and now < phase.wait_until:
        return None
    return _exited(state, Exited(phase.code, phase.teardown), phase.because)


def _exited(state: LauncherState, exited: Exited, because: Because) -> Move:
    decided = state.goal if isinstance(state.goal, ExitGoal) else None
    cause = decided.cause if decided is not None else end_cause_of(because.code)
    return replace(state, phase=exited), (h.ExitWith(exited.code, because, cause),), because


def _gone(teardown: Teardown, rules: Rules, now: Instant) -> bool:
    """Nothing is alive, or what is cannot be ended: the launcher does not wait for it for ever."""
    return teardown.over or now >= teardowns.stuck_at(teardown, rules.limits.teardown_limit_s)
