"""The launcher's side of warm start: keeps a fork server, and starts workers from it while it is fit for that.

The server is started before anything else of the launcher, so that its imports and the launcher's own overlap. One that
dies is started again in the background with a growing pause; one that says that its process must not be forked is not.
While there is none, and whenever an order is not carried out as it should be, `start` raises NotWarm and the caller
starts the workers by exec. Call everything from the main thread: a parent-death signal belongs to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from resurge_launcher.processes import kernel
from resurge_launcher.processes.worker import Command, WorkerProcess
from resurge_launcher.warm import fork_server, orders
from resurge_launcher.warm.fork_server import ForkServer, Plan
from resurge_launcher.warm.inherited import order_for
from resurge_launcher.warm.store_keeper import StoreProcess
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log

WARM_UP_LIMIT_S = 20.0
"""A start waits so long at most for imports that its workers would have to make themselves."""
ORDER_LIMIT_S = 3.0
"""An order that is not carried out by then is given up, sooner with a short lease: the launcher stands still."""
BESIDE_LIMIT_S = 1.5
"""The same while workers run, which a lost lease would cost."""
REPLACED_LIMIT_S = 0.25
"""So long the launcher stands still for the end of a server whose place another takes."""
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
FAILURES_LIMIT = 5
"""Starts in a row that never became ready, after which no more are tried."""
SAID_BYTES = 64 * 1024
USUAL_LIMITS = TimeLimits()


class NotWarm(Exception):
    """No worker was started; exec must do it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.because = Because(Reason.STARTED_COLD, sentence)


def order_limit_s(limits: TimeLimits, beside: bool) -> float:
    """How long the launcher may stand still for an order: a beat that falls due just then must not cost the lease.

    While workers run half of what the lease leaves stays for what else may be late.
    """
    left_s = limits.lease_ttl_s - limits.beat_interval_s
    return min(BESIDE_LIMIT_S, left_s / 2) if beside else min(ORDER_LIMIT_S, left_s)


