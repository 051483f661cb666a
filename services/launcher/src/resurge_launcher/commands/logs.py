"""From the options to the plan for what workers print. Raises UsageProblem for what cannot go together."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from resurge_launcher.commands.sources import Resolved, Sourced
from resurge_launcher.settings import LogPlan, LogWay
from resurge_launcher.usage import UsageProblem
from resurge_libs.rpc.endpoint import Endpoint

MIB = 1024 * 1024
LUSTRE = "on Lustre each append is whole, and all nodes wait for one lock"
NFS = "on NFS or VAST lines interleave or vanish, and nobody sees it"


def log_plan_of(
    resolved: Resolved, endpoint: Endpoint | None, serve_here: bool, max_nodes: int, run_dir: Path
) -> tuple[LogPlan | None, list[str]]:
    """The plan, None where none was asked for, and what is to be said at the start."""
    prefix, launcher_log = resolved["applog_prefix"], resolved["launcher_log"]
    if not prefix.value:
        _refuse_without_prefix(resolved)
        return None, []
    plan = LogPlan(
        way=LogWay.SERVER,
        prefix=_absolute(prefix),
        spool_dir=Path(resolved["log_spool_dir"].value or run_dir / "spool").absolute(),
        launcher_log=_absolute(launcher_log) if launcher_log.value else None,
        sync=resolved["log_sync"].value,
        stop_limit_s=resolved["log_server_stop_limit_s"].value,
        spool_limit_bytes=resolved["log_spool_limit_mib"].value * MIB,
    )
    is_wanted = resolved["enable_log_server"].value or bool(launcher_log.value) or resolved["log_endpoint"].value
    if not is_wanted and max_nodes > 1:
        return _direct(resolved, plan)
    at = resolved["log_endpoint"].value or _beside(endpoint, resolved["log_server_port"].value, run_dir, prefix.value)
    return replace(plan, endpoint=at, serve_here=serve_here and not resolved["log_endpoint"].value), []


def _beside(endpoint: Endpoint | None, port: int, run_dir: Path, prefix: str) -> Endpoint:
    if endpoint is None or endpoint.is_unix:
        of_prefix = hashlib.sha256(prefix.encode()).hexdigest()[:10]
        return Endpoint(path=str(run_dir / f"logs-{of_prefix}.sock"))
    return replace(endpoint, port=port)


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


def _refuse_without_prefix(resolved: Resolved) -> None:
    for name in ("launcher_log", "enable_log_server", "log_endpoint", "strict_logs"):
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
