"""Which node this is, on which machine, and where its control plane is. The environment is an argument.

Never falls back silently: several nodes without an endpoint are refused, not each left to train alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from resurge_launcher.commands import machine, values
from resurge_launcher.commands.sources import Resolved
from resurge_launcher.settings import MachineId
from resurge_launcher.usage import UsageProblem
from resurge_libs.rpc.endpoint import Endpoint

_MACHINE_ID = re.compile(r"[A-Za-z0-9._:/@+-]{1,255}")


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """This node's identity and its order among the nodes."""

    node_id: str
    infra_rank: int | None


def node_of(resolved: Resolved, environ: Mapping[str, str], host_name: str, max_nodes: int) -> NodeIdentity:
    """Identity: --node-id, else Slurm's node name and id, else the node rank, else the host name."""
    item = resolved["node_rank"]
    node_rank: int | None = item.value if item.is_given else None
    if node_rank is not None and node_rank >= max_nodes:
        raise UsageProblem(
            item.field, f"{node_rank} is out of range for {max_nodes} nodes", f"Give 0 to {max_nodes - 1}."
        )
    infra_rank = node_rank
    for variable in ("SLURM_PROCID", "GROUP_RANK"):
        if infra_rank is None and environ.get(variable, "").isdigit():
            infra_rank = int(environ[variable])
    if resolved["node_id"].is_given:
        return NodeIdentity(resolved["node_id"].value, infra_rank)
    if environ.get("SLURMD_NODENAME") and environ.get("SLURM_PROCID"):
        name = f"{environ['SLURMD_NODENAME']}-{environ.get('SLURM_NODEID', '0')}"
    elif node_rank is not None:
        name = f"node-{node_rank}"
    else:
        name = host_name
    return NodeIdentity(name, infra_rank)


def machine_id_of(environ: Mapping[str, str]) -> MachineId:
    """The machine's id: as given by hand, else the one of its system. Raises UsageProblem."""
    given = environ.get("RESURGE_MACHINE_ID", "")
    if given and not _MACHINE_ID.fullmatch(given):
        right = "Give letters, digits and . _ : / @ + -, at most 255 of them."
        raise UsageProblem("RESURGE_MACHINE_ID", f"{given[:80]!r} is no machine id", right)
    return MachineId(given, is_given=True) if given else MachineId(machine.machine_id())


def domain_of(environ: Mapping[str, str]) -> str:
    """Where Slurm says the node is, from the top of the network down to its block or switch; empty: it does not say."""
    address = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".")
    pattern = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    if len(address) != len(pattern) or pattern[-1] != "node":
        return ""
    return ".".join(address[:-1])


def endpoint_of(
    resolved: Resolved, environ: Mapping[str, str], max_nodes: int
) -> tuple[Endpoint | None, tuple[str, ...]]:
    """The endpoint, or None for an embedded control plane; with sentences about what had no effect."""
    given, master = resolved["rdzv_endpoint"], resolved["master_addr"]
    if resolved["standalone"].value:
        if max_nodes > 1:
            right = "Leave --standalone out and give --rdzv-endpoint, or give --nnodes 1."
            raise UsageProblem("--standalone", f"runs one node, and --nnodes says {max_nodes}", right)
        ignored = f"{given.source} has no effect with --standalone." if given.is_given else ""
        return None, (ignored,) if ignored else ()
    if given.is_given:
        return given.value, ()
    if max_nodes == 1:
        _refuse_lonely_steps(resolved, environ)
        lone = [item for item in (master, resolved["master_port"]) if item.is_given]
        return None, tuple(
            f"{item.source} has no effect on one node: ports are chosen when workers start." for item in lone
        )
    if master.is_given:
        port = resolved["master_port"].value
        host = str(master.value).strip("[]")
        try:
            return values.endpoint(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), ()
        except values.Wrong as wrong:
            raise UsageProblem(master.field, wrong.problem, "Give an address or a host name.") from None
    raise UsageProblem(
        "--rdzv-endpoint",
        f"is missing, and --nnodes says {max_nodes} nodes",
        f"Give every node the same HOST:PORT, for example --rdzv-endpoint n0:{values.DEFAULT_PORT}; the launcher on "
        "that host starts the control plane. For one node leave --nnodes out.",
    )


def _refuse_lonely_steps(resolved: Resolved, environ: Mapping[str, str]) -> None:
    nodes = environ.get("SLURM_STEP_NUM_NODES", "1")
    if resolved["nnodes"].is_given or not nodes.isdigit() or int(nodes) < 2 or "SLURM_PROCID" not in environ:
        return
    raise UsageProblem(
        "--nnodes",
        f"is not given, and this Slurm step runs on {nodes} nodes: each would train alone",
        f"Give --nnodes {nodes} with --rdzv-endpoint, or --standalone if each node shall train alone.",
    )
