"""The simulated launchers of the scale bench: thousands in one process, each with a TCP connection and a stream of its
own, on plain sockets and one epoll. They beat and ping at a launcher's pace, obey at once, and come back when their
stream is gone. Nothing is judged here.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import os
import random
import select
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.rpc.options import channel_options
from tests.bench.http2 import Http2Call, call_headers
from tests.bench.scale_words import Heard, Job, Words

METHOD = "/resurge_api.rendezvous.v1.RendezvousService/Attach"
CONNECTING_MOST = 200
"""Connections that are opened side by side: what one machine can, not what the service can."""
HELLOS_PER_ROUND = 50
"""Streams opened before the sockets are looked at again, so that the first answers are not left lying."""
EVENTS_PER_ROUND = 512
OBEYED_PER_ROUND = 16
"""Launchers that act before the sockets are looked at again: one of its own would not wait for what others do, and what
came to it would be stamped alone."""
LONGEST_ROUND_S = 0.5
BROKEN = ("the connection", "the service closed", "the service went")
ASK_AGAIN = ("grpc-status.14", "grpc-status.8.")
"""UNAVAILABLE and RESOURCE_EXHAUSTED, as they stand in trailers: a launcher comes back."""
BEAT, PING, CONNECT = "beat", "ping", "connect"


@dataclass(frozen=True)
class Given:
    """Which launchers one process plays."""

    targets: list[str]
    first: int
    count: int
    nodes: int
    """Of the whole job."""
    lease_s: float


class Node:
    """One simulated launcher."""

    __slots__ = ("address", "attached_at", "call", "heard_at", "is_polled_for_writing", "was_ready", "words")

    def __init__(self, words: Words, address: tuple[str, int]) -> None:
        self.words, self.address = words, address
        self.call: Http2Call | None = None
        self.heard_at = 0.0
        self.attached_at = 0.0
        """When the first words came down its present stream; 0 while none have."""
        self.is_polled_for_writing = self.was_ready = False


class Came(NamedTuple):
    """What was read for one launcher."""

    node: Node
    call: Http2Call
    messages: list[bytes]
    told_at: float


class Fleet:
    """All launchers of this process."""

    def __init__(self, given: Given) -> None:
        self.job, self.heard = Job(given.nodes, given.lease_s), Heard()
        addresses = [(host, int(port)) for host, _, port in (target.rpartition(":") for target in given.targets)]
        self.nodes = [
            Node(Words(f"n{number}", self.job, self.heard), addresses[number % len(addresses)])
            for number in range(given.first, given.first + given.count)
        ]
        self.headers = {address: call_headers(METHOD, f"{address[0]}:{address[1]}") for address in addresses}
        self.ping_every_s = float(dict(channel_options(self.job.limits, given.nodes))["grpc.keepalive_time_ms"]) / 1e3
        self.poll = select.epoll()
        self.by_fd: dict[int, Node] = {}
        self.due: list[tuple[float, int, str, Node]] = []
        self.numbers = itertools.count()
        self.connecting = 0
        self.to_connect = list(reversed(self.nodes))
        self.to_join: list[Node] = []
        self.came: deque[Came] = deque()
        self.has_joined = False
        self.times_lost = 0
        gc.freeze()
        gc.disable()

    # what the driver asks for

    def connect(self) -> None:
        """Every launcher connected, a bounded number at a time."""
        while self.to_connect or self.connecting:
            self.round()

    def join(self) -> None:
        """All of them at once."""
        self.has_joined = True
        self.to_join = list(reversed(self.nodes))
        now, interval_s = time.monotonic(), self.job.limits.beat_interval_s
        for index, node in enumerate(self.nodes):  # spread, as launchers that started at different times are
            self.at(now + interval_s * (1 + index / len(self.nodes)), BEAT, node)
            self.at(now + self.ping_every_s * (1 + index / len(self.nodes)), PING, node)

    def fault(self) -> None:
        """One worker of the first launcher is killed."""
        self.nodes[0].words.broken()
        self.tell(self.nodes[0])

    def back(self, since: float) -> list[float]:
        """When each launcher that has a new stream since then was first told something on it."""
        return [node.attached_at for node in self.nodes if node.attached_at > since]

    # one look at the sockets and the clock

    def at(self, due: float, what: str, node: Node) -> None:
        heapq.heappush(self.due, (due, next(self.numbers), what, node))

    def round(self, extra: int = -1) -> bool:
        """Everything that is due or has come; true when the descriptor `extra` has something to read."""
        while self.to_connect and self.connecting < CONNECTING_MOST:
            self.begin(self.to_connect.pop())
        for _ in range(min(HELLOS_PER_ROUND, len(self.to_join))):
            self.introduce(self.to_join.pop())
        self.meet_deadlines()
        is_busy = bool(self.came) or bool(self.to_join) or bool(self.to_connect and self.connecting < CONNECTING_MOST)
        wait_s = 0.0 if is_busy else LONGEST_ROUND_S
        if self.due:
            wait_s = max(0.0, min(wait_s, self.due[0][0] - time.monotonic()))
        is_asked = False
        for fd, events in self.poll.poll(wait_s, EVENTS_PER_ROUND):
            if fd == extra:
                is_asked = True
            else:
                self.look(self.by_fd[fd], events)
        for _ in range(min(OBEYED_PER_ROUND, len(self.came))):
            self.obey(self.came.popleft())
        return is_asked

    def meet_deadlines(self) -> None:
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            due, _, what, node = heapq.heappop(self.due)
            if what == CONNECT:
                self.to_connect.append(node)
            elif what == BEAT:
                self.at(max(due, now - 1.0) + node.words.beat_interval_s, BEAT, node)
                if node.attached_at:
                    self.tell(node, beats=True)
            else:
                quiet_until = node.heard_at + self.ping_every_s  # a ping is for a connection that is quiet
                if node.call is not None and quiet_until <= now:
                    node.call.ping()
                    self.heard.pings += 1
                    self.settle(node)
                    quiet_until = now + self.ping_every_s
                self.at(max(quiet_until, now + 0.01), PING, node)

    # one launcher

    def begin(self, node: Node) -> None:
        node.call = Http2Call(node.address)
        node.attached_at, node.was_ready = 0.0, False
        self.connecting += 1
        self.by_fd[node.call.sock.fileno()] = node
        node.is_polled_for_writing = True
        self.poll.register(node.call.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def introduce(self, node: Node) -> None:
        if node.call is not None and node.call.is_ready and not node.call.is_open:
            node.call.open(self.headers[node.address], node.words.first().SerializeToString())
            self.settle(node)

    def tell(self, node: Node, beats: bool = False) -> None:
        if node.call is not None:
            node.call.send(node.words.message(beats).SerializeToString())
            self.settle(node)

    def look(self, node: Node, events: int) -> None:
        """Write what has room, at once: a socket that has room is shown at each look until nothing waits for it."""
        assert node.call is not None, "a launcher without a connection is not polled"
        if events & select.EPOLLOUT:
            node.call.flush()
            self.settle(node)
        if events & ~select.EPOLLOUT and node.call is not None:
            self.came.append(self.read(node, node.call))

    def read(self, node: Node, call: Http2Call) -> Came:
        """What has come to one launcher, and when."""
        messages = call.receive()
        node.heard_at = time.monotonic()
        # it came to the socket earlier, while this process served others: that is no time of the service
        told_at = node.heard_at - max(0.0, time.time() - call.received_at)
        return Came(node, call, messages, told_at)

    def obey(self, came: Came) -> None:
        """Do what one launcher was told, and answer."""
        node, call = came.node, came.call
        if call is not node.call:
            return  # its connection broke since
        has_news = False
        for data in came.messages:
            node.attached_at = node.attached_at or node.heard_at
            desired = rendezvous_pb2.AttachResponse.FromString(data).desired
            has_news = node.words.obey(desired, came.told_at) or has_news
        if call.is_ready and not node.was_ready:
            node.was_ready = True
            self.connecting -= 1
            if self.has_joined:
                self.introduce(node)
        if has_news:
            call.send(node.words.message(beats=False).SerializeToString())
        self.settle(node)

    def settle(self, node: Node) -> None:
        """After something was read or written: ask for room if it is wanted, let go what has ended."""
        call = node.call
        if call is None:
            return
        if call.ended:
            self.lost(node, call)
        elif call.wants_to_write != node.is_polled_for_writing:
            node.is_polled_for_writing = call.wants_to_write
            wanted = select.EPOLLIN | (select.EPOLLOUT if call.wants_to_write else 0)
            self.poll.modify(call.sock.fileno(), wanted)

    def lost(self, node: Node, call: Http2Call) -> None:
        """Come back after a moment, as launchers do."""
        if not node.was_ready:
            self.connecting -= 1
        elif node.attached_at:
            self.times_lost += 1
        if not call.ended.startswith(BROKEN) and not any(status in call.ended for status in ASK_AGAIN):
            self.heard.errors.append(call.ended)
        fd = call.sock.fileno()
        self.poll.unregister(fd)
        del self.by_fd[fd]
        call.close()
        node.call, node.attached_at = None, 0.0
        limits = self.job.limits
        longest_s = limits.reconnect_backoff_max_s * node.words.beat_interval_s / limits.beat_interval_s
        wait_s = random.uniform(limits.reconnect_backoff_min_s, longest_s)
        self.at(time.monotonic() + wait_s, CONNECT, node)

    def close(self) -> None:
        """Let every connection go."""
        for node in self.by_fd.values():
            if node.call is not None:
                node.call.close()

    def listen_to(self, fd: int) -> None:
        """Poll the driver's words too."""
        os.set_blocking(fd, False)
        self.poll.register(fd, select.EPOLLIN)
