"""The ear of a worker: a thread that takes the launcher's orders while the main thread is blocked in native code.

Decides nothing but whose order it is: one of another generation is not obeyed. Begun by the first guard that is armed
under a launcher; without a launcher there is no thread. A line that breaks is opened again after a pause, but not where
a launcher hangs up on the greeting each time: it is older than orders. An order that is missed costs time, never more,
since limits and signals stand behind it. Effects: one daemon thread, one connection to the launcher's socket.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable

from resurge.environment import WorkerEnvironment, read_environment
from resurge.frames import Fired, Frame, FrameError, Hello, Listen, Speaker, encode
from resurge.orders import Order, OrderDecoder

NEWS_WORTH_S = 1.0
"""For so long after a guard fired its peers are released from the same phase: then they may be in a fresh group."""
READ_BYTES = 16 * 1024
PAUSES_S = (0.1, 0.5, 2.0, 10.0)
"""Before the line is opened again; the last one repeats."""
CONNECT_LIMIT_S = 5.0
HANGS_UP_S = 1.0
"""A line that was closed sooner was closed because of its greeting."""
HANG_UPS_MOST = 3
"""In a row."""
_log = logging.getLogger("resurge")


class _Life:
    """What one thread works with: a forked child, or whoever begins anew, has one of its own."""

    def __init__(self, told: WorkerEnvironment) -> None:
        self.told = told
        self.line: socket.socket | None = None
        self.is_over = False


class Ear:
    """Hears orders for this process. `begin` may be called often; it costs a look at one field."""

    def __init__(self, obey: Callable[[Order], object]) -> None:
        self._obey = obey
        self.begun = False
        self._lock = threading.RLock()
        self._life: _Life | None = None
        self._number = itertools.count(1)
        self.connected = threading.Event()
        """Set while the launcher can be heard."""

    def begin(self) -> None:
        """Listen from now on, where there is a launcher."""
        if self.begun:
            return
        with self._lock:
            if self.begun:
                return
            self.begun = True  # before anything is called: a signal's handler may come here too
            try:
                self._listen()
            except BaseException:  # of such a handler: the next guard begins anew
                self.begun = False
                raise

    def _listen(self) -> None:
        told = read_environment()
        if not told.socket:
            return
        self._life = _Life(told)
        try:
            threading.Thread(
                target=self._run, args=(self._life, self.connected), name="resurge-ear", daemon=True
            ).start()
        except RuntimeError as error:
            _log.warning("resurge: no thread hears the launcher's orders: %s", error)

    def tell_fired(self, phase: str) -> None:
        """Have the launcher release the peers of this rank from the phase. Never raises, never waits."""
        life = self._life
        line = life.line if life is not None else None
        if life is None or line is None or not phase:
            return
        number, at_ns = next(self._number), time.monotonic_ns()
        fired = Fired(_speaker(life.told), phase, number, int(NEWS_WORTH_S * 1000), at_ns)
        try:
            line.send(encode(fired), socket.MSG_DONTWAIT)
        except (OSError, FrameError) as error:
            _log.debug("resurge: the launcher was not told that %s passed its deadline: %s", phase, error)

    def forget(self) -> None:
        """In a forked child, where the line is the parent's and the thread did not come along: begin anew. A thread of
        this process ends at its next look."""
        life, self._life = self._life, None
        self._lock = threading.RLock()
        self.begun = False
        self.connected = threading.Event()
        if life is not None:
            life.is_over = True
            if life.line is not None:
                life.line.close()

    def _run(self, life: _Life, connected: threading.Event) -> None:
        hang_ups = 0
        for pause_s in itertools.chain(PAUSES_S, itertools.repeat(PAUSES_S[-1])):
            if life.is_over:
                return
            try:
                hang_ups = 0 if self._hear(life, connected) >= HANGS_UP_S else hang_ups + 1
            except (OSError, FrameError) as error:
                _log.debug("resurge: the launcher's orders are not heard: %s", error)
            connected.clear()
            life.line = None
            if hang_ups >= HANG_UPS_MOST:
                _log.info("resurge: the launcher gives no orders (is it older than this SDK?); limits hold as ever")
                return
            time.sleep(pause_s)

    def _hear(self, life: _Life, connected: threading.Event) -> float:
        """Until the launcher closes the line: how long that took, s. Raises OSError, FrameError."""
        told = life.told
        speaker, decoder = _speaker(told), OrderDecoder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(CONNECT_LIMIT_S)
            line.connect(told.socket)
            greeting: list[Frame] = [Hello(speaker), Listen(speaker)]
            line.sendall(b"".join(map(encode, greeting)))
            line.settimeout(None)
            life.line, since = line, time.monotonic()
            connected.set()
            while data := line.recv(READ_BYTES):
                for order in decoder.feed(data):
                    if order.generation == told.generation:
                        self._obey(order)
            return time.monotonic() - since


def _speaker(told: WorkerEnvironment) -> Speaker:
    return Speaker(os.getpid(), told.rank, told.generation, told.traceparent)
