"""Groups, streams and devices that stand for those of a transport."""

import asyncio
import threading
import time
from types import SimpleNamespace

WAIT_S = 10.0


class Group:
    """Counts its aborts; `on_abort` runs inside each."""

    def __init__(self, on_abort=None):
        self.aborts = 0
        self.aborted = threading.Event()
        self.on_abort = on_abort

    def abort(self):
        self.aborts += 1
        try:
            if self.on_abort is not None:
                self.on_abort()
        finally:
            self.aborted.set()

    def block(self):
        """A collective that only an abort ends."""
        assert self.aborted.wait(WAIT_S), "the watchdog did not abort"


class Stream:
    """Drains after so many looks; never with None. Its device is a GPU's unless said otherwise."""

    def __init__(self, looks=0, device="cuda"):
        self.looks = looks
        self.recorded = 0
        self.queried = 0
        self.device = SimpleNamespace(type=device)

    def record_event(self):
        self.recorded += 1
        return self

    def query(self):
        self.queried += 1
        return self.looks is not None and self.queried > self.looks


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
