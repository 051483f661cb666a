"""Tools for tests: waiting for conditions, virtual clocks, the memory channel, process faults."""

from resurge_libs.testing.wait import NeverHappened, wait_until, wait_until_async

__all__ = ["NeverHappened", "wait_until", "wait_until_async"]
