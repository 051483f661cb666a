"""A device that stands for CUDA, and waits for what another thread does. Groups and streams: resurge.testing."""

import asyncio
import threading
import time

from resurge.testing.fakes import FakeGroup as Group
from resurge.testing.fakes import FakeStream as Stream

__all__ = ["WAIT_S", "Cuda", "Group", "Stream", "eventually", "guard_threads", "until"]
WAIT_S = 10.0


class Cuda:
    """Stands for torch.cuda: a device per thread, and synchronizations that are counted."""

    def __init__(self, is_there=True, device=0):
        self.is_there = is_there
        self.synchronized = 0
        self._local = threading.local()
        self._local.device = device

    def is_available(self):
        return self.is_there

    def is_initialized(self):
        return self.is_there

    def current_device(self):
        return getattr(self._local, "device", 0)

    def set_device(self, device):
        self._local.device = device

    def synchronize(self):
        self.synchronized += 1


def guard_threads():
    """The guards' threads of this process, by name."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("resurge-")]


def eventually(condition, limit_s=WAIT_S):
    """Whether it comes true within the limit."""
    tick = threading.Event()
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if condition():
            return True
        tick.wait(0.005)
    return bool(condition())


async def until(condition, limit_s=WAIT_S):
    """Let the loop run until it comes true; the other side is a thread, which no event of the loop tells of."""
    ends = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < ends:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return found
