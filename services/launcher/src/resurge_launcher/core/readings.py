"""What one worker says of itself on its shared page, as values. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.values import quick


class MilestoneKind(StrEnum):
    """The steps of a start that workers report."""

    WORKER_STARTED = "worker_started"
    PROCESS_GROUP_READY = "process_group_ready"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    FIRST_STEP = "first_step"


@quick
@dataclass(frozen=True, slots=True)
class Milestone:
    """One worker's step of a start."""

    rank: Rank
    kind: MilestoneKind
    at: Instant
    step: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class PageReading:
    """What one worker's shared page says; None where it never said anything."""

    local_rank: int
    last_beat_at: Instant | None = None
    step: int | None = None
    hung_at: Instant | None = None
    """From when on its silence means that it hangs; None while no limit applies, as before a first beat."""
    open_phase: str = ""
    """Name of the innermost section the worker said it is in; empty for none."""
    milestones: tuple[Milestone, ...] = ()
    stopped: bool = False
    """The kernel says that its process is stopped."""
    committed_step: int | None = None
    """The newest step that it committed."""
    asks_stop: bool = False
    asked_step: int | None = None
    waits_to_stop: bool = False
    """It waits at the step at which it is held."""
    told_to_stop: bool = False
    moves: int = 0
    waits_for_disk: bool = False
    """The kernel says that it waits for a device."""


@quick
@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of a worker's work."""

    reading: PageReading | None = None
    step_moved_at: Instant | None = None
    """When its step was first seen to have moved on last; None while it reports no steps."""
    moved_at: Instant | None = None
    paced_at: Instant | None = None
    paced_step: int = 0
    steps_per_s: float = 0.0


NOT_WATCHED = Watch()
"""Of a worker that has said nothing yet."""
