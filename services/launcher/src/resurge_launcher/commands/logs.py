"""From the options to the plan for what workers print. Raises UsageProblem for what cannot go together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_launcher.commands import machine
from resurge_launcher.commands.place import NodeIdentity
from resurge_launcher.commands.sources import Resolved, Sourced
from resurge_launcher.settings import LogPlan, LogWay
from resurge_launcher.usage import UsageProblem
from resurge_libs.rpc.endpoint import Endpoint

MIB = 1024 * 1024
NODES_PER_LEAF = 1_536
"""Of the reference: so many one server is said to carry there."""
BLOCKS_PER_NODE, BLOCKS_MIN, BLOCKS_MAX = 256, 16_384, 1_000_000
PORT_MAX = 65_535
LOOK_LIMIT_S = 1.0
"""So long a disk that does not answer may hold up a start, which needs no file of a cycle."""
NEED_PREFIX = (
    "launcher_log", "enable_log_server", "log_endpoint", "log_leaf_count", "strict_logs", "log_server_log_prefix",
)  # fmt: skip
LUSTRE = "on Lustre each append is whole, and all nodes wait for one lock"
NFS = "on NFS or VAST lines interleave or vanish, and nobody sees it"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """What of the rest of the settings the plan follows from."""

    endpoint: Endpoint | None
    serve_here: bool
    max_nodes: int
    run_dir: Path
    node: NodeIdentity


def log_plan_of(resolved: Resolved, place: LogPlace) -> tuple[LogPlan | None, list[str]]:
    """The plan, None where none was asked for, and what is to be said at the start."""
    prefix, launcher_log = resolved["applog_prefix"], resolved["launcher_log"]
    own_log = resolved["log_server_log_prefix"]
    if not prefix.value:
        _refuse_without_prefix(resolved)
        return None, []
    plan = LogPlan(
        way=LogWay.SERVER,
        prefix=_absolute(prefix),
        spool_dir=Path(resolved["log_spool_dir"].value or place.run_dir / "spool").absolute(),
        launcher_log=_absolute(launcher_log) if launcher_log.value else None,
        sync=resolved["log_sync"].value,
        stop_limit_s=resolved["log_server_stop_limit_s"].value,
        spool_limit_bytes=resolved["log_spool_limit_mib"].value * MIB,
        servers_log_prefix=_absolute(own_log) if own_log.value else None,
    )
    is_wanted = resolved["enable_log_server"].value or bool(launcher_log.value) or resolved["log_endpoint"].value
    unused = _says_nothing(resolved["log_server_log_prefix"])
    if not is_wanted and place.max_nodes > 1:
        direct, said = _direct(resolved, plan)
        return direct, said + unused
    return _served(resolved, plan, place), unused if resolved["log_endpoint"].value else []


def prove_log_files(resolved: Resolved, plan: LogPlan | None) -> None:
    """Refuse files that this node is to write, or the log server that it starts, where they plainly cannot be made.

    A disk that is full, or does not answer, may do so later, and lines wait for it. Raises UsageProblem.
    """
    if plan is None or not (plan.serve_here or plan.way is LogWay.DIRECT):
        return
    _prove(resolved["applog_prefix"], plan.prefix)
    if plan.launcher_log is not None:
        _prove(resolved["launcher_log"], plan.launcher_log)


def _prove(item: Sourced, path: Path) -> None:
    folder = path.parent
    why = machine.within(LOOK_LIMIT_S, lambda: machine.why_never_writable(folder), may_hang=True)
    if why is not None:
        right = "Name a file in a directory that exists or can be made, and that you may write."
        raise UsageProblem(item.field, f"{path} cannot be written: directory {folder}: {why}", right)


def _served(resolved: Resolved, plan: LogPlan, place: LogPlace) -> LogPlan:
    given = resolved["log_endpoint"].value
    if given:
        own = _own_leaf(place.node, len(given))
        if len(given) == 1:
            return replace(plan, endpoint=given[0])
        return replace(plan, leaves=given, first_leaf=own)
    count = _leaf_count(resolved["log_leaf_count"], resolved["log_server_port"], place)
    first = _beside(place, resolved["log_server_port"].value, plan.prefix)
    served = replace(plan, endpoint=_after(first, count), serve_here=place.serve_here)
    if not count:
        return served
    blocks = resolved["log_leaf_queue_blocks"].value
    per_leaf = -(-place.max_nodes // count)
    return replace(
        served,
        leaves=tuple(_after(first, number) for number in range(count)),
        first_leaf=_own_leaf(place.node, count),
        leaf_queue_blocks=blocks if blocks > 0 else min(max(BLOCKS_PER_NODE * per_leaf, BLOCKS_MIN), BLOCKS_MAX),
    )


def _leaf_count(count: Sourced, port: Sourced, place: LogPlace) -> int:
    """How many leaves; 0 where nodes send to the log server itself. Raises UsageProblem."""
    wanted = count.value or -(-place.max_nodes // NODES_PER_LEAF)
    if wanted <= 1:
        return 0
    if port.value + wanted > PORT_MAX:
        problem = f"{wanted} leaves and the log server take ports {port.value} to {port.value + wanted}"
        raise UsageProblem(count.field, problem, f"Give fewer leaves, or a --ft-log-server-port below {port.value}.")
    return int(wanted)


def _own_leaf(node: NodeIdentity, count: int) -> int:
    """By its order among the nodes, else by its name: alike however often it starts."""
    if node.infra_rank is not None:
        return node.infra_rank % count
    return int.from_bytes(hashlib.sha256(node.node_id.encode()).digest()[:8]) % count


def _beside(place: LogPlace, port: int, prefix: Path) -> Endpoint:
    endpoint = place.endpoint
    if endpoint is None or endpoint.is_unix:
        of_prefix = hashlib.sha256(str(prefix).encode()).hexdigest()[:10]
        return Endpoint(path=str(place.run_dir / f"logs-{of_prefix}.sock"))
    return replace(endpoint, port=port)


def _after(endpoint: Endpoint, number: int) -> Endpoint:
    """The place of the server after so many others."""
    if endpoint.is_unix:
        return replace(endpoint, path=f"{endpoint.path[:-5]}-{number}.sock") if number else endpoint
    return replace(endpoint, port=endpoint.port + number)


def _direct(resolved: Resolved, plan: LogPlan) -> tuple[LogPlan, list[str]]:
    item = resolved["applog_prefix"]
    if resolved["strict_logs"].value:
        raise UsageProblem(
            item.field,
            "is given for several nodes without a log server, and --strict-logs refuses that",
            "Add --ft-enable-log-server.",
        )
    warning = (
        f"WARNING: {item.source} without --ft-enable-log-server: every node appends to the same file. "
        f"{LUSTRE[0].upper()}{LUSTRE[1:]}; {NFS}. Add --ft-enable-log-server, and one process writes the file."
    )
    return replace(plan, way=LogWay.DIRECT), [warning]


def _says_nothing(own_log: Sourced) -> list[str]:
    return [f"{own_log.source} has no effect: no log server is started by launchers"] if own_log.value else []


def _refuse_without_prefix(resolved: Resolved) -> None:
    for name in NEED_PREFIX:
        item = resolved[name]
        if item.is_given and item.value:
            raise UsageProblem(item.field, "needs a prefix for the files", "Add --ft-per-cycle-applog-prefix PATH.")


def _absolute(item: Sourced) -> Path:
    path = Path(item.value)
    if not path.is_absolute() or not path.name:
        right = (
            f"Give an absolute path that all nodes understand alike, such as {Path.cwd() / (path.name or 'app.log')}."
        )
        raise UsageProblem(item.field, f"{item.value!r} is no absolute path of a file", right)
    return path
