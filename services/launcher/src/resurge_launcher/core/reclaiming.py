"""Where the wait for the GPUs' memory stands in the launcher's course: from a teardown's end to its own. Pure."""

from __future__ import annotations

from resurge_launcher.core import reclaim as reclaims
from resurge_launcher.core.happenings import Action, GpuMemoryRead, ReadGpuMemory, TellReclaim
from resurge_launcher.core.model import Crew, Delayed, LauncherState, Ready, Rules, Span
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

Outcome = tuple[LauncherState, tuple[Action, ...], Because]


def begin(
    state: LauncherState, crew: Crew | None, rules: Rules, now: Instant
) -> tuple[LauncherState, tuple[Action, ...]]:
    """After the workers of a generation are gone: wait for what they had, where another start may follow."""
    if rules.reclaim is None or crew is None:
        return state, ()
    return replace(state, reclaim=reclaims.begun(crew.generation, rules.reclaim, now)), (
        ReadGpuMemory(crew.generation),
    )


def holds_back(state: LauncherState) -> bool:
    """Whether a start has to wait."""
    return state.reclaim is not None and state.reclaim.is_pending


def due_at(state: LauncherState) -> Instant | None:
    """When something is to be done about it; only while the node could start something."""
    if state.reclaim is None:
        return None
    return reclaims.due_at(state.reclaim) if isinstance(state.phase, (Ready, Delayed)) else None


def ticked(state: LauncherState, now: Instant) -> tuple[LauncherState, tuple[Action, ...]]:
    """Look again, or give up, when it is time."""
    reclaim = state.reclaim
    if reclaim is None or not reclaim.is_pending:
        return state, ()
    if now >= reclaim.until:
        return _ended(state, reclaims.timed_out(reclaim, now), now)
    if reclaim.look_at is None or now < reclaim.look_at:
        return state, ()
    return replace(state, reclaim=reclaims.looking(reclaim)), (ReadGpuMemory(reclaim.generation),)


def looked(state: LauncherState, event: GpuMemoryRead, rules: Rules, now: Instant) -> Outcome:
    """The driver has answered, or its process did not."""
    reclaim = state.reclaim
    if reclaim is None or not reclaim.is_pending or reclaim.generation != event.generation or rules.reclaim is None:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"GPU memory after generation {event.generation}")
    reclaim = reclaims.looked(reclaim, event.readings, event.problem, rules.reclaim, now)
    if reclaim.is_pending:
        return replace(state, reclaim=reclaim), (), Because(Reason.OBSERVED, "GPU memory is not free yet")
    state, actions = _ended(state, reclaim, now)
    return state, actions, Because(Reason.OBSERVED, f"GPU memory: {reclaim.status}")


def _ended(state: LauncherState, reclaim: reclaims.Reclaim, now: Instant) -> tuple[LauncherState, tuple[Action, ...]]:
    span = Span("reclaim", reclaim.began_at, now, None, reclaims.attributes(reclaim))
    story = replace(state.story, spans=(*state.story.spans, span))
    return replace(state, reclaim=reclaim, story=story), (TellReclaim(reclaim),)
