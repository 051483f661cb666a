"""Restart budgets and backoff to proto and back, for every wire that carries them. Decides nothing."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration

from resurge_api.common.v1 import restarts_pb2
from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.budget import CauseBudget, RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.rpc.validation import Violations

MAX_RESTARTS = 1_000_000
MAX_FREE_FAILURES = 1_000
MAX_WAIT_S = 3_600.0
MAX_REFUND_S = 366 * 86_400.0
MAX_FACTOR = 1_000.0


def restart_rules_to_proto(rules: RestartRules) -> restarts_pb2.RestartRules | None:
    """How restarts are bounded; None where only their number is."""
    if rules == RestartRules():
        return None
    return restarts_pb2.RestartRules(
        by_cause=[restarts_pb2.CauseBudget(cause=cause, allowed=count) for cause, count in rules.by_cause],
        refund_after=_duration(rules.refund_after_s),
        backoff=None if rules.backoff is None else backoff_to_proto(rules.backoff),
    )


def restart_rules_from_proto(message: Any, field: str, wrong: Violations, at: str) -> RestartRules:
    """The rules in a message's field; none but the number of restarts where it is unset."""
    if not message.HasField(field):
        return RestartRules()
    rules, at = getattr(message, field), f"{at}.{field}"
    wrong.count(f"{at}.by_cause", len(rules.by_cause), len(FaultCause))
    by_cause = {}
    for index, bound in enumerate(rules.by_cause[: len(FaultCause)]):
        by_cause[_cause(bound.cause, wrong, f"{at}.by_cause[{index}].cause")] = bound.allowed
        wrong.between(f"{at}.by_cause[{index}].allowed", bound.allowed, 0, MAX_RESTARTS)
    refund_s = _seconds(rules.refund_after)
    wrong.between(f"{at}.refund_after", refund_s, 0, MAX_REFUND_S)
    backoff = backoff_from_proto(rules, "backoff", wrong, at)
    return RestartRules(tuple(sorted(by_cause.items())), refund_s, backoff)


def backoff_to_proto(rules: BackoffRules) -> restarts_pb2.Backoff:
    """The waits of a crash loop."""
    return restarts_pb2.Backoff(
        fast_failure=_duration(rules.fast_failure_s),
        free_failures=rules.free_failures,
        first_delay=_duration(rules.first_delay_s),
        factor=rules.factor,
        max_delay=_duration(rules.max_delay_s),
        jitter_share=rules.jitter_share,
    )


def backoff_from_proto(message: Any, field: str, wrong: Violations, at: str) -> BackoffRules | None:
    """The waits in a message's field; None where it is unset, or does not fit."""
    if not message.HasField(field):
        return None
    backoff, at = getattr(message, field), f"{at}.{field}"
    waits = {name: _seconds(getattr(backoff, name)) for name in ("fast_failure", "first_delay", "max_delay")}
    for name, seconds in waits.items():
        wrong.between(f"{at}.{name}", seconds, 0, MAX_WAIT_S)
    wrong.between(f"{at}.factor", backoff.factor, 1, MAX_FACTOR)
    wrong.between(f"{at}.free_failures", backoff.free_failures, 0, MAX_FREE_FAILURES)
    try:
        return BackoffRules(
            fast_failure_s=waits["fast_failure"],
            free_failures=backoff.free_failures,
            first_delay_s=waits["first_delay"],
            factor=backoff.factor,
            max_delay_s=waits["max_delay"],
            jitter_share=backoff.jitter_share,
        )
    except ValueError as error:
        wrong.add(at, str(error))
        return None


def cause_budget_to_proto(budget: CauseBudget) -> restarts_pb2.CauseBudget:
    """What one cause may have."""
    return restarts_pb2.CauseBudget(cause=budget.cause, allowed=budget.allowed, spent=budget.spent)


def cause_budget_from_proto(message: Any, field: str, wrong: Violations, at: str) -> CauseBudget | None:
    """What one cause may have; None where it is unset."""
    if not message.HasField(field):
        return None
    budget = getattr(message, field)
    return CauseBudget(_cause(budget.cause, wrong, f"{at}.{field}.cause"), budget.allowed, budget.spent)


def _cause(text: str, wrong: Violations, at: str) -> FaultCause:
    try:
        return FaultCause(text)
    except ValueError:
        wrong.add(at, f"is {text[:64]!r}; must be one of {', '.join(FaultCause)}")
        return FaultCause.OTHER


def cause_named(text: str) -> FaultCause:
    """The cause of that name; OTHER for none, and for one that only another release knows."""
    return FaultCause(text) if text in set(FaultCause) else FaultCause.OTHER


def _duration(seconds: float) -> Duration:
    value = Duration()
    value.FromNanoseconds(round(seconds * 1e9))
    return value


def _seconds(duration: Duration) -> float:
    return float(duration.seconds) + duration.nanos / 1e9
