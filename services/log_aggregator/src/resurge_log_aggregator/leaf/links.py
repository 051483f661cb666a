"""What a leaf decides: what goes up and when, and whom each answer of the root concerns. Pure bookkeeping, no clock.

- What comes goes up in the order in which it came, so that what a lost sender left is placed before its next one asks
  from where to go on.
- Nothing is acknowledged here: a sender hears what the root said of its source, and nothing else. So there is nothing
  that a leaf could lose: what it holds when it ends, its senders hold as well.
- Text under way to the root stays within the root's window, and text that waits here within the leaf's own bounds;
  above them senders are not read.
- When the root is lost all that waits is dropped and every sender is let go: it begins anew from what is durable.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from resurge_log_aggregator.core.model import BlockHead, SourceKey, SourceState
from resurge_log_aggregator.senders import Listener

MESSAGE_BYTES = 1024 * 1024
OPENED_BYTES, HEAD_BYTES = 128, 64
"""What a source to be opened, and a block, take beside their names and text; counted in messages and in what waits."""


@dataclass(slots=True)
class Link:
    """One source of one sender."""

    number: int
    """On the stream to the root."""
    listener: Listener | None
    state: SourceState
    """`written` is how far the sender sent; `durable` and the ends are the root's words."""
    is_answered: bool = False
    passed: int = 0
    """How far it was passed on."""

    @property
    def under_way(self) -> int:
        """Bytes that were passed on and are not durable."""
        return max(0, self.passed - self.state.durable)


@dataclass(frozen=True, slots=True)
class Opened:
    """A source to be opened at the root."""

    number: int
    key: SourceKey
    world_size: int

    @property
    def size(self) -> int:
        """About its bytes on the wire, and here."""
        return OPENED_BYTES + len(self.key.node.encode())


@dataclass(frozen=True, slots=True)
class Sent:
    """A block to be passed on."""

    number: int
    head: BlockHead
    text: bytes

    @property
    def size(self) -> int:
        """About its bytes on the wire, and here."""
        return HEAD_BYTES + len(self.text)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may wait here."""

    queue_bytes: int
    queue_blocks: int


class Links:
    """Every source that is sent through this leaf, while the root answers."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._of_number: dict[int, Link] = {}
        self._of_key: dict[SourceKey, Link] = {}
        self._queue: deque[Opened | Sent] = deque()
        self._queued_bytes = 0
        self._under_way = 0
        self._last_number = 0
        self.window_bytes = 0
        """Of the root."""

    def __len__(self) -> int:
        return len(self._of_key)

    @property
    def is_full(self) -> bool:
        """Whether no more should be read from anybody."""
        return self._queued_bytes >= self._bounds.queue_bytes or len(self._queue) >= self._bounds.queue_blocks

    @property
    def is_little(self) -> bool:
        """Whether what waits may wait a little more, for more to travel with."""
        return self._queued_bytes < MESSAGE_BYTES and not any(isinstance(item, Opened) for item in self._queue)

    def clear(self) -> None:
        """The root is lost."""
        self._of_number, self._of_key, self._queue = {}, {}, deque()
        self._queued_bytes = self._under_way = self._last_number = 0

    # --- from senders ---

    def open(self, key: SourceKey, world_size: int, listener: Listener) -> None:
        """A sender has this source; of two senders of one source the later one is heard."""
        before = self._of_key.get(key)
        if before is not None:
            self._drop(before)
        self._last_number += 1
        link = Link(self._last_number, listener, SourceState(key, world_size))
        self._of_number[link.number] = self._of_key[key] = link
        self._append(Opened(link.number, key, world_size))

    def put(self, key: SourceKey, head: BlockHead, text: bytes) -> bool:
        """A block to be passed on; False for a source that the root has not answered for."""
        link = self._of_key.get(key)
        if link is None:  # the root was lost since: its sender is being let go
            return True
        if not link.is_answered:
            return False
        link.state = replace(link.state, written=head.end, has_ended=link.state.has_ended or head.ends)
        self._append(Sent(link.number, head, text))
        return True

    def _append(self, item: Opened | Sent) -> None:
        self._queue.append(item)
        self._queued_bytes += item.size

    def is_pending(self, key: SourceKey) -> bool:
        """Whether something of it came and is not durable yet, or the root has not answered for it."""
        link = self._of_key.get(key)
        if link is None:
            return False
        state = link.state
        return not link.is_answered or state.durable < state.written or state.has_ended != state.end_is_durable

    def forget(self, listener: Listener) -> None:
        """A sender has gone; what it sent is passed on all the same."""
        for link in self._of_key.values():
            if link.listener is listener:
                link.listener = None

    # --- to the root ---

    def take(self) -> list[Opened | Sent]:
        """What goes up in the next message: sources first, then blocks; empty where the window is used up."""
        taken: list[Opened | Sent] = []
        size = 0
        while self._queue and size < MESSAGE_BYTES:
            item = self._queue[0]
            if isinstance(item, Opened):
                if taken and isinstance(taken[-1], Sent):
                    break  # within one message the root opens first: a source is opened behind what came before
            elif self._under_way >= self.window_bytes:
                break
            else:
                self._pass(item)
            size += item.size
            taken.append(self._queue.popleft())
        self._queued_bytes -= size
        return taken

    def _pass(self, item: Sent) -> None:
        link = self._of_number.get(item.number)
        if link is not None:
            self._move(link, max(link.passed, item.head.end), link.state)

    def _move(self, link: Link, passed: int, state: SourceState) -> None:
        before = link.under_way
        link.passed, link.state = passed, state
        self._under_way += link.under_way - before

    # --- from the root ---

    def acknowledged(self, number: int, durable: int, ended: bool, go_on_from: int | None) -> Link | None:
        """The root's word on a source; whom it concerns, None when nobody is there any more."""
        link = self._of_number.get(number)
        if link is None:
            return None
        state = replace(link.state, durable=max(link.state.durable, durable), end_is_durable=ended)
        if go_on_from is not None:
            link.is_answered = True
            state = replace(state, written=go_on_from, has_ended=ended)
        passed = link.passed if go_on_from is None else max(go_on_from, state.durable)
        self._move(link, passed, state)
        if ended:
            self._drop(link)
        return link

    def refused(self, number: int) -> Link | None:
        """The root does not take a source; whose it is."""
        link = self._of_number.get(number)
        if link is not None:
            self._drop(link)
        return link

    def _drop(self, link: Link) -> None:
        self._under_way -= link.under_way
        del self._of_number[link.number]
        if self._of_key.get(link.state.key) is link:
            del self._of_key[link.state.key]
