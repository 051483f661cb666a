"""Does a job get on over its restarts? The values of one cycle's check, and the counting rule. Pure.

What counts is what the source says at the end of a cycle: the marker of the newest completed checkpoint, or with
source `sdk` the newest step that a worker committed. Iterations that were not saved do not count for the marker. The
rule, in order: nothing could be read: the check is skipped, and neither the count nor the baseline moves · nothing was
ever completed: the tracking is inactive · enough iterations beyond the baseline: the count is 0 again · else one more
cycle without progress, also where the marker went back. What was read is the next cycle's baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_ITERATION = 2**53
"""Exact in every JSON reader; a marker beyond it is not one."""


class ProgressSource(StrEnum):
    """What a job's progress is measured by."""

    NONE = "none"
    """Nothing: no marker file was named."""
    MARKER = "marker"
    SDK = "sdk"


@dataclass(frozen=True, slots=True)
class ProgressRules:
    """How a job wants its progress judged; the same on all its nodes."""

    source: ProgressSource = ProgressSource.NONE
    min_iterations: int = 1
    """A cycle that got on by fewer counts as one without progress."""
    max_no_progress_cycles: int = 3
    """So many such cycles in a row end the job; 0: they never do."""

    @property
    def is_tracked(self) -> bool:
        """Whether cycles are counted."""
        return self.source is not ProgressSource.NONE and self.max_no_progress_cycles > 0

    def __str__(self) -> str:
        return f"{self.source}, at least {self.min_iterations}, at most {self.max_no_progress_cycles} cycles"


@dataclass(frozen=True, slots=True)
class MarkerReading:
    """What one look at the marker file gave: a value, or why there is none."""

    value: int | None = None
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class CycleProgress:
    """What a launcher knows of its generation's progress."""

    at_start: MarkerReading | None = None
    """None while it is not read."""
    at_end: MarkerReading | None = None
    """Read when the generation was ended; None before."""
    is_over: bool = False
    """The pages were read once more at the end: `sdk_step` is all there will be."""
    sdk_step: int | None = None
    """The newest step that a worker of this node committed or beat with; None where none said any."""


@dataclass(frozen=True, slots=True)
class ProgressCheck:
    """One failing cycle's check: everything that its outcome depends on, and what is shown beside it."""

    rules: ProgressRules
    baseline: int | None = None
    """What the source said before this cycle; None while it never said anything."""
    without_progress: int = 0
    """Cycles in a row without progress, before this one."""
    value: int | None = None
    """What the source says now; None: the check is skipped."""
    skipped: str = ""
    """Why there is no value."""
    marker: int | None = None
    sdk_step: int | None = None


class ProgressMove(StrEnum):
    """What a check found."""

    SKIPPED = "skipped"
    INACTIVE = "inactive"
    ADVANCED = "advanced"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class ProgressOutcome:
    """What a check leads to: the next cycle's baseline and count."""

    move: ProgressMove
    baseline: int | None
    without_progress: int


@dataclass(frozen=True, slots=True)
class ProgressCount:
    """The durable count of a job's attempt."""

    baseline: int | None = None
    without_progress: int = 0
    skipped_in_a_row: int = 0
    last: ProgressCheck | None = None
    """The newest check."""

    def after(self, check: ProgressCheck) -> ProgressCount:
        """The count with one more check in it."""
        outcome = outcome_of(check)
        skipped = self.skipped_in_a_row + 1 if outcome.move is ProgressMove.SKIPPED else 0
        return ProgressCount(outcome.baseline, outcome.without_progress, skipped, check)


def outcome_of(check: ProgressCheck) -> ProgressOutcome:
    """The counting rule."""
    if check.value is None:
        return ProgressOutcome(ProgressMove.SKIPPED, check.baseline, check.without_progress)
    before = check.baseline or 0
    if before == 0 and check.value == 0:
        return ProgressOutcome(ProgressMove.INACTIVE, 0, check.without_progress)
    if check.value - before >= check.rules.min_iterations:
        return ProgressOutcome(ProgressMove.ADVANCED, check.value, 0)
    return ProgressOutcome(ProgressMove.STUCK, check.value, check.without_progress + 1)


def is_exhausted(check: ProgressCheck) -> bool:
    """Whether this cycle was the last one without progress that the job may have."""
    outcome = outcome_of(check)
    return (
        check.rules.is_tracked
        and outcome.move is ProgressMove.STUCK
        and outcome.without_progress >= check.rules.max_no_progress_cycles
    )


def no_progress_sentence(check: ProgressCheck) -> str:
    """Why the job is ended, and what to do if that is wrong."""
    outcome = outcome_of(check)
    by_sdk = check.rules.source is ProgressSource.SDK
    what = "a committed step" if by_sdk else "a completed checkpoint"
    aside = f"; live steps reached {check.sdk_step}" if check.sdk_step is not None and not by_sdk else ""
    return (
        f"{outcome.without_progress} cycles in a row ended without {what} at least {check.rules.min_iterations} "
        f"beyond the one before (now {check.value}, before {check.baseline or 0}{aside}). A workload that replays "
        "steps on purpose, as Megatron's rerun state machine does, looks exactly like a stuck job: if this one does, "
        "raise --ft-max-no-progress-cycles, or set it to 0"
    )


def told(check: ProgressCheck) -> str:
    """One clause on what a check found, for logs and explanations."""
    outcome, limit = outcome_of(check), check.rules.max_no_progress_cycles
    count = f"{outcome.without_progress} of {limit} cycles in a row without progress"
    match outcome.move:
        case ProgressMove.SKIPPED:
            return f"this cycle is not counted: {check.skipped}; {count}"
        case ProgressMove.INACTIVE:
            return "nothing was completed yet, so cycles are not counted"
        case ProgressMove.ADVANCED:
            return f"{check.rules.source} moved from {check.baseline or 0} to {check.value}; {count}"
        case ProgressMove.STUCK:
            return f"{check.rules.source} stands at {check.value} after {check.baseline or 0}; {count}"
