"""The options about limits of workers, as one value for their SDK."""

from __future__ import annotations

from resurge_launcher.commands.sources import Resolved
from resurge_launcher.worker_limits import WorkerLimits


def worker_limits_of(resolved: Resolved) -> WorkerLimits:
    """What the SDK in a worker is told; None for no limit."""
    return WorkerLimits(
        first_beat_s=resolved["initial_rank_heartbeat_timeout"].value,
        sections_s=resolved["rank_section_timeouts"].value,
        out_of_section_s=resolved["rank_out_of_section_timeout"].value,
        safety_factor=resolved["safety_factor"].value,
        warmup_steps=resolved["num_warmup_iterations"].value,
    )
