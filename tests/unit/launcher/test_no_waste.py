"""What each start of a worker uses again leaves nothing for the collector of cycles, which comes late in a launcher."""

from __future__ import annotations

import gc

import pytest

from resurge.death_lock import Futex
from resurge_launcher.processes import promptness

TIMES = 20


@pytest.mark.parametrize("make", [Futex, promptness.wake_soon, promptness.slice_ns])
def test_use_after_use_leaves_no_cycle(make):
    make()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        for _ in range(TIMES):
            make()
        assert gc.collect() < TIMES
    finally:
        if was_enabled:
            gc.enable()
