"""The log server and its leaves as processes that the launcher on the endpoint's host keeps alive. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_launcher.control_plan import HOST, ControlPlan
from resurge_launcher.control_plane import ControlPlane
from resurge_launcher.settings import LogPlan, RunSettings
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.hosting.own_log import LOG_NAME
from resurge_libs.obs import log
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.context import call_metadata

SERVER_LIMIT_S = 60.0
"""So long at least a log server waits for the last senders, with its launcher or without it."""
STATE_NAME = "log-server"
LEAF_STATE_NAME = "log-leaf-{}"


@dataclass(frozen=True, slots=True)
class LogServerPlan(ControlPlan):
    """The log server, kept alive as a control plane is."""

    gives_way: bool = False
    logs: LogPlan | None = None

    @property
    def argv(self) -> list[str]:
        """The host program with its arguments."""
        assert self.logs is not None, "made with its plan"
        words = [*_host_words(self, "log_aggregator"), "--applog-prefix", str(self.logs.prefix)]
        words += ["--sync", self.logs.sync, "--stop-limit-s", repr(_stop_limit_s(self.logs))]
        if self.logs.launcher_log is not None:
            words += ["--launcher-log", str(self.logs.launcher_log)]
        return words

    @property
    def log_path(self) -> Path:
        """The file that was asked for, else in its state directory."""
        return _log_path(self, "root")


@dataclass(frozen=True, slots=True)
class LogLeafPlan(ControlPlan):
    """One leaf."""

    gives_way: bool = False
    logs: LogPlan | None = None
    number: int = 0

    @property
    def argv(self) -> list[str]:
        """The host program with its arguments."""
        assert self.logs is not None and self.logs.endpoint is not None, "made with its plan"
        words = [*_host_words(self, "log_leaf"), "--log-root", self.logs.endpoint.target]
        words += ["--leaf-queue-blocks", str(self.logs.leaf_queue_blocks)]
        return [*words, "--leaf-stop-limit-s", repr(_stop_limit_s(self.logs))]

    @property
    def log_path(self) -> Path:
        """The file that was asked for, else in its state directory."""
        return _log_path(self, f"leaf_{self.number}")


def _host_words(plan: ControlPlan, target: str) -> list[str]:
    words = [sys.executable, "-P", "-m", HOST, "--targets", target, "--listen", plan.listen.target]
    words += ["--state-dir", str(plan.state_dir), "--job-id", plan.job_id]
    return words + (["--ft-cfg-path", str(plan.config_path)] if plan.config_path is not None else [])


def _log_path(plan: LogServerPlan | LogLeafPlan, role: str) -> Path:
    prefix = plan.logs.servers_log_prefix if plan.logs is not None else None
    return plan.state_dir / LOG_NAME if prefix is None else prefix.with_name(f"{prefix.name}_{role}.log")


def _stop_limit_s(plan: LogPlan) -> float:
    return max(SERVER_LIMIT_S, plan.stop_limit_s)


class LogServers:
    """The root and the leaves of one job; none where this launcher starts none."""

    def __init__(self, settings: RunSettings, plan: LogPlan) -> None:
        self._settings, self._plan = settings, plan
        self._root: ControlPlane | None = None
        self._leaves: list[ControlPlane] = []
        if plan.endpoint is None or not plan.serve_here:
            return
        job, environ, config = settings.job_id, settings.control_environ, settings.config_path
        state_dir = settings.state_dir.absolute()
        root = LogServerPlan(job, plan.endpoint, state_dir / STATE_NAME, environ, config, logs=plan)
        self._root = ControlPlane(root, lambda: None, self._useless)
        for number, listen in enumerate(plan.leaves):
            of_leaf = state_dir / LEAF_STATE_NAME.format(number)
            leaf = LogLeafPlan(job, listen, of_leaf, environ, config, logs=plan, number=number)
            self._leaves.append(ControlPlane(leaf, lambda: None, self._useless))

    @property
    def pids(self) -> set[int]:
        """Those that are children of this launcher."""
        all_of_them = [*self._leaves, *([self._root] if self._root is not None else [])]
        return {pid for one in all_of_them for pid in one.pids}

    def start(self) -> None:
        """The root first: a leaf without it turns nodes away."""
        if self._root is not None:
            self._root.start()
        for leaf in self._leaves:
            leaf.start()

    async def stop(self, limit_s: float, waits: bool = True) -> bool:
        """Leaves first, which pass on what nodes still have; whether the root has ended within the limit.

        Before that every rank's end is waited for: another node's sender may be on its way here, or between two
        streams, and who is not connected when servers are told to end finds nobody any more. Without `waits` some
        rank's end is known not to come.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + limit_s
        if self._root is not None and waits and limit_s > 0:
            with contextlib.suppress(grpc.RpcError):
                await self._all_ends(limit_s)
        left_s = max(0.0, give_up_at - loop.time())
        leaves = [leaf.stop(end_it=True, limit_s=left_s) for leaf in self._leaves]
        await asyncio.gather(*leaves)
        if self._root is None:
            return False
        return await self._root.stop(end_it=True, limit_s=max(0.0, give_up_at - loop.time()))

    async def _all_ends(self, limit_s: float) -> None:
        """Wait until the last cycle's file is complete, where there is one. Raises RpcError, also past the limit."""
        assert self._plan.endpoint is not None, "a root has a place"
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + limit_s
        token = self._settings.job_token
        async with open_channel(self._plan.endpoint, TimeLimits(), token) as channel:
            stub: Any = logs_pb2_grpc.LogAggregatorServiceStub(channel)
            for until_sealed in (False, True):  # without any file nothing was printed, and nothing is waited for
                request = logs_pb2.GetLogRequest(kind=logs_pb2.LOG_KIND_APPLICATION, wait=until_sealed)
                left_s = max(0.0, give_up_at - loop.time())
                found = await stub.GetLog(request, timeout=left_s, metadata=call_metadata(token), wait_for_ready=True)
                if found.log.sealed:
                    return

    def _useless(self, last_words: str) -> None:
        log.event("log_server_useless", sentence=f"the log server cannot be started: {last_words}")