class WarmStart:
    """Keeps one fork server; `begin` at once, `attach` when there is an event loop."""

    def __init__(self, plan: Plan, begun: ForkServer | None = None, limits: TimeLimits = USUAL_LIMITS) -> None:
        """With `begun` a server of this plan is kept that was started before."""
        self._plan = plan
        self._limits = limits
        self._server = begun
        self._loop: asyncio.AbstractEventLoop | None = None
        self._absent = "the fork server has not finished its imports" if begun else "the fork server was not started"
        self._failures = 0
        self._waiting: list[Callable[[], None]] = []
        self._on_ready: list[Callable[[], None]] = []
        self._patience: asyncio.TimerHandle | None = None
        self._next_start: asyncio.TimerHandle | None = None
        self._closed = False
        self._dying: list[subprocess.Popen[bytes]] = []
        """Servers that were killed, and that the kernel has not ended yet."""

    @property
    def pids(self) -> set[int]:
        """The server's process, and those that were killed and are not gone; no strays."""
        self._dying = [popen for popen in self._dying if popen.poll() is None]
        dying = {popen.pid for popen in self._dying}
        return dying if self._server is None else dying | {self._server.popen.pid}

    @property
    def is_warming(self) -> bool:
        """Whether a server imports, and is worth waiting for."""
        server = self._server
        return server is not None and not server.is_ready and time.monotonic() < server.began_at + WARM_UP_LIMIT_S

    def begin(self) -> None:
        """Start a server; one that cannot be started is only absent."""
        try:
            self._server = fork_server.start(self._plan)
        except OSError as error:
            self._absent = f"the fork server could not be started: {error}"
            return
        self._absent = "the fork server has not finished its imports"
        self._watch()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on news are taken in by this loop."""
        self._loop = loop
        self._watch()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call back once no server is warming up: at once, or from the loop when it is ready, gone or too slow."""
        if not self.is_warming or self._loop is None or self._server is None:
            then()
            return
        self._waiting.append(then)
        due_in_s = self._server.began_at + WARM_UP_LIMIT_S - time.monotonic()
        if self._patience is None:
            self._patience = self._loop.call_later(max(0.0, due_in_s), self._settle)

    def whenever_ready(self, then: Callable[[], None]) -> None:
        """Call back from the loop each time that a server has become ready."""
        self._on_ready.append(then)

    def start(self, commands: Sequence[Command], beside: bool = False) -> list[WorkerProcess]:
        """Fork one worker per command, all or none; `beside` others that run. Raises NotWarm, in time for the lease."""
        self._take_news()
        server = self._server
        if server is None or not server.is_ready:
            raise NotWarm(self._absent)
        limit_s = order_limit_s(self._limits, beside)
        give_up_at = time.monotonic() + limit_s
        gate, workers_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pidfds: list[int] = []
        try:
            with workers_end:
                pids = self._order(server, commands, workers_end, pidfds, give_up_at)
            _acknowledged(gate, dict(zip(pids, pidfds, strict=True)), give_up_at)
            for _ in pids:
                gate.send(orders.GO)
        except (OSError, ValueError) as error:
            # closing the gate ends those who wait at it; none has run an instruction of the program
            for pidfd in pidfds:
                kernel.send(pidfd, signal.SIGKILL)
                os.close(pidfd)
            if not isinstance(error, Disobeyed):
                kernel.send(server.pidfd, signal.SIGKILL)
            why = f"no answer within {limit_s:g} s" if isinstance(error, TimeoutError) else error
            raise NotWarm(f"the fork server did not start them: {why}") from error
        finally:
            gate.close()
        return [WorkerProcess.adopt(pid, pidfd) for pid, pidfd in zip(pids, pidfds, strict=True)]

    def ask_for_store(self, store: StoreProcess) -> bool:
        """Ask for a store; False when there is no server that could be asked."""
        self._take_news()
        server = self._server
        if server is None or not server.is_ready:
            return False
        try:
            socket.send_fds(server.control, [orders.STORE], [store.theirs.fileno(), store.listening.fileno()])
        except OSError:
            return False
        store.asked()
        return True

    def close(self) -> None:
        """End the server; workers are not touched."""
        self._closed = True
        for timer in (self._patience, self._next_start):
            if timer is not None:
                timer.cancel()
        server = self._server
        if server is not None:
            self._forget()
            self._end(server, fork_server.END_LIMIT_S)
        for popen in self._dying:
            if popen.poll() is None:
                popen.returncode = 0  # it stays behind: Popen must not warn of it

    # ------------------------------------------------------------------------------------------------- an order

    def _order(
        self,
        server: ForkServer,
        commands: Sequence[Command],
        workers_end: socket.socket,
        pidfds: list[int],
        give_up_at: float,
    ) -> list[int]:
        pids: list[int] = []
        per_message = (orders.FDS_PER_MESSAGE - 3) // 2
        for at in range(0, len(commands), per_message):
            some = commands[at : at + per_message]
            _send_order(server.control, some, workers_end)
            message, fds = _receive(server.control, give_up_at)
            pidfds += fds
            if not isinstance(message, orders.Born):
                raise Disobeyed(getattr(message, "sentence", str(message)))
            pids += message.pids
        return pids

    # --------------------------------------------------------------------------------------------------- news

    def _watch(self) -> None:
        if self._loop is not None and self._server is not None:
            self._loop.add_reader(self._server.pidfd, self._ended)
            self._loop.add_reader(self._server.control, self._take_news)
            self._loop.add_reader(self._server.said, self._take_said)
            self._take_news()

    def _take_news(self) -> None:
        """What the server says by itself: that it is ready, or unfit."""
        server = self._server
        if server is None:
            return
        try:
            data = server.control.recv(orders.MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        message = orders.decoded(data) if data else None
        match message:
            case orders.Ready(modules):
                server.is_ready, self._failures = True, 0
                after_s = round(time.monotonic() - server.began_at, 3)
                names = [module.name for module in modules if not module.error]
                log.event("fork_server_ready", pid=server.popen.pid, after_s=after_s, modules=names)
                for module in modules:
                    if module.error:
                        log.event("preload_failed", module=module.name, sentence=module.error)
                self._settle()
                if self._loop is not None:
                    for then in self._on_ready:
                        self._loop.call_soon(then)
            case orders.Unfit(sentence):
                self._absent, self._failures = f"the fork server must not be forked: {sentence}", FAILURES_LIMIT
                log.event("fork_server_unfit", reason=Reason.STARTED_COLD, sentence=sentence)
                self._ended()
            case _:
                self._ended()

    def _take_said(self) -> None:
        """What modules print while they are imported is shown once, not once per worker."""
        if self._server is None:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._server.said, SAID_BYTES)
            for line in data.decode(errors="replace").splitlines():
                log.event("fork_server_said", text=line)
            if not data and self._loop is not None:
                self._loop.remove_reader(self._server.said)

    def _ended(self) -> None:
        """The server is gone or leaves: reap it, and start another in the background where that can help."""
        server = self._server
        if server is None:
            return
        self._take_said()
        self._forget()
        code = self._end(server, REPLACED_LIMIT_S)
        if self._failures < FAILURES_LIMIT:
            self._failures += 1
            self._absent = f"the fork server has ended ({'killed' if code is None else code})"
            log.event("fork_server_ended", pid=server.popen.pid, exit_code=code, was_ready=server.is_ready)
            if self._failures < FAILURES_LIMIT and self._loop is not None and not self._closed:
                pause_s = min(BACKOFF_FIRST_S * 2 ** (self._failures - 1), BACKOFF_MAX_S)
                self._next_start = self._loop.call_later(pause_s, self.begin)
        self._settle()

    def _end(self, server: ForkServer, limit_s: float) -> int | None:
        code = server.end(limit_s)
        if code is None:
            self._dying.append(server.popen)
            sentence = (
                f"the fork server was killed and still lives {limit_s:g} s on: a file system or a device holds it. "
                "Nothing waits for it, and it ends when that answers."
            )
            log.event("fork_server_left", pid=server.popen.pid, sentence=sentence)
        return code

    def _forget(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        if self._loop is not None:
            for descriptor in (server.pidfd, server.control.fileno(), server.said):
                self._loop.remove_reader(descriptor)
        server.let_go()

    def _settle(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class Disobeyed(OSError):
    """The server is well and says why an order was not carried out."""


def _send_order(control: socket.socket, commands: Sequence[Command], workers_end: socket.socket) -> None:
    order = order_for([command.env for command in commands])
    memory_file = order.to_memory_file()
    cwd = os.open(commands[0].cwd or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    streams = [fd for command in commands for fd in (command.stdout, command.stderr)]
    try:
        socket.send_fds(control, [orders.WORKERS], [memory_file, workers_end.fileno(), cwd, *streams])
    finally:
        os.close(memory_file)
        os.close(cwd)


def _receive(channel: socket.socket, give_up_at: float) -> tuple[orders.Message, list[int]]:
    """The next message with its descriptors. Raises OSError at the end of the channel or of the time."""
    _readable(give_up_at, channel.fileno())
    flags = socket.MSG_CMSG_CLOEXEC
    data, fds, _, _ = socket.recv_fds(channel, orders.MESSAGE_BYTES, orders.FDS_PER_MESSAGE, flags)
    if not data:
        raise ConnectionResetError("it has ended")
    return orders.decoded(data), fds


def _readable(give_up_at: float, *descriptors: int) -> set[int]:
    """Those that can be read, at least one. Raises TimeoutError."""
    left_s = give_up_at - time.monotonic()
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    found = poll.poll(max(0.0, left_s) * 1000)
    if not found:
        raise TimeoutError("no answer in time")
    return {descriptor for descriptor, _ in found}


def _acknowledged(gate: socket.socket, missing: dict[int, int], give_up_at: float) -> None:
    """Wait until every worker (pid to pidfd) has said that it is as it should be. Raises OSError."""
    while missing:
        if gate.fileno() not in _readable(give_up_at, gate.fileno(), *missing.values()):
            raise Disobeyed("a worker ended before it began")
        message, _ = _receive(gate, give_up_at)
        if not isinstance(message, orders.Ack):
            raise ValueError(f"unexpected {message}")
        if message.sentence:
            raise Disobeyed(message.sentence)
        missing.pop(message.pid, None)
