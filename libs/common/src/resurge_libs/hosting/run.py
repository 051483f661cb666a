"""The life of one host process: claim, build, bind, start, say ready, wait for an ending, stop. Decides no job.

Exit codes: 0 ended as asked (a signal, or the job is over), 1 a service can no longer decide, 2 wrong input, with
nothing started. Whatever ends it, training goes on: launchers keep their workers and come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resurge_libs.config.settings import UsageProblem
from resurge_libs.hosting.listen import FIELD, check_free
from resurge_libs.hosting.module import Module, ModulePorts
from resurge_libs.hosting.own_log import keep_small
from resurge_libs.hosting.settings import HostPlan
from resurge_libs.hosting.state_dir import StateDir, claim
from resurge_libs.hosting.usage import UsageError
from resurge_libs.obs import log
from resurge_libs.obs.sinks import make_sinks
from resurge_libs.rpc.auth import TokenProblem, require_token
from resurge_libs.rpc.endpoint import Endpoint, EndpointProblem
from resurge_libs.rpc.server import add_health_and_reflection, listen, make_server

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

FAILED_LINGER_S = 1.0
"""A service that cannot decide answers Unready for so long, so that callers learn the reason, then the process ends."""
ENDED_LINGER_S = 2.0
"""After the last acknowledgement, for launchers that still read and for people who ask for the verdict."""
STOP_LIMIT_S = 5.0
SERVER_GRACE_S = 0.2
GC_THRESHOLDS = (50_000, 20, 50)
"""Objects made from one look at the youngest to the next, and how many of those to a look at the older ones."""
SPANS_NAME = "spans.jsonl"
WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Ending:
    """Why this process is to end, and with which code; the first reason stays. Belongs to one event loop."""

    def __init__(self, exit_when_ended: bool) -> None:
        self._exit_when_ended = exit_when_ended
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.code: int | None = None
        self.reason = ""

    def now(self, code: int, reason: str) -> None:
        """End at once."""
        if self.code is None:
            self.code, self.reason = code, reason
            self._event.set()

    def failed(self, sentence: str) -> None:
        """A service can no longer decide."""
        log.event("host_failed", sentence=sentence)
        self._exit_when_ended = False  # from here on no end of the job calls this off
        self._after(FAILED_LINGER_S, EXIT_FAILED, sentence)

    def ended(self, is_over: bool) -> None:
        """The job is over and every launcher knows; or it is not over after all, because a new attempt came."""
        if not self._exit_when_ended:
            return
        if is_over and self._timer is None:
            self._after(ENDED_LINGER_S, EXIT_OK, "the job is over")
        elif not is_over and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def follow(self, parent_pid: int) -> None:
        """End soon after the process that started this one: nobody else can need it."""
        pidfd = None
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(parent_pid)
        if pidfd is None or os.getppid() != parent_pid:  # it ended before, and its number may be another's by now
            self._abandoned()
            return
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(pidfd)
            self._abandoned()

        loop.add_reader(pidfd, gone)

    def _abandoned(self) -> None:
        self._exit_when_ended = False  # no news of the job calls this off
        self._after(ENDED_LINGER_S, EXIT_OK, "the launcher that started this control plane is gone")

    def _after(self, wait_s: float, code: int, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.now, code, reason)

    async def wait(self) -> int:
        """The exit code, once there is one."""
        await self._event.wait()
        assert self.code is not None
        return self.code


def run(prog: str, plan: HostPlan) -> int:
    """Serve until an ending; the process's exit code. Raises UsageProblem before anything is started."""
    log.configure(as_json=plan.host.log_json, colours=plan.colours)
    try:
        require_token(plan.listen, plan.token)
    except TokenProblem as error:
        raise UsageError(FIELD, str(error), "set RESURGE_JOB_TOKEN") from error
    check_free(plan.listen)
    claimed = claim(plan.host.state_dir) if plan.host.state_dir is not None else None
    try:
        _raise_open_file_limit()
        return asyncio.run(_serve(prog, plan, claimed))
    finally:
        if claimed is not None:
            claimed.release()


