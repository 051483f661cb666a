"""Tells people who failed: what the end was, what was printed last, what the error file says, and where the rest is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from resurge_launcher.core import happenings as h
from resurge_launcher.core.crew import signal_name
from resurge_launcher.logs.shipping import LogShipping
from resurge_launcher.output import Funnel
from resurge_launcher.processes import kernel
from resurge_libs.obs import log

TAIL_LINES = 20
OUTPUT_LIMIT_S = 0.5
"""How long the last output of a dead worker is waited for; the recovery does not wait."""
POLL_S = 0.01


class FaultTeller:
    """Knows what it takes to say more about an end than its number."""

    def __init__(self, funnel: Funnel, logs: LogShipping | None = None) -> None:
        self._funnel, self._logs = funnel, logs
        self._oom_kills = kernel.oom_kills()

    async def tell(self, fault: h.TellFault, directory: Path | None, stacks: Sequence[str] = ()) -> None:
        """Log the fault with its evidence, once the rank's output has arrived."""
        if fault.rank is None:
            log.event("fault_seen", reason=fault.because.code, sentence=fault.because.sentence)
            return
        hint = self._who_killed(fault)
        await self._output_of(fault.generation, fault.rank)
        lines = await self._logs.tail(fault.generation, fault.rank, TAIL_LINES) if self._logs is not None else ()
        lines = lines or self._funnel.tail(fault.generation, fault.rank, TAIL_LINES)
        log.event(
            "fault_seen",
            reason=fault.because.code,
            rank=fault.rank,
            sentence=fault.because.sentence,
            hint=hint or None,
            log=str(directory) if directory is not None else None,
        )
        error = fault.record.error if fault.record is not None else ""
        for title, text in (("stacks", stacks), ("error file", error.splitlines()), ("last output", lines)):
            _show(fault.rank, title, text)

    def _who_killed(self, fault: h.TellFault) -> str:
        """The kernel does not say who sent a signal; its count of kills for want of memory says something."""
        record = fault.record
        if record is None or record.signal is None:
            return ""
        now = kernel.oom_kills()
        grew, self._oom_kills = now > self._oom_kills, now
        if signal_name(record.signal) != "SIGKILL":
            return "the process itself, or another one"
        if grew:
            return "the kernel killed for want of memory about then; see dmesg"
        return "not sent by this launcher; the kernel reports no want of memory"

    async def _output_of(self, generation: int, rank: int) -> None:
        give_up_at = time.monotonic() + OUTPUT_LIMIT_S
        while not self._funnel.at_end(generation, rank) and time.monotonic() < give_up_at:  # noqa: ASYNC110  # a thread
            await asyncio.sleep(POLL_S)


def _show(rank: int, title: str, lines: Sequence[str]) -> None:
    if lines:
        log.event("fault_evidence", rank=rank, what=title, text="\n" + "\n".join(f"    {line}" for line in lines))
