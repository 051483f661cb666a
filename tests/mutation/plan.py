"""Which modules are mutated, and which tests have to notice."""

from __future__ import annotations

_UNIT = "tests/unit/worker_sdk"
TESTS: dict[str, tuple[str, ...]] = {
    "crashing": (
        f"{_UNIT}/test_crash_guard.py",
        f"{_UNIT}/test_crash_guard_outcomes.py",
        f"{_UNIT}/test_crash_news.py",
    ),
    "world_kill": (
        f"{_UNIT}/test_crash_guard.py",
        f"{_UNIT}/test_crash_guard_outcomes.py",
        f"{_UNIT}/test_crash_news.py",
    ),
    "dead_man": (f"{_UNIT}/test_dead_man.py",),
    "testing/sentinel": (f"{_UNIT}/test_sentinel.py",),
    "guards/deadlines": (
        f"{_UNIT}/test_guard_corners.py",
        f"{_UNIT}/test_guard_deadlines.py",
        f"{_UNIT}/test_guard_timer.py",
        f"{_UNIT}/test_orders.py",
        f"{_UNIT}/test_refit_watchdog.py",
    ),
    "guards/abort_work": (
        f"{_UNIT}/test_guard_corners.py",
        f"{_UNIT}/test_refit_watchdog.py",
        f"{_UNIT}/test_guard_deadlines.py",
    ),
    "guards/timer": (f"{_UNIT}/test_guard_timer.py", f"{_UNIT}/test_guard_deadlines.py"),
    "guards/aborted": (f"{_UNIT}/test_refit_errors.py", f"{_UNIT}/test_guard_corners.py"),
    "guards/groups": (f"{_UNIT}/test_guard_groups.py",),
    "guards/torch_groups": (f"{_UNIT}/test_torch_groups.py", f"{_UNIT}/test_torch_calls.py"),
    "guards/bounds": (f"{_UNIT}/test_guard_bounds.py",),
    "own_sockets": (f"{_UNIT}/test_own_sockets.py",),
    "guards/exits": (f"{_UNIT}/test_guard_exits.py", f"{_UNIT}/test_signal_between.py"),
    "guards/listening": (f"{_UNIT}/test_guard_corners.py", f"{_UNIT}/test_orders.py"),
    "guards/recovery": (f"{_UNIT}/test_guard_recovery.py",),
    "orders": (f"{_UNIT}/test_orders.py",),
    "refit_watchdog": (
        f"{_UNIT}/test_refit_watchdog.py",
        f"{_UNIT}/test_refit_interrupted.py",
        f"{_UNIT}/test_refit_hold.py",
        f"{_UNIT}/test_refit_errors.py",
        f"{_UNIT}/test_guard_bounds.py",
        f"{_UNIT}/test_guard_corners.py",
    ),
}
