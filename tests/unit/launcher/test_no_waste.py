"""What each start of a worker uses again leaves nothing for the collector of cycles, which comes late in a launcher."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from resurge.death_lock import Futex
from resurge_launcher.processes import promptness

TIMES = 20
LIMIT_S = 50


@pytest.mark.parametrize("make", [Futex, promptness.wake_soon, promptness.slice_ns])
def test_use_after_use_leaves_no_cycle(make: Callable[[], object]):
    with ThreadPoolExecutor(1) as own_thread:  # one that asks for short slices keeps them
        left = own_thread.submit(cycles_left, make).result(LIMIT_S)
    assert left < TIMES


def cycles_left(make: Callable[[], object]) -> int:
    make()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        for _ in range(TIMES):
            make()
        return gc.collect()
    finally:
        if was_enabled:
            gc.enable()
