"""Sends a node's spool to the log aggregator, over one stream, until all is durable there. A process of its own.

It outlives its launcher: what workers wrote before everything was killed is sent by it, or by the next one. Decides
nothing about workers, and nobody waits for it but a launcher at its end, for a bounded time.

    python -m resurge_launcher.logs.shipper SPOOL --endpoint HOST:PORT --job ID --node NAME
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_launcher.logs import spool, trouble
from resurge_launcher.logs.appending import Appender
from resurge_launcher.logs.backlog import Backlog, Piece, Source, SpoolRules
from resurge_launcher.logs.gathering import Gathering
from resurge_launcher.logs.lifeline import EXIT_LEFT, ORPHAN_LIMIT_S, Lifeline
from resurge_launcher.logs.route import Route
from resurge_launcher.logs.spool import LOCK_NAME, SpoolNote
from resurge_libs.core.refusals import Overloaded, Refused, RpcProblem, Unready
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log
from resurge_libs.rpc.channel import open_sync_channel
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.rpc.errors import problem_of

PROTOCOL_VERSION = 1
MESSAGE_BYTES = 1024 * 1024
ENDED_OPEN_MAX = 256
"""Sources that nobody writes any more, and that are open at a time: a job of many cycles may leave thousands."""
WINDOW_BYTES = 8 * 1024 * 1024
POLL_S = 0.02
IDLE_POLL_S = 0.1
"""Between two looks at a spool in which nothing has happened for a while."""
AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 2.0
ROOM_EVERY_S, ROOM_TIGHT_S = 1.0, 0.05
ORPHAN_IDLE_S = 10.0
"""A sender whose launcher is gone ends after so long with nothing to send: no worker outlives its launcher."""
EXIT_DONE = 0
STDIN = 0


class Shipper:
    """One spool and the stream that it goes over."""

    def __init__(self, folder: Path, route: Route, job: str, node: str, token: str, rules: SpoolRules) -> None:
        self._folder, self._route, self._job, self._node, self._token = folder, route, job, node, token
        self._backlog = Backlog(folder, rules)
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._under_way: dict[str, int] = {}
        """Bytes of each source that were sent on this stream and are not durable."""
        self._window_bytes = WINDOW_BYTES
        self._gathering = Gathering()
        self._trouble = ""
        self.lifeline, self.orphan_idle_s = Lifeline(), ORPHAN_IDLE_S
        self._stopped = threading.Event()
        self._nudged = threading.Event()

    def nudge(self) -> None:
        """Look now."""
        self._nudged.set()

    def run(self, limit_s: float | None = None, once: bool = False) -> int:
        """Send until the spool is closed and empty, or for at most `limit_s`; with `once` until what is there is sent.

        Returns 0 when nothing is left, 3 otherwise.
        """
        give_up_at = None if limit_s is None else time.monotonic() + limit_s
        wait_s = AGAIN_FIRST_S
        threading.Thread(target=self._keep_room, name="resurge-log-room", daemon=True).start()
        while not self._is_done(once):
            if (
                self._stopped.is_set()
                or self.lifeline.is_over
                or (give_up_at is not None and time.monotonic() >= give_up_at)
            ):
                return EXIT_LEFT
            if self._stream(give_up_at, once):
                wait_s = AGAIN_FIRST_S
            if self._is_done(once):
                break
            self._stopped.wait(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, AGAIN_MAX_S)
        return EXIT_DONE

    def _is_done(self, once: bool) -> bool:
        with self._lock:
            self._backlog.scan()
            sources = self._backlog.sources.values()
            if once:
                return all(self._backlog.has_all_but_a_beginning(source) for source in sources)
            return not sources and spool.is_closing(self._folder)

    # --- one stream ---

    def _stream(self, give_up_at: float | None, once: bool) -> bool:
        """One stream from its beginning to its break; whether anything became durable over it."""
        got_on = False
        with self._lock:
            self._backlog.forget_progress()
            self._numbers.clear()
            self._names.clear()
            self._under_way.clear()
            self._gathering = Gathering()
        over = threading.Event()
        timeout = None if give_up_at is None else max(0.1, give_up_at - time.monotonic())
        try:
            with open_sync_channel(self._route.now(), TimeLimits(), self._token) as channel:
                stub = logs_pb2_grpc.LogAggregatorServiceStub(channel)
                requests = self._requests(over, once)
                for response in stub.Push(requests, metadata=call_metadata(self._token), timeout=timeout):
                    got_on = self._heard(response) or got_on
        except grpc.RpcError as error:
            self._route.failed()
            problem = problem_of(error)
            self._told_trouble(str(problem))
            if self.lifeline.is_orphan and _is_final(problem):
                self._stopped.set()  # nobody is left who could change the answer
        finally:
            over.set()
            self._nudged.set()
        return got_on

    def _requests(self, over: threading.Event, once: bool) -> Iterator[logs_pb2.PushRequest]:
        hello = logs_pb2.PushHello(protocol_version=PROTOCOL_VERSION, job_id=self._job, sender=self._node)
        yield logs_pb2.PushRequest(hello=hello)
        idle_s, idle_since, at_once = POLL_S, time.monotonic(), once
        while not over.is_set():
            request = self._next_request(at_once)
            at_once = once
            if request is not None:
                idle_s, idle_since = POLL_S, time.monotonic()
                yield request
                continue
            if self._is_done(once):
                return
            if self._is_useless(idle_since):
                self._stopped.set()
                return
            if self.lifeline.is_over:
                return  # the loop outside ends; where the stream hangs, the lifeline does
            if at_once := self._nudged.wait(idle_s):
                self._nudged.clear()
            idle_s = min(idle_s * 1.2, IDLE_POLL_S)

    def _is_useless(self, idle_since: float) -> bool:
        """The launcher is gone, all that it left was sent, and nobody is there who could say that more comes or not."""
        if not self.lifeline.is_orphan or time.monotonic() - idle_since < self.orphan_idle_s:
            return False
        with self._lock:
            return not any(self._under_way.values())

    def _next_request(self, at_once: bool = False) -> logs_pb2.PushRequest | None:
        """What goes now; `at_once`: also what could still wait for more."""
        with self._lock:
            self._backlog.scan()
            request = logs_pb2.PushRequest()
            for source in self._to_open():
                self._open(request, source.note.name, source.note)
            room = self._window_bytes - sum(self._under_way.values())
            if room > 0 and (at_once or self._is_due()):
                for piece in self._backlog.pieces(min(room, MESSAGE_BYTES)):
                    self._add(request, piece)
            if request.blocks:
                self._gathering.sent(time.monotonic())
            return request if request.open or request.blocks else None

    def _is_due(self) -> bool:
        return self._backlog.has_last_words or not self._gathering.wait_s(time.monotonic(), self._backlog.waiting)

    def _to_open(self) -> list[Source]:
        """All that is written now; of what has ended the oldest, as the way takes only so many at a time."""
        sources = self._backlog.sources
        fresh = [source for name, source in sources.items() if name not in self._numbers]
        if not fresh:
            return []
        room = ENDED_OPEN_MAX - sum(source.has_ended for name, source in sources.items() if name in self._numbers)
        ended = sorted((one for one in fresh if one.has_ended), key=lambda one: one.note.order)
        return [one for one in fresh if not one.has_ended] + ended[: max(0, room)]

    def _open(self, request: logs_pb2.PushRequest, name: str, note: SpoolNote) -> None:
        number = self._numbers[name] = len(self._numbers) + 1
        self._names[number] = name
        source = logs_pb2.Source(
            kind=logs_pb2.LOG_KIND_LAUNCHER if note.is_launcher else logs_pb2.LOG_KIND_APPLICATION,
            node_id=note.node,
            attempt=note.attempt,
            generation=note.generation,
            cycle=note.cycle,
            rank=note.rank,
            world_size=note.world_size,
            incarnation=note.incarnation,
        )
        request.open.append(logs_pb2.OpenSource(number=number, source=source))

    def _add(self, request: logs_pb2.PushRequest, piece: Piece) -> None:
        name = piece.note.name
        block = request.blocks.add(
            number=self._numbers[name],
            offset=piece.offset,
            length=piece.length,
            text=piece.text,
            lines=piece.lines,
            ends=piece.ends,
        )
        if piece.gap_bytes:
            block.gap.bytes, block.gap.lines = piece.gap_bytes, piece.gap_lines
        self._under_way[name] = self._under_way.get(name, 0) + piece.length

    def _heard(self, response: logs_pb2.PushResponse) -> bool:
        got_on = False
        with self._lock:
            if response.window:
                self._window_bytes = min(WINDOW_BYTES, response.window)
            if response.HasField("gather"):
                self._gathering.told(response.gather.ToNanoseconds() / 1e9)
            if response.acks:
                self._route.answered()
            for ack in response.acks:
                name = self._names.get(ack.number)
                if name is None:
                    continue
                got_on = self._acknowledged(name, ack) or got_on
        if response.HasField("trouble"):
            if response.trouble.sentence != self._trouble:
                trouble.leave(self._folder, response.trouble.sentence)
            self._told_trouble(response.trouble.sentence)
        elif got_on:
            if self._trouble:
                trouble.leave(self._folder, "")
            self._told_trouble("")
        if got_on:
            self.lifeline.got_on()
        return got_on

    def _acknowledged(self, name: str, ack: logs_pb2.SourceAck) -> bool:
        source = self._backlog.sources.get(name)
        if source is None:
            return False
        before = source.durable
        if ack.HasField("next"):
            self._backlog.go_on_from(name, ack.next)
        self._backlog.durable(name, ack.durable, ack.ended)
        self._under_way[name] = 0 if ack.ended else max(0, (source.next or 0) - source.durable)
        return ack.ended or source.durable > before

    # --- room and trouble ---

    def _keep_room(self) -> None:
        """By a thread of its own: workers print on while a stream, or whoever should take it, hangs."""
        while True:
            lost, is_tight = 0, False
            with self._lock, contextlib.suppress(OSError):
                self._backlog.scan()
                before = self._backlog.gap_bytes
                is_tight = self._backlog.make_room()
                lost = self._backlog.gap_bytes - before
            if lost:
                log.event("logs_given_up", bytes=lost, lines_in_all=self._backlog.gap_lines, spool=str(self._folder))
            time.sleep(ROOM_TIGHT_S if is_tight else ROOM_EVERY_S)

    def _told_trouble(self, sentence: str) -> None:
        if sentence != self._trouble:
            self._trouble = sentence
            log.event("logs_held_back" if sentence else "logs_going_on", sentence=sentence, spool=str(self._folder))


def _is_final(problem: RpcProblem) -> bool:
    """Whether the same request would be answered so again."""
    return isinstance(problem, Refused) and not isinstance(problem, Unready | Overloaded)


def _allow_many_files() -> None:
    """As many descriptors as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def claim(folder: Path, wait: bool = False) -> int | None:
    """The one sender of this spool: a descriptor to be kept, or None while another process is it. Raises OSError.

    `wait`: until the other one ends.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a process; 0 when nothing is left, 3 when something is, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="resurge-log-shipper")
    parser.add_argument("spool", type=Path)
    parser.add_argument(
        "--endpoint", default="", help="the log server; without it and leaves blocks go into the files of --prefix"
    )
    parser.add_argument("--leaf", action="append", default=[], help="a leaf to be tried before it, the first one first")
    parser.add_argument("--prefix", type=Path)
    parser.add_argument("--job", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--limit-bytes", type=int, default=SpoolRules().limit_bytes)
    parser.add_argument("--parent", type=int, default=0, help="pid of the launcher that keeps one sender running")
    parser.add_argument("--orphan-limit-s", type=float, default=ORPHAN_LIMIT_S)
    parser.add_argument("--orphan-idle-s", type=float, default=ORPHAN_IDLE_S)
    options = parser.parse_args(argv)
    log.configure(as_json=False)
    _allow_many_files()
    lifeline = Lifeline(options.parent, options.orphan_limit_s)
    lifeline.watch()  # before the wait for an older sender: an orphan does not wait for ever
    descriptor = claim(options.spool, wait=options.parent > 0)
    if descriptor is None:
        return EXIT_DONE  # another one does it
    try:
        rules = SpoolRules(limit_bytes=options.limit_bytes)
        token = sys.stdin.readline().strip() if not sys.stdin.isatty() else ""
        if not options.endpoint and not options.leaf:
            return Appender(options.spool, options.prefix, rules, lifeline).run()
        root = parse_endpoint(options.endpoint) if options.endpoint else None
        route = Route(tuple(parse_endpoint(leaf) for leaf in options.leaf), root)
        shipper = Shipper(options.spool, route, options.job, options.node, token, rules)
        shipper.lifeline, shipper.orphan_idle_s = lifeline, options.orphan_idle_s
        threading.Thread(target=_hear_nudges, args=(shipper,), name="resurge-log-nudges", daemon=True).start()
        return shipper.run()
    finally:
        os.close(descriptor)


def _hear_nudges(shipper: Shipper) -> None:
    """Each line of the launcher's says that somebody has said his last words."""
    while os.read(STDIN, 4096):  # past Python's own buffer, whose lock a thread must not hold at the end
        shipper.nudge()


if __name__ == "__main__":
    sys.exit(main())
