"""The open streams of launchers and observers: what is still to be sent on each. Decides nothing.

Streams are level-triggered: only the newest desired state of a node and the answer to its newest beat are worth
sending, so each stream holds one of either and a slow reader can never make it grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.core.refusals import Overloaded, RpcProblem
from resurge_rendezvous.core.model import Desired
from resurge_rendezvous.wire_out import desired_to_proto

T = TypeVar("T")


class DownStream(Protocol):
    """What goes down to one launcher, whichever way."""

    is_direct: bool
    """Whether it is a stream of the launcher's own to this process."""

    @property
    def refusal(self) -> RpcProblem | None:
        """What it was ended with."""
        ...

    def put_desired(self, desired: Desired) -> None:
        """The node's whole desired state; an older one that was not sent yet is forgotten."""
        ...

    def put_beat_reply(self, reply: attach_pb2.BeatReply) -> None:
        """The answer to a beat; it covers all earlier beats."""
        ...

    def end(self, refusal: RpcProblem | None = None) -> None:
        """Close it after what is still to be sent; with a refusal, at once and with it."""
        ...


MAX_WATCHERS = 256
MAX_WAITS = 100_000


@dataclass(eq=False)
class LauncherStream:
    """What goes down one launcher's stream next. Belongs to one event loop."""

    _goal: attach_pb2.Desired | None = None
    _beat_reply: attach_pb2.BeatReply | None = None
    _end: RpcProblem | None = None
    _ended: bool = False
    _reader: asyncio.Future[None] | None = None
    """Who waits for the next message."""

    is_direct = True

    @property
    def refusal(self) -> RpcProblem | None:
        """What the stream was ended with."""
        return self._end

    def put_desired(self, desired: Desired) -> None:
        """As `put_goal`, for the core's value."""
        self.put_goal(desired_to_proto(desired))

    def put_goal(self, goal: attach_pb2.Desired) -> None:
        """The node's whole desired state; an older one that was not sent yet is forgotten."""
        if self._goal is None or goal.revision >= self._goal.revision:
            self._goal = goal
            self._wake()

    def put_beat_reply(self, reply: attach_pb2.BeatReply) -> None:
        """The answer to a beat; it covers all earlier beats."""
        self._beat_reply = reply
        self._wake()

    def end(self, refusal: RpcProblem | None = None) -> None:
        """Close the stream after what is still to be sent; with a refusal, at once and with it."""
        if not self._ended:
            self._ended, self._end = True, refusal
            self._wake()

    async def next(self) -> attach_pb2.Desired | None:
        """The next message; None when the stream is over. Raises the refusal the stream was ended with."""
        while True:
            if self._end is not None:
                raise self._end
            if self._goal is not None or self._beat_reply is not None:
                return self._take()
            if self._ended:
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _take(self) -> attach_pb2.Desired:
        message = self._goal if self._goal is not None else attach_pb2.Desired()
        if self._beat_reply is not None:
            if self._goal is not None:  # the goal may be shared with a later resend: answer on a copy
                message = attach_pb2.Desired()
                message.CopyFrom(self._goal)
            message.beat_reply.CopyFrom(self._beat_reply)
        self._goal = self._beat_reply = None
        return message


class Watchers(Generic[T]):
    """Observers that want the newest value of something; each has one slot, and their number is bounded."""

    def __init__(self, most: int = MAX_WATCHERS) -> None:
        self._most = most
        self._slots: set[_Slot[T]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._slots)

    def publish(self, value: T) -> None:
        """Give every observer the newest value in place of one it has not read."""
        for slot in self._slots:
            slot.put(value)

    def close(self) -> None:
        """End every observer's stream."""
        self._closed = True
        for slot in self._slots:
            slot.changed.set()

    async def watch(self, first: T) -> AsyncIterator[T]:
        """The value now and at each change. Raises Overloaded when there are too many observers."""
        if len(self._slots) >= self._most:
            raise Overloaded(what="observers")
        slot: _Slot[T] = _Slot()
        slot.put(first)
        self._slots.add(slot)
        try:
            while not self._closed:
                await slot.changed.wait()
                slot.changed.clear()
                while slot.values:
                    yield slot.values.pop()
        finally:
            self._slots.discard(slot)


class _Slot(Generic[T]):
    def __init__(self) -> None:
        self.values: list[T] = []
        self.changed = asyncio.Event()

    def put(self, value: T) -> None:
        self.values[:] = [value]
        self.changed.set()


class KeyWaits:
    """Who waits for which key of the store. A wake is a hint to look again, never an answer."""

    def __init__(self, most: int = MAX_WAITS) -> None:
        self._most = most
        self._by_key: dict[str, set[asyncio.Event]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def wake(self, key: str) -> None:
        """The key was written."""
        for event in self._by_key.get(key, ()):
            event.set()

    def wake_all(self) -> None:
        """What holds for the job changed, so that some may wait in vain."""
        for events in self._by_key.values():
            for event in events:
                event.set()

    @contextmanager
    def waiting(self, key: str) -> Iterator[asyncio.Event]:
        """An event that is set at each wake of the key. Raises Overloaded when too many wait."""
        if self._count >= self._most:
            raise Overloaded(what="waits")
        event = asyncio.Event()
        self._by_key.setdefault(key, set()).add(event)
        self._count += 1
        try:
            yield event
        finally:
            self._count -= 1
            waiters = self._by_key[key]
            waiters.discard(event)
            if not waiters:
                del self._by_key[key]
