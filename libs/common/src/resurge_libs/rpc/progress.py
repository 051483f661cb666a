"""Progress values to proto and back, for every wire that carries them. Decides nothing; names what does not fit."""

from __future__ import annotations

from typing import Any

from resurge_api.common.v1 import progress_pb2
from resurge_libs.core.progress import (
    MAX_ITERATION,
    ProgressCheck,
    ProgressCount,
    ProgressRules,
    ProgressSource,
)
from resurge_libs.rpc.validation import Violations

MAX_CYCLES = 1_000_000
MAX_SKIPPED_BYTES = 1_024

SOURCES = {
    ProgressSource.NONE: progress_pb2.PROGRESS_SOURCE_UNSPECIFIED,
    ProgressSource.MARKER: progress_pb2.PROGRESS_SOURCE_MARKER,
    ProgressSource.SDK: progress_pb2.PROGRESS_SOURCE_SDK,
}
_SOURCES_IN = {proto: core for core, proto in SOURCES.items()}


def rules_to_proto(rules: ProgressRules) -> progress_pb2.ProgressRules:
    """How progress is judged."""
    return progress_pb2.ProgressRules(
        source=SOURCES[rules.source],
        min_iterations=rules.min_iterations,
        max_no_progress_cycles=rules.max_no_progress_cycles,
    )


def rules_from_proto(message: Any, field: str, wrong: Violations, at: str) -> ProgressRules:
    """The rules in a message's field; those of a job that tracks nothing where it is unset."""
    if not message.HasField(field):
        return ProgressRules()
    rules, at = getattr(message, field), f"{at}.{field}"
    source = _SOURCES_IN.get(rules.source)
    if source is None:
        wrong.add(f"{at}.source", f"is {rules.source}; must be one of ProgressSource")
    wrong.between(f"{at}.min_iterations", rules.min_iterations, 1, MAX_ITERATION)
    wrong.between(f"{at}.max_no_progress_cycles", rules.max_no_progress_cycles, 0, MAX_CYCLES)
    return ProgressRules(source or ProgressSource.NONE, rules.min_iterations, rules.max_no_progress_cycles)


def check_to_proto(check: ProgressCheck) -> progress_pb2.ProgressCheck:
    """One cycle's check."""
    return progress_pb2.ProgressCheck(
        rules=rules_to_proto(check.rules),
        baseline=check.baseline,
        without_progress=check.without_progress,
        value=check.value,
        skipped=check.skipped,
        marker=check.marker,
        sdk_step=check.sdk_step,
    )


def check_from_proto(message: Any, field: str, wrong: Violations, at: str) -> ProgressCheck | None:
    """The check in a message's field; None where it is unset."""
    if not message.HasField(field):
        return None
    check, at = getattr(message, field), f"{at}.{field}"
    wrong.between(f"{at}.without_progress", check.without_progress, 0, MAX_CYCLES)
    wrong.text(f"{at}.skipped", check.skipped, MAX_SKIPPED_BYTES)
    return ProgressCheck(
        rules=rules_from_proto(check, "rules", wrong, at),
        baseline=iteration_in(check, "baseline", wrong, at),
        without_progress=check.without_progress,
        value=iteration_in(check, "value", wrong, at),
        skipped=check.skipped,
        marker=iteration_in(check, "marker", wrong, at),
        sdk_step=iteration_in(check, "sdk_step", wrong, at),
    )


def count_to_proto(count: ProgressCount, rules: ProgressRules) -> progress_pb2.ProgressCount:
    """The durable count, for observers."""
    return progress_pb2.ProgressCount(
        rules=rules_to_proto(rules),
        baseline=count.baseline,
        without_progress=count.without_progress,
        skipped_in_a_row=count.skipped_in_a_row,
        last=None if count.last is None else check_to_proto(count.last),
    )


def iteration_in(message: Any, field: str, wrong: Violations, at: str) -> int | None:
    """An iteration that may be unset; what does not fit is added to `wrong`."""
    if not message.HasField(field):
        return None
    value = int(getattr(message, field))
    wrong.between(f"{at}.{field}", value, 0, MAX_ITERATION)
    return value
