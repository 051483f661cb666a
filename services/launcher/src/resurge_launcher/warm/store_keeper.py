"""The launcher's side of a served c10d store: asks the fork server for one, and ends it.

Everything happens in the event loop; nothing here waits. Decides nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable

from resurge_launcher.processes import kernel
from resurge_launcher.warm import orders
from resurge_libs.obs import log

ANSWER_LIMIT_S = 3.0
BACKLOG = 4096
"""Every rank of the job may connect at once."""

OnStore = Callable[["StoreProcess"], None]


class StoreProcess:
    """One store: asked for, then up or of no use; `on_answer` runs once, `on_end` when it ends unasked after that."""

    def __init__(self, address: str, on_answer: OnStore, on_end: OnStore) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_answer: Callable[[StoreProcess], None] | None = on_answer
        self._on_end = on_end
        self.listening = listen(address)
        self.port: int = self.listening.getsockname()[1]
        self.gate, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid: int | None = None
        self.is_up = False
        self._pidfd: int | None = None
        self._timer = self._loop.call_later(ANSWER_LIMIT_S, self._answered, "no answer")
        self._loop.add_reader(self.gate, self._news)

    def asked(self) -> None:
        """The server has its descriptors now."""
        self.theirs.close()

    def known_pid(self) -> int | None:
        """Its process, also while the word of its birth waits to be read: the fork server's child says it before it
        leaves the store to the launcher, so that a store is known as soon as it is the launcher's child."""
        if self.pid is not None or self.gate.fileno() < 0:
            return self.pid
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            data = self.gate.recv(orders.MESSAGE_BYTES, flags)
            message = orders.decoded(data) if data else None
        except (OSError, ValueError):
            return None
        return message.pids[0] if isinstance(message, orders.Born) else None

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._on_answer, self.is_up = None, False
        self._close_channel()
        self._forget()

    def _news(self) -> None:
        try:
            flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            data, fds, _, _ = socket.recv_fds(self.gate, orders.MESSAGE_BYTES, 1, flags)
            message = orders.decoded(data) if data else orders.Refused("it has ended")
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            message, fds = orders.Refused(str(error)), []
        match message:
            case orders.Born((pid,)) if len(fds) == 1:
                self.pid, self._pidfd = pid, fds[0]
            case orders.Ack(_, ""):
                self._answered("")
            case orders.Ack(_, sentence) | orders.Refused(sentence):
                self._answered(sentence)
            case _:
                self._answered(f"unexpected {message}")

    def _answered(self, problem: str) -> None:
        self._close_channel()
        self.is_up = not problem and self._pidfd is not None
        if self.is_up:
            assert self._pidfd is not None
            self._loop.add_reader(self._pidfd, self._ended)
        else:
            log.event("store_not_served", sentence=problem)
            self._forget()
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(self)

    def _ended(self) -> None:
        log.event("store_ended", pid=self.pid, port=self.port)
        self.is_up = False
        if self._pidfd is not None:
            kernel.reap(self._pidfd)
        self.pid = None
        self._forget()
        self._on_end(self)

    def _close_channel(self) -> None:
        if self.gate.fileno() < 0:
            return  # closed already
        self._timer.cancel()
        self._loop.remove_reader(self.gate)
        self.gate.close()
        self.theirs.close()
        # the process holds the port from here on: a connection must not wait for one that is gone
        self.listening.close()

    def _forget(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            kernel.send(pidfd, signal.SIGKILL)
            os.close(pidfd)


def listen(address: str) -> socket.socket:
    """A listening socket on a port that the kernel chose, on all interfaces. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
