"""The one table of time limits: every duration that decides something, and the order they must keep.

Two given values carry the rest: `lease_ttl_s` (how long a promise of life holds) and `fault_grace_s` (how long a
worker has between TERM and KILL after a fault). ARCHITECTURE.md shows the same table; a test compares the two.
Pure; refuses a wrong order at start.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from resurge_libs.core.limit_rows import DERIVED, ROWS, LimitRow

NEVER_ZERO = {
    "lease_ttl_s": "a lease must last",
    "beat_interval_s": "beats cannot be endless",
    "lease_margin_s": "the server must wait longer than the launcher counts",
}


class WrongOrder(ValueError):
    """Two time limits contradict each other; names both and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """All durations in seconds. A derived limit left at None gets its value from the two given ones."""

    lease_ttl_s: float = 5.0
    fault_grace_s: float = 0.5

    lease_margin_s: float = None  # type: ignore[assignment]  # derived in __post_init__, as all None below
    beat_interval_s: float = None  # type: ignore[assignment]
    resume_window_s: float = None  # type: ignore[assignment]
    stream_loss_limit_s: float = None  # type: ignore[assignment]
    reconnect_backoff_min_s: float = None  # type: ignore[assignment]
    reconnect_backoff_max_s: float = None  # type: ignore[assignment]
    keepalive_s: float = None  # type: ignore[assignment]
    client_ping_timeout_s: float = None  # type: ignore[assignment]
    late_tick_s: float = None  # type: ignore[assignment]
    reconnect_window_s: float = None  # type: ignore[assignment]
    verdict_limit_s: float = None  # type: ignore[assignment]
    marker_read_limit_s: float = None  # type: ignore[assignment]
    last_call_s: float = None  # type: ignore[assignment]
    finish_window_s: float = None  # type: ignore[assignment]
    settle_s: float = None  # type: ignore[assignment]
    server_ping_timeout_s: float = None  # type: ignore[assignment]
    teardown_limit_s: float = None  # type: ignore[assignment]

    quorum_wait_s: float = 600.0
    all_lost_wait_s: float = 60.0
    start_process_group_limit_s: float = 300.0
    start_restore_limit_s: float = 900.0
    start_first_step_limit_s: float = 900.0
    hang_limit_s: float = 60.0
    finish_skew_limit_s: float = 300.0
    lost_control_limit_s: float = 600.0
    drain_grace_s: float = 30.0
    checkpoint_grace_s: float = 10.0
    fence_wait_s: float = 30.0
    terminal_ack_limit_s: float = 3.0
    first_contact_limit_s: float = 60.0
    export_limit_s: float = 1.0
    collective_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            if value is None:
                object.__setattr__(self, name, round(DERIVED[name](self), 6))
        check_order(self)

    def changed(self, **values: Any) -> TimeLimits:
        """The table with some values given; what derives from a changed value is derived again."""
        derived: dict[str, Any] = {name: None for name in DERIVED if self._is_as_derived(name)}
        return replace(self, **{**derived, **values})

    def _is_as_derived(self, name: str) -> bool:
        return bool(getattr(self, name) == round(DERIVED[name](self), 6))

    def start_limit_s(self, phase: str) -> float:
        """The limit of one start phase: `process_group`, `restore` or `first_step`. Raises KeyError for others."""
        return {
            "process_group": self.start_process_group_limit_s,
            "restore": self.start_restore_limit_s,
            "first_step": self.start_first_step_limit_s,
        }[phase]

    def table(self) -> tuple[LimitRow, ...]:
        """The rows of the documented table, each with its value in seconds."""
        return tuple(replace(row, value_s=getattr(self, row.name)) for row in ROWS)


def check_order(limits: TimeLimits) -> None:
    """Raise WrongOrder, naming both values and what would be right, where two limits contradict each other."""
    for item in fields(limits):
        value = getattr(limits, item.name)
        if value < 0 or value != value:
            raise WrongOrder(f"{item.name} is {value} s: a time limit must not be negative")
        if value == 0 and item.name in NEVER_ZERO:
            raise WrongOrder(f"{item.name} is 0 s: {NEVER_ZERO[item.name]}. Give more than 0 s.")
    for low, high, why in _orders(limits):
        (low_name, low_s), (high_name, high_s) = low, high
        if not low_s < high_s:
            raise WrongOrder(
                f"{low_name} ({low_s:g} s) must be shorter than {high_name} ({high_s:g} s): {why}. "
                f"Lower {low_name} below {high_s:g} s or raise {high_name} above {low_s:g} s."
            )


Named = tuple[str, float]


def _orders(t: TimeLimits) -> tuple[tuple[Named, Named, str], ...]:
    def of(name: str) -> Named:
        return name, float(getattr(t, name))

    lease_over: Named = ("lease_ttl_s + lease_margin_s", t.lease_ttl_s + t.lease_margin_s)
    two_beats: Named = ("2 x beat_interval_s", 2 * t.beat_interval_s)
    replaced: Named = (
        "lease_ttl_s + lease_margin_s + fault_grace_s + teardown_limit_s",
        t.lease_ttl_s + t.lease_margin_s + t.fault_grace_s + t.teardown_limit_s,
    )
    return (
        (two_beats, of("lease_ttl_s"), "one lost beat must not cost a lease"),
        (of("resume_window_s"), of("stream_loss_limit_s"), "an open incident decides sooner"),
        (of("stream_loss_limit_s"), of("lease_ttl_s"), "a closed stream is decided sooner than a silent one"),
        (of("late_tick_s"), of("lease_ttl_s"), "a pause of the service must be seen before leases end by it"),
        (of("fault_grace_s"), of("teardown_limit_s"), "KILL must be tried before a node is given up"),
        (of("fault_grace_s"), of("lease_ttl_s"), "a cut-off launcher must have ended its workers by its lease"),
        (of("reconnect_backoff_min_s"), of("reconnect_backoff_max_s"), "backoff grows"),
        (of("reconnect_backoff_max_s"), of("lease_ttl_s"), "a launcher must try again within its lease"),
        (of("client_ping_timeout_s"), of("lease_ttl_s"), "a launcher must find a dead peer within its lease"),
        (of("marker_read_limit_s"), of("verdict_limit_s"), "a verdict must not wait for what it can do without"),
        (lease_over, of("server_ping_timeout_s"), "a stream that closes earlier was closed by the peer's kernel"),
        (lease_over, of("last_call_s"), "nodes that may come back keep their place until their lease is over"),
        (lease_over, of("all_lost_wait_s"), "all of a generation is lost only when its leases are over"),
        (of("last_call_s"), of("quorum_wait_s"), "the last call is part of the wait for a quorum"),
        (lease_over, of("lost_control_limit_s"), "control is lost only after the lease"),
        (of("hang_limit_s"), of("collective_timeout_s"), "a hang must be seen before the framework aborts the peers"),
        (replaced, of("collective_timeout_s"), "a lost node must be replaced before the framework aborts its peers"),
        (of("checkpoint_grace_s"), of("collective_timeout_s"), "a fault must not wait until the framework aborts"),
    )
