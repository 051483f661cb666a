"""The store over which the ranks of one iteration meet: fresh for each, and served by none of them.

On one node it is a file in memory. Over several nodes it is a part, with a name of its own, of the store that one of
the launchers has served for the generation, by a process that is no rank. Effects: a file, or one connection for the
life of this process.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from resurge.environment import WorkerEnvironment


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of one iteration meet."""

    told: WorkerEnvironment
    path: str
    number: int = 0
    """Names the start of the iteration where its ranks are on several nodes; else 0."""

    def store(self, iteration: int, world_size: int, timeout_s: float) -> Any:
        """A client of it, not to be cut with the group. Raises torch's DistStoreError when it does not answer."""
        import torch.distributed as distributed

        if not self.number:
            return cast(Any, distributed).FileStore(f"{self.path}-{iteration}", world_size)
        served = _served(self.told.master_addr, self.told.master_port)
        served.set_timeout(timedelta(seconds=timeout_s))
        return cast(Any, distributed).PrefixStore(f"resurge-inprocess-{self.number}", served)


@functools.cache
def _served(address: str, port: int) -> Any:
    """The client of the generation's store: one, as those of a rank that restarts often would add up."""
    import torch.distributed as distributed

    return cast(Any, distributed).TCPStore(address, port, is_master=False, wait_for_workers=False)
