"""What all tests share: properties that repeat, a mark per layer, no fork handlers of gRPC, few looks for garbage."""

from __future__ import annotations

import gc
import os

# before any import of grpc: tests start processes, as services do
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
GC_THRESHOLDS = gc.get_threshold()
gc.set_threshold(50_000, 20, 50)  # while tests are collected: of what imports make next to nothing is garbage
LAYERS_WITH_MARK = ("integration", "e2e", "gpu")

# No deadline per example: on a busy machine it judges the machine. A failure prints the blob that repeats it.
settings.register_profile(
    "house",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_configure(config: pytest.Config):
    """Puts a fault into the cores where the simulator's hunt asks whether a test sees it (tests/sim/hunting.py)."""
    fault = os.environ.get("RESURGE_MUTANT")
    if fault:
        from tests.sim import hunting  # the simulator is loaded for this alone

        config.add_cleanup(hunting.kept_in(fault))


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Gives each test the mark of its layer, so that a layer can be left out or run alone."""
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        layer = item.path.relative_to(TESTS).parts[0]
        if layer in LAYERS_WITH_MARK:
            item.add_marker(layer)


def pytest_collection_finish():
    """Leaves what was imported out of every later look for garbage: each took longer than the tests between two."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter):
    """Shows what failed in each test that was run again (scripts/test.sh): a second run that passes hides nothing."""
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section("failed once, and run again")
    for report in again:
        terminalreporter.line(f"{report.nodeid} ({report.when})", yellow=True)
        terminalreporter.line(report.longreprtext[-4000:])
