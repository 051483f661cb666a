"""From resolved options to how restarts are bounded beyond their number. Pure; raises UsageProblem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resurge_launcher.commands import values
from resurge_launcher.commands.sources import Resolved, Sourced
from resurge_launcher.usage import UsageProblem
from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause

WAITS = {"first": "first_delay_s", "max": "max_delay_s", "fast": "fast_failure_s"}
NUMBERS = {"factor": "factor", "jitter": "jitter_share"}
KEYS = (*WAITS, *NUMBERS, "free")


def restart_rules_of(resolved: Resolved) -> RestartRules:
    """The job's rules."""
    refund_s = resolved["restart_refund_after"].value
    return RestartRules(
        by_cause_of(resolved["max_restarts_by_cause"]), refund_s, backoff_of(resolved["restart_backoff"])
    )


def by_cause_of(item: Sourced) -> tuple[tuple[FaultCause, int], ...]:
    """A bound for each cause that is named."""
    right = f"Give CAUSE=N pairs with commas; causes are {', '.join(FaultCause)}."
    found = {}
    for word, number in (item.value or {}).items():
        if word not in set(FaultCause):
            raise UsageProblem(item.field, f"{word!r} is no cause of faults", right)
        if not number.isdecimal() or int(number) > 1_000_000:
            raise UsageProblem(item.field, f"{word}={number} is no bound", f"Give {word}=N with N from 0 to 1000000.")
        found[FaultCause(word)] = int(number)
    return tuple(sorted(found.items()))


def backoff_of(item: Sourced) -> BackoffRules | None:
    """The waits of a crash loop; None where nobody asked for others than the policy's."""
    given: Mapping[str, str] = item.value or {}
    if not given:
        return None
    changed: dict[str, Any] = {}
    for key, text in given.items():
        if key not in KEYS:
            raise UsageProblem(item.field, f"{key!r} is no part of a backoff", f"Give some of {', '.join(KEYS)}.")
        try:
            if key in WAITS:
                changed[WAITS[key]] = values.seconds(text)
            elif key == "free":
                changed["free_failures"] = values.whole(text, 0, 1_000)
            else:
                changed[NUMBERS[key]] = float(text)
        except values.Wrong as wrong:
            raise UsageProblem(item.field, f"{key}: {wrong.problem}", wrong.right) from None
        except ValueError:
            raise UsageProblem(
                item.field, f"{key}={text} is no number", f"Give {key} as a number, such as 2."
            ) from None
    try:
        rules = BackoffRules(**changed)
    except ValueError as error:
        raise UsageProblem(item.field, str(error).removeprefix("backoff: "), "See docs/policy.md.") from None
    if not (rules.factor <= 1_000 and rules.max_delay_s <= 3_600 and rules.fast_failure_s <= 3_600):
        raise UsageProblem(item.field, "is out of range", "Give waits up to 1h and a factor up to 1000.")
    return rules
