"""The controller's side of a guarded transfer: bounded waits, time to unwind, one rebuild over those who are there.

Decides in which order a failed transfer is recovered, and that it is not where nobody is known to be gone. Asyncio is
imported by the calls, not by the import. Effects: those of the functions that the controller hands in.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from resurge.guards.aborted import CollectiveAborted, is_aborted, is_context_lost

UNWIND_GRACE_S = 30.0
"""How much longer than a worker's deadline its controller waits, so that the worker's own error comes first."""
UNWIND_WITHOUT_DEADLINE_S = 60.0
_log = logging.getLogger("resurge")
Member = TypeVar("Member")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecoveryRules:
    """How peers are probed and how often they are restarted."""

    probe_interval_s: float = 5.0
    probe_timeout_s: float = 2.0
    failures_to_condemn: int = 3
    successes_to_trust: int = 2
    deadline_s: float | None = None
    restarts: bool = False
    max_restarts_per_shard: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.probe_timeout_s < self.probe_interval_s:
            raise ValueError(
                f"probe_timeout_s is {self.probe_timeout_s:g}: give less than probe_interval_s, "
                f"{self.probe_interval_s:g}, else probes overlap"
            )


async def wait_for_workers(
    work: Awaitable[R], deadline_s: float | None, error_type: type[CollectiveAborted] = CollectiveAborted
) -> R:
    """Await what workers do under a deadline, somewhat longer than it; without a deadline, without a bound.

    Raises the abort's error when even that was not enough; a worker's own error goes through unchanged.
    """
    import asyncio

    if deadline_s is None or deadline_s <= 0:
        return await work
    limit_s = deadline_s + UNWIND_GRACE_S
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if not done:
        task.cancel()
        raise error_type(
            f"no worker answered within {limit_s:g} s, its deadline of {deadline_s:g} s and time to unwind"
        )
    return task.result()


async def let_unwind(calls: Iterable[Awaitable[object]], deadline_s: float | None) -> int:
    """Give all ranks of both sides time to leave a failed transfer; their errors are dropped. How many did not leave.

    A rebuild is a collective itself: begun while others are still inside the old one, it fails as well.
    """
    import asyncio

    tasks = {asyncio.ensure_future(call) for call in calls}
    if not tasks:
        return 0
    limit_s = (deadline_s if deadline_s is not None and deadline_s > 0 else UNWIND_WITHOUT_DEADLINE_S) + UNWIND_GRACE_S
    done, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("resurge: left a failed transfer by %r", error)
    for task in late:
        task.cancel()
    return len(late)


@dataclass(frozen=True, slots=True)
class Recovery(Generic[Member]):
    """What a controller can do about a failed transfer."""

    probe: Callable[[], Awaitable[Sequence[Member]]]
    """Who is gone, asked now and not at the monitor's next look."""
    mark_partial: Callable[[], Awaitable[object]]
    """The survivors must not serve before a whole transfer."""
    rebuild: Callable[[Sequence[Member]], Awaitable[object]]
    """Make the group without these."""

    async def run(
        self,
        transfer: Callable[[], Awaitable[R]],
        calls: Callable[[], Iterable[Awaitable[object]]] = tuple,
        deadline_s: float | None = None,
    ) -> R:
        """The transfer; when it fails, let all unwind, find who is gone, rebuild without them, and try once more.

        Raises the first error where nobody is gone (a rebuild would meet the same silent rank) or the device's context
        is lost.
        """
        try:
            return await transfer()
        except Exception as error:  # task root: of one transfer; it is raised again where nothing can be done
            if is_context_lost(error):
                raise
            await let_unwind(calls(), deadline_s)
            gone = await self.probe()
            if not gone:
                error.add_note("resurge: no rank is known to be gone, so that the group was not rebuilt")
                raise
            if is_aborted(error):
                await self.mark_partial()
            await self.rebuild(gone)
            _log.warning("resurge: a transfer failed, rebuilt without %s: %s", list(gone), error)
        return await transfer()
