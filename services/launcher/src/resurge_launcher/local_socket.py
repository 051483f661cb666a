"""The Unix socket through which workers on this node wake the launcher, and are ordered by it.

Takes frames, answers those that ask, sends orders to those that listen. What a milestone says stands on the worker's
page as well: its frame only makes the launcher look now instead of at the next turn. What a worker asks for is carried
on and answered on the same connection. A peer that sends something else is cut off. Mode 0600: only this user's
processes get in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from resurge.frames import (
    TEXT_LIMIT,
    Control,
    ControlAnswer,
    Crashed,
    Event,
    Fired,
    FrameDecoder,
    FrameError,
    Hello,
    Listen,
    Milestone,
    Mustered,
    Over,
    Spared,
)
from resurge.muster import Answer
from resurge.orders import Order
from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.muster_state import MusterHeard, MusterTell
from resurge_launcher.core.worker_news import CrashSpared, GuardFired, LoopCrashed, OrderAbort, ScriptOver
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.obs import log

READ_BYTES = 16 * 1024
CONNECTIONS_LIMIT = 4096
NEWS_WORTH_MOST_S = 60.0
KILL_IN_MOST_S = 86_400.0
News = Fired | Crashed | Spared | Over | Mustered
WorkerNews = GuardFired | LoopCrashed | CrashSpared | ScriptOver | MusterHeard
ORDERS_LIMIT_BYTES = 256 * 1024
"""A listener with so much unread is cut off: it is stopped, or no SDK of ours."""


class LocalSocket:
    """Listens for this node's workers. `on_news(generation)` is called when one has something to say; `carry` takes
    what one asks for to who decides it; `tell` takes what is an event of its own."""

    def __init__(
        self,
        path: Path,
        on_news: Callable[[int], None],
        carry: Callable[[Control], Awaitable[ControlAnswer]],
        tell: Callable[[WorkerNews], None] = lambda _: None,
    ) -> None:
        self.path = path
        self._on_news = on_news
        self._carry = carry
        self._tell = tell
        self._listeners: dict[asyncio.StreamWriter, int] = {}
        """With the generation of each."""
        self._mustered: dict[asyncio.StreamWriter, int] = {}
        """Of ranks that restart in place, the same."""
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, str(self.path), backlog=CONNECTIONS_LIMIT)
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_LIMIT:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # whatever one worker said costs its own connection, never the launcher and the other workers
            log.event("worker_connection_failed", error=f"{type(error).__name__}: {error}")

    def order(self, order: OrderAbort | MusterTell) -> None:
        """Have all listeners of a generation abort, or tell those that restart in place; never waits for one."""
        if isinstance(order, MusterTell):
            sentence, is_anew = order.sentence[:TEXT_LIMIT], order.is_anew
            answer = Answer(order.kind, order.iteration, sentence, order.members, order.number, is_anew)
            told = _written(self._mustered, order.generation, answer.encoded())
            log.event("mustered", generation=order.generation, what=order.kind, iteration=order.iteration, told=told)
            return
        told = _written(self._listeners, order.generation, _order_of(order).encoded())
        if told:
            log.event("abort_ordered", generation=order.generation, listeners=told, sentence=order.sentence)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        try:
            while data := await reader.read(READ_BYTES):
                for frame in decoder.feed(data):
                    if isinstance(frame, Control):
                        writer.write((await self._carry(frame)).encoded())
                        await writer.drain()
                    elif isinstance(frame, Listen):
                        self._listeners[writer] = frame.speaker.generation
                    else:
                        if isinstance(frame, Mustered):
                            self._mustered[writer] = frame.speaker.generation
                        self._take(frame)
        except FrameError as error:
            log.event("frame_refused", sentence=str(error))
        except ConnectionError:
            pass
        finally:
            self._listeners.pop(writer, None)
            self._mustered.pop(writer, None)
            writer.close()

    def _take(self, frame: Hello | Milestone | Event | News) -> None:
        match frame:
            case Fired() | Crashed() | Spared() | Over() | Mustered():
                self._tell(_event_of(frame))
            case Hello() | Milestone():
                self._on_news(frame.speaker.generation)
            case Event():
                log.event("worker_event", name=frame.name, rank=frame.speaker.rank, **_plain(frame.fields))


def _written(writers: Mapping[asyncio.StreamWriter, int], generation: int, line: bytes) -> int:
    """Send it to those of a generation; gives their number."""
    told = [writer for writer, known in writers.items() if known == generation]
    for writer in told:
        if writer.transport.get_write_buffer_size() > ORDERS_LIMIT_BYTES:
            writer.transport.abort()
        else:
            writer.write(line)
    return len(told)


def _event_of(frame: News) -> WorkerNews:
    generation, rank = Generation(frame.speaker.generation), Rank(frame.speaker.rank)
    match frame:
        case Fired():
            return GuardFired(generation, _notice_of(frame))
        case Crashed(_, error, kill_in_ms, at_ns):
            at = Instant(min(at_ns, time.monotonic_ns()) / 1e9)
            return LoopCrashed(generation, rank, error, at, min(kill_in_ms / 1000, KILL_IN_MOST_S))
        case Spared():
            return CrashSpared(generation, rank)
        case Over():
            return ScriptOver(generation, rank, frame.speaker.pid)
        case Mustered():
            limit_s = frame.limit_ms / 1000
            said = (frame.kind, frame.iteration, frame.sentence, frame.needed, limit_s, frame.spans_nodes)
            replace_s, pid = (frame.replace_ms or 0) / 1000, frame.speaker.pid
            return MusterHeard(generation, rank, *said, replace_s, frame.replace_ms is not None, pid)


def _order_of(order: OrderAbort) -> Order:
    """Only news of one phase grows old: with the others the generation ends, and whoever hears them is ended too."""
    until_ns = time.monotonic_ns() + round(1e9 * order.left_s) if order.phase else 0
    left_ms, sentence = round(1000 * order.left_s), order.sentence[:TEXT_LIMIT]
    return Order(order.generation, left_ms, sentence, order.phase, until_ns=until_ns)


def _notice_of(fired: Fired) -> AbortNotice:
    age_s = max(0.0, (time.monotonic_ns() - fired.at_ns) / 1e9)
    left_s = min(fired.left_ms / 1000, NEWS_WORTH_MOST_S) - age_s
    return AbortNotice(Rank(fired.speaker.rank), fired.number, fired.phase, max(0.0, left_s))


def _plain(fields: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    """A worker's own field names, kept apart from the event's."""
    return {f"worker.{name}": value for name, value in fields.items()}
