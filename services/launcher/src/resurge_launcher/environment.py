"""The environment of one worker: torchrun's variables, the worker SDK's, and what marks it as this node's. Pure.

Reads no environment itself: what the launcher inherited comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resurge import environment as sdk
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.node_environment import KEPT_FROM_WORKERS, LAUNCHER, NODE_ID, defaults
from resurge_launcher.worker_limits import WorkerLimits

INCARNATION = "RESURGE_INCARNATION"
ATTEMPT = "RESURGE_ATTEMPT"
CYCLE_INFO = "RESURGE_CURRENT_CYCLE_INFO"
"""The record of the worker's own cycle."""
NVRX_CYCLE_INFO = "NVRX_CURRENT_CYCLE_INFO"
"""The link to the newest cycle's record, under the name that tools for another launcher know."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What all workers of a node have in common over all generations."""

    job_id: str
    node_id: str
    incarnation: int
    local_world_size: int
    role: str
    socket_path: str
    beat_limit_s: float
    """Longest silence between two beats; 0 for no limit."""
    fence_wait_s: float
    """How long a commit waits for the lease to come back."""
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    signals_to_handle: str = ""
    """The signals that end or reach the job, as torchrun lists them."""
    launcher: str = ""
    """The launcher's process, by a name that no later process can have."""


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """One worker's own files."""

    page: str
    error_file: str
    cycle_record: str = ""
    """The record of this cycle; empty where none is promised."""
    current_record: str = ""
    """The link to the newest record."""


def worker_environment(
    run: RunGoal, node: NodeFacts, local_rank: int, files: WorkerFiles, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of the worker with this local rank."""
    environment = {name: value for name, value in inherited.items() if name not in KEPT_FROM_WORKERS}
    environment.update(defaults(node.local_world_size, inherited))
    environment.update(_torchrun(run, node, local_rank, files))
    environment.update(_own(run, node, files))
    # what an outer launcher may have left is never this worker's
    for name, value in (
        (sdk.TRACEPARENT, run.traceparent),
        (CYCLE_INFO, files.cycle_record),
        (NVRX_CYCLE_INFO, files.current_record),
    ):
        if value:
            environment[name] = value
        else:
            environment.pop(name, None)
    return environment


def _torchrun(run: RunGoal, node: NodeFacts, local_rank: int, files: WorkerFiles) -> dict[str, str]:
    rank = run.base_rank + local_rank
    return {
        "LOCAL_RANK": str(local_rank),
        "RANK": str(rank),
        "GROUP_RANK": str(run.group_rank),
        "ROLE_RANK": str(rank),
        "ROLE_NAME": node.role,
        "LOCAL_WORLD_SIZE": str(node.local_world_size),
        "WORLD_SIZE": str(run.world_size),
        "GROUP_WORLD_SIZE": str(run.group_world_size),
        "ROLE_WORLD_SIZE": str(run.world_size),
        "MASTER_ADDR": run.master_addr,
        "MASTER_PORT": str(run.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(run.cycle),
        "TORCHELASTIC_MAX_RESTARTS": str(run.max_restarts),
        "TORCHELASTIC_RUN_ID": node.job_id,
        # where nobody serves the store, rank 0 opens it on the port that its launcher held
        "TORCHELASTIC_USE_AGENT_STORE": str(run.store_is_served),
        "TORCHELASTIC_ERROR_FILE": files.error_file,
        "TORCHELASTIC_SIGNALS_TO_HANDLE": node.signals_to_handle,
    }


def _own(run: RunGoal, node: NodeFacts, files: WorkerFiles) -> dict[str, str]:
    return {
        sdk.JOB_ID: node.job_id,
        NODE_ID: node.node_id,
        INCARNATION: str(node.incarnation),
        LAUNCHER: node.launcher,
        ATTEMPT: str(run.attempt),
        sdk.GENERATION: str(run.generation),
        sdk.CYCLE: str(run.cycle),
        sdk.PAGE: files.page,
        sdk.SOCKET: node.socket_path,
        sdk.BEAT_LIMIT_S: f"{node.beat_limit_s:g}",
        sdk.FENCE_WAIT_S: f"{node.fence_wait_s:g}",
        **_limits(node.limits),
    }


def _limits(limits: WorkerLimits) -> dict[str, str]:
    sections = ",".join(f"{name}:{limit_s:g}" for name, limit_s in limits.sections_s.items())
    return {
        sdk.FIRST_BEAT_LIMIT_S: f"{limits.first_beat_s or 0:g}",
        sdk.SECTION_LIMITS: sections,
        sdk.OUT_OF_SECTION_LIMIT_S: f"{limits.out_of_section_s or 0:g}",
        sdk.SAFETY_FACTOR: f"{limits.safety_factor:g}",
        sdk.WARMUP_STEPS: str(limits.warmup_steps),
    }
