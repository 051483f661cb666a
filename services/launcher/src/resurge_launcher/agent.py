"""One node's launcher put together: `run` holds the node, drives the machine, and returns the exit code.

Decides nothing: the machine does. Order of the start: lock of the node, subreaper, control plane where it is to be
started here, stream. Order of the end: last word on the stream, control plane, output, lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_launcher import environment, wire
from resurge_launcher.control_plan import control_endpoint, control_plan_of, control_socket
from resurge_launcher.control_plane import ControlPlane
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.goals import DownGoal
from resurge_launcher.core.notices import ENDING_SIGNALS
from resurge_launcher.core.observe import crew_of
from resurge_launcher.core.step import LauncherMachine
from resurge_launcher.driver import Driver
from resurge_launcher.early_control import EarlyControl
from resurge_launcher.effects import Effects, Hands
from resurge_launcher.faults import FaultTeller
from resurge_launcher.gpu_memory import GpuMemoryReader
from resurge_launcher.greeting import hello_of
from resurge_launcher.local_socket import LocalSocket
from resurge_launcher.logs.shipping import LogShipping
from resurge_launcher.marker import MarkerReader
from resurge_launcher.node_environment import marks
from resurge_launcher.node_lock import FILE_NAME as LOCK_NAME
from resurge_launcher.node_lock import NodeLock, NodeTaken
from resurge_launcher.output import Funnel, OwnLines
from resurge_launcher.pages import page_home, remove_pages, sweep_pages
from resurge_launcher.processes import kernel, promptness
from resurge_launcher.processes.py_spy import PySpy
from resurge_launcher.processes.strays import Strays
from resurge_launcher.settings import RunSettings
from resurge_launcher.signals import Signals
from resurge_launcher.start_files import StartFiles
from resurge_launcher.store_offer import StorePort, own_address
from resurge_launcher.stream import ControlStream, Where
from resurge_launcher.team import Shop
from resurge_launcher.terminal import Terminal
from resurge_launcher.usage import CommandFailed, UsageProblem, unreachable
from resurge_launcher.warm.client import WarmStart
from resurge_launcher.workload import ControlCourier
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ids import Attempt
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import EXIT_FAILED, EXIT_USAGE
from resurge_libs.obs import log

OUTPUT_LIMIT_S = 1.0
SOCKET_NAME = "workers.sock"
REAP_PAUSE_S = 0.1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def run(settings: RunSettings, warm: WarmStart | None = None, early: EarlyControl | None = None) -> int:
    """Run this node's share of the job to its end; the exit code, as the reference lists them.

    `early`: a control plane of this run that was begun before; the caller ends it where it was not wanted.
    Raises UsageProblem or CommandFailed, with exit code 2, where nothing could be started.
    """
    try:
        return _run(settings, warm, early)
    finally:
        if warm is not None:
            warm.close()


def _run(settings: RunSettings, warm: WarmStart | None, early: EarlyControl | None) -> int:
    log.bind(job=settings.job_id, node=settings.node_id)
    try:
        for directory in (settings.run_dir.parent, settings.run_dir):  # the mode holds for the last part of a path only
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if settings.run_dir.stat().st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "belongs to another user")
        limit_s = settings.term_timeout_s if settings.take_over else None
        lock = NodeLock.take(settings.run_dir, settings.node_id, limit_s)
    except NodeTaken as taken:
        log.event("already_attached", sentence=str(taken))
        raise CommandFailed(str(taken), EXIT_USAGE) from None
    except OSError as error:
        right = "Name a short directory that you may write, for example --run-dir /tmp/run1."
        raise UsageProblem("--run-dir", f"{settings.run_dir} cannot be used: {error.strerror}", right) from None
    try:
        kernel.become_subreaper()
        promptness.wake_soon()
        return asyncio.run(_Agent(settings, lock, warm, early).run())
    finally:
        if settings.is_id_made_up:  # nobody comes back to it, not for the memory in the lock's file either
            _remove_own_files(settings)
        lock.release()


def _remove_own_files(settings: RunSettings) -> None:
    """Nothing else: the user may have named any directory."""
    run_dir = settings.run_dir
    with contextlib.suppress(OSError):
        for name in (SOCKET_NAME, control_socket(settings).name, LOCK_NAME):
            (run_dir / name).unlink(missing_ok=True)
        run_dir.rmdir()


def _rules(settings: RunSettings, reads_marker: bool, warms: bool) -> m.Rules:
    return m.Rules(
        limits=settings.limits,
        local_world_size=settings.nproc_per_node,
        term_timeout_s=settings.term_timeout_s,
        on_lost_control=m.OnLostControl(settings.on_lost_control.value),
        on_excluded=m.OnExcluded(settings.excluding.then.value),
        pass_on_signals=frozenset(int(number) for number in settings.signals_to_handle) - ENDING_SIGNALS,
        progress=settings.progress.source,
        reads_marker=reads_marker,
        reclaim=settings.reclaim,
        drain_signals=frozenset(int(number) for number in settings.draining.signals),
        preempted_exit_code=settings.draining.exit_code,
        captures=settings.capture_stacks,
        replaces=warms,
    )


async def _sweep_old_pages() -> None:
    if removed := await asyncio.to_thread(sweep_pages):
        log.event("old_pages_removed", directories=removed)


class _Agent:
    """The parts of one launcher and their wiring."""

    def __init__(
        self, settings: RunSettings, lock: NodeLock, warm: WarmStart | None, early: EarlyControl | None
    ) -> None:
        self._settings = settings
        self._lock = lock
        self._warm = warm
        self._early = early
        self._times = wire.Times(time.time_ns() - time.monotonic_ns())
        self._endpoint = control_endpoint(settings)
        self._address = ""
        self._left: asyncio.Future[h.ExitWith] | None = None
        self._crash: BaseException | None = None
        self._effects: Effects | None = None  # a fault may come before it is there
        self._spy = PySpy()
        self._colours = log.wants_colours(settings.environ)
        self._children_before = set(kernel.children_of(os.getpid())) - ({early.pid} if early is not None else set())

    async def run(self) -> int:
        """From start to exit code."""
        loop = asyncio.get_running_loop()
        self._left = loop.create_future()
        loop.set_exception_handler(self._crashed)
        try:
            self._address = await asyncio.to_thread(self._own_address)
        except OSError as error:
            right = "Correct the host, or say with --local-addr under which address other nodes reach this one."
            problem = f"no way to {self._endpoint} from here: {error.strerror or error}"
            raise UsageProblem("--rdzv-endpoint", problem, right) from None
        if self._warm is not None:
            self._warm.attach(loop)
        self._store = StorePort(self._address, self._warm)
        self._funnel = Funnel(Terminal())
        self._logs = self._log_shipping()
        copy = self._logs.own_log() if self._logs is not None else None
        log.configure(stream=cast(TextIO, OwnLines(self._funnel, copy)), colours=self._colours)
        self._stream = ControlStream(self._where(), self._times, self._hello, self._post)
        self._control = self._control_plane()
        self._strays = Strays(loop, marks(self._settings.job_id, self._settings.node_id), self._exempt)
        job, node = self._settings.job_id, self._settings.node_id
        self._courier = ControlCourier(self._where(), self._times, job, node, self._attempt)
        self._socket = LocalSocket(
            self._settings.run_dir / SOCKET_NAME, self._read_pages, self._courier.carry, self._worker_says
        )
        self._marker = self._marker_reader()
        environ = self._settings.environ
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        self._gpus = GpuMemoryReader(sys.executable, visible, environ) if self._settings.reclaim else None
        await self._socket.start()
        self._effects = Effects(self._hands())
        rules = _rules(self._settings, self._marker is not None, self._warm is not None)
        self._driver = Driver(LauncherMachine(rules), self._effects.run)
        self._handle_signals(loop)
        return await self._live()

    async def _live(self) -> int:
        assert self._left is not None
        self._driver.begin()
        sweeping = asyncio.create_task(_sweep_old_pages())
        tasks = [self._stream.start()]
        if self._logs is not None:
            self._logs.start()
        if self._control is not None:
            tasks.append(self._control.start())
        for task in tasks:
            task.add_done_callback(self._task_ended)
        end = await self._left
        code, because = end.code, end.because
        log.event("launcher_exits", exit_code=code, cause=end.cause, reason=because.code, sentence=because.sentence)
        await self._stream.stop()
        if self._control is not None:
            await self._control.stop(end_it=self._ends_control(because))
        await self._courier.stop()
        await self._socket.stop()
        assert self._effects is not None, "made before anything can end"
        await self._effects.close()
        if self._logs is not None:
            await self._logs.stop()
        sweeping.cancel()
        self._pages.let_go()
        remove_pages(self._settings.run_dir)
        await asyncio.to_thread(self._funnel.close, OUTPUT_LIMIT_S)
        log.configure(colours=self._colours)
        self._signals.ignore()
        if code == EXIT_USAGE:  # the last line for people says what would be right
            raise self._refusal(because)
        return code

    def _refusal(self, because: Because) -> Exception:
        if because.code == Reason.CONTROL_UNREACHABLE and self._control is None:
            return unreachable(str(self._endpoint), tuple(self._stream.failed_tries))
        return CommandFailed(because.sentence, EXIT_USAGE)

    # ---------------------------------------------------------------------------------------------------- parts

    def _hands(self) -> Hands:
        settings = self._settings
        facts = environment.NodeFacts(
            job_id=settings.job_id,
            node_id=settings.node_id,
            incarnation=self._lock.memory.incarnation,
            local_world_size=settings.nproc_per_node,
            role=settings.role,
            socket_path=str(self._socket.path),
            beat_limit_s=settings.rank_heartbeat_limit_s or 0.0,
            fence_wait_s=settings.limits.fence_wait_s,
            limits=settings.worker_limits,
            signals_to_handle=",".join(number.name for number in settings.signals_to_handle),
            launcher=kernel.process_name(os.getpid()),
        )
        self._pages = page_home(settings.run_dir)
        shop = Shop(settings, facts, self._pages.path, self._funnel, settings.run_dir, self._logs, self._spy)
        return Hands(
            shop=shop,
            files=StartFiles(settings.cycle_info_dir, settings.log_root, settings.job_id, settings.nproc_per_node),
            strays=self._strays,
            store=self._store,
            teller=FaultTeller(self._funnel, self._logs),
            upward=self._stream,
            post=self._post,
            now=Driver.now,
            leave=self._leave,
            order=self._socket.order,
            warm=self._warm,
            marker=self._marker,
            gpus=self._gpus,
        )

    def _log_shipping(self) -> LogShipping | None:
        plan = self._settings.logs
        return None if plan is None else LogShipping(self._settings, plan, self._lock.memory.incarnation)

    def _marker_reader(self) -> MarkerReader | None:
        settings = self._settings
        if settings.checkpoint_marker is None or not settings.progress.is_tracked:
            return None
        limit_s = settings.limits.marker_read_limit_s
        reader = MarkerReader(settings.checkpoint_marker, limit_s, sys.executable, settings.environ)
        reader.start()
        return reader

    def _where(self) -> Where:
        settings = self._settings
        return Where(self._endpoint, settings.limits, settings.job_token or None, settings.max_nodes, settings.relays)

    def _own_address(self) -> str:
        several = self._settings.max_nodes > 1
        host = self._endpoint.host if several and not self._endpoint.is_loopback else ""
        return own_address(self._settings.local_addr, host, self._endpoint.port)

    def _control_plane(self) -> ControlPlane | None:
        plan, early = control_plan_of(self._settings), self._early
        if plan is None:
            return None
        return ControlPlane(plan, self._stream.hurry, self._control_useless, early)

    def _control_useless(self, last_words: str) -> None:
        because = Because(Reason.CONTROL_UNREACHABLE, f"the control plane cannot be started: {last_words}")
        self._post(h.Refused(h.Refusal.NOT_WELCOME, because))

    def _ends_control(self, because: Because) -> bool:
        """An embedded control plane of a job that was not decided has nobody left to serve."""
        return self._settings.endpoint is None and because.code in (Reason.SIGNAL_RECEIVED, Reason.CONTROL_UNREACHABLE)

    def _exempt(self) -> set[int]:
        """Children that are no workers: those of before, as a shell's `exec` leaves them, and our servers."""
        pids = self._children_before | (self._control.pids if self._control is not None else set())
        for reader in (self._marker, self._gpus, self._logs):
            pids |= reader.pids if reader is not None else set()
        return pids | self._spy.pids | self._store.pids | (self._warm.pids if self._warm is not None else set())

    # -------------------------------------------------------------------------------------------------- greeting

    def _hello(self) -> attach_pb2.Hello:
        return hello_of(self._settings, self._lock.memory, self._driver.state, self._address)

    # ---------------------------------------------------------------------------------------------------- events

    def _post(self, event: h.Event) -> None:
        if isinstance(event, h.DesiredReceived) and isinstance(event.goal, DownGoal):
            self._read_pages(event.goal.generation)  # some worker may have begun to save a moment ago
        if isinstance(event, h.SignalReceived) and (crew := crew_of(self._driver.state.phase)) is not None:
            self._read_pages(crew.generation)  # or have asked for the first time whether it should stop
        self._driver.post(event)
        state, memory = self._driver.state, self._lock.memory
        if state.highest_generation > memory.highest_generation or state.highest_attempt > memory.highest_attempt:
            generation, attempt = int(state.highest_generation), int(state.highest_attempt)
            self._lock.remember(replace(memory, highest_generation=generation, highest_attempt=attempt))

    def _attempt(self) -> Attempt:
        return self._driver.state.highest_attempt

    def _read_pages(self, generation: int) -> None:
        if self._effects is not None:  # a worker that an earlier launcher left behind may speak first
            self._effects.read_pages(generation)

    def _worker_says(self, event: h.Event) -> None:
        if self._effects is not None:
            self._post(event)

    def _leave(self, end: h.ExitWith) -> None:
        assert self._left is not None
        if not self._left.done():
            self._left.set_result(end)

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        self._signals = Signals(self._settings.handled_signals, partial(self._signalled, loop))
        self._signals.hear()
        loop.add_signal_handler(signal.SIGCHLD, loop.call_later, REAP_PAUSE_S, self._strays.reap_orphans)

    def _signalled(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._post, h.SignalReceived(number))

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    def _crashed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self._fail(error)
        else:
            log.event("loop_complaint", sentence=str(context.get("message")))

    def _fail(self, error: BaseException | None) -> None:
        """A fault of this program: no worker may outlive it, and nobody may wait for it."""
        if self._crash is not None:
            return
        self._crash = error
        if self._effects is not None:
            self._effects.kill_all()
        trace = "".join(traceback.format_exception(error))
        log.event("launcher_failed", error=f"{type(error).__name__}: {error}", trace=trace)
        because = Because(Reason.LAUNCHER_FAILED, f"a fault of the launcher itself: {error}")
        self._leave(h.ExitWith(EXIT_FAILED, because, EndCause.LAUNCHER_FAILED))
