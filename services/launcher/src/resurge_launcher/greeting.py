"""How a launcher introduces itself: what the job is, which node this is, what it has seen. Decides nothing."""

from __future__ import annotations

import os
from pathlib import Path

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_launcher import wire
from resurge_launcher.core.model import LauncherState
from resurge_launcher.node_lock import NodeMemory
from resurge_launcher.settings import RunSettings
from resurge_libs.rpc.progress import rules_to_proto
from resurge_libs.rpc.restarts import restart_rules_to_proto

IN_PLACE_VERSION = 1
"""Of the orders to ranks that restart in place over several nodes that this launcher follows."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def hello_of(settings: RunSettings, memory: NodeMemory, state: LauncherState, address: str) -> attach_pb2.Hello:
    """The first words on a stream."""
    hello = attach_pb2.Hello(
        protocol_version=wire.PROTOCOL_VERSION,
        job=job_spec(settings),
        node_id=settings.node_id,
        incarnation=memory.incarnation,
        boot_id=_boot_id(),
        host=settings.host_name,
        pid=os.getpid(),
        highest_generation=max(memory.highest_generation, state.highest_generation),
        highest_attempt=max(memory.highest_attempt, state.highest_attempt),
        domain=settings.domain,
        local_world_size=settings.nproc_per_node,
        take_over=settings.take_over,
        address=address,
        log_root=str(settings.log_root),
        log_prefix=str(settings.logs.prefix) if settings.logs is not None else "",
        machine_id=settings.machine.value,
        is_machine_id_given=settings.machine.is_given,
        in_place_version=IN_PLACE_VERSION,
    )
    if settings.infra_rank is not None:
        hello.infra_rank = settings.infra_rank
    return hello


def job_spec(settings: RunSettings) -> attach_pb2.JobSpec:
    """What the job is, as every launcher of it must say it alike."""
    return attach_pb2.JobSpec(
        job_id=settings.job_id,
        attempt=settings.attempt,
        min_nodes=settings.min_nodes,
        max_nodes=settings.max_nodes,
        max_restarts=settings.max_restarts,
        segment=settings.segment,
        command_digest=settings.command_digest,
        strict_fence=settings.strict_fence,
        lease_ttl=wire.duration(settings.limits.lease_ttl_s),
        fault_grace=wire.duration(settings.limits.fault_grace_s),
        no_restart_exit_code=settings.no_restart_exit_code,
        attribution_stop_action=wire.STOP_ACTIONS[settings.attribution_stop_action],
        progress=rules_to_proto(settings.progress) if settings.progress.is_tracked else None,
        max_excluded_share=settings.excluding.max_share,
        exclusion_window=wire.duration(settings.excluding.window_s),
        preempted_exit_code=settings.draining.exit_code,
        restarts=restart_rules_to_proto(settings.restarts),
    )


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