async def _serve(prog: str, plan: HostPlan, claimed: StateDir | None) -> int:
    ending = Ending(plan.host.exit_when_ended)
    if plan.host.exit_with:
        ending.follow(plan.host.exit_with)
    book = dict(plan.addresses)
    state_dir = plan.host.state_dir
    spans = make_sinks(None if state_dir is None else state_dir / SPANS_NAME, plan.otlp_endpoint)
    ports = ModulePorts(
        limits=plan.limits,
        state_dir=state_dir,
        token=plan.token,
        job_id=plan.host.job_id,
        endpoint_of=book.get,
        spans=spans,
        on_failed=ending.failed,
        on_ended=ending.ended,
    )
    server = make_server(plan.limits, plan.token, open_methods=_open_methods(plan))
    modules: list[Module] = []
    try:
        for target in plan.targets:
            modules.append(target.build(plan.services[target.name].settings, ports))
        for module in modules:
            module.add_to(server)
        names = [name for module in modules for name in module.service_names]
        health = await add_health_and_reflection(server, names)
        bound = _bind(server, plan)
        book.update({target.name: _reachable(bound) for target in plan.targets})
        for module in modules:
            await module.start()
        await server.start()
        _calm_collector()
        _watch_signals(ending)
        if state_dir is not None:
            keep_small(state_dir)
        _say_ready(prog, plan, bound, claimed)
        code = await ending.wait()
        log.event("host_stopping", exit_code=code, sentence=ending.reason)
        await health.enter_graceful_shutdown()
        return code
    finally:
        await _stop(server, modules, STOP_LIMIT_S + _longer_stop_s(plan))
        spans.close(plan.limits.export_limit_s)


def _bind(server: Any, plan: HostPlan) -> Endpoint:
    try:
        return listen(server, plan.listen, plan.token)
    except EndpointProblem as error:
        raise UsageError(FIELD, str(error), "give another address, or port 0 for a free one") from error


def _reachable(bound: Endpoint) -> Endpoint:
    """The bound address as this process itself can call it."""
    return replace(bound, host=WILDCARD_HOSTS.get(bound.host, bound.host)) if not bound.is_unix else bound


def _watch_signals(ending: Ending) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.now, EXIT_OK, signal.Signals(number).name)


def _say_ready(prog: str, plan: HostPlan, bound: Endpoint, claimed: StateDir | None) -> None:
    names = tuple(target.name for target in plan.targets)
    if claimed is not None:
        try:
            claimed.announce(bound.target, names)
        except OSError as error:  # a full disk: who knows the address is served all the same
            log.event("control_not_announced", error=error.strerror)
    # whoever started this process may wait for this one line; it may also have gone
    with contextlib.suppress(OSError):
        print(f"{prog} ready endpoint={bound.target} pid={os.getpid()} targets={','.join(names)}", flush=True)
    log.event("host_ready", endpoint=bound.target, pid=os.getpid(), targets=names)


def _longer_stop_s(plan: HostPlan) -> float:
    return max(target.longer_stop_s(plan.services[target.name].settings) for target in plan.targets)


def _open_methods(plan: HostPlan) -> tuple[str, ...]:
    return tuple(
        method for target in plan.targets for method in target.open_methods(plan.services[target.name].settings)
    )


async def _stop(server: Any, modules: Sequence[Module], limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            for module in reversed(modules):
                await module.stop()
            await server.stop(SERVER_GRACE_S)
    except TimeoutError:
        log.event("host_stop_cut_short", limit_s=limit_s)


def _raise_open_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _calm_collector() -> None:
    """States are frozen values without cycles: looking through ten thousand seats for some stops every stream."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def exit_with(prog: str, problem: UsageProblem) -> int:
    """Say what is wrong, on stderr, and give the exit code for it."""
    for line in str(problem).splitlines():
        print(f"{prog}: {line}", file=sys.stderr)
    return EXIT_USAGE
