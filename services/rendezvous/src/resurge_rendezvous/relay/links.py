"""What a relay decides: whom it serves, what goes up, and when it lets its launchers go. Pure.

In order: without a root nobody is served, and whoever is there is let go (what it said last might be old when the root
is back) · more than its share are told to wait · what comes on a link that is over is not passed on · a link that the
root ended is not reported to it as gone. Leases, silence and ranks are the root's alone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Overloaded, Unready
from resurge_rendezvous.relay.batch import B, H, O, UpBatch, Words

S = TypeVar("S")
NO_ROOT = Unready(Because(Reason.STREAM_LOST, "the relay cannot reach rendezvous; workers go on, ask again"))


class Links(Generic[S, H, O, B]):
    """The launchers of one relay, each a number and the stream (`S`) that leads down to it."""

    def __init__(self, most: int, ask_again_s: float) -> None:
        self._most, self._ask_again_s = most, ask_again_s
        self._streams: dict[int, S] = {}
        self._numbers = 0
        self.is_up = False
        self.batch: UpBatch[H, O, B] = UpBatch()

    def __len__(self) -> int:
        return len(self._streams)

    def found(self) -> None:
        """The root answers."""
        self.is_up = True

    def let_go(self) -> tuple[S, ...]:
        """The root is lost: the streams to end with NO_ROOT."""
        self.is_up, self.batch = False, UpBatch()
        streams, self._streams = tuple(self._streams.values()), {}
        return streams

    def open(self, stream: S) -> int:
        """A link for one launcher. Raises Unready without a root, Overloaded when full."""
        if not self.is_up:
            raise NO_ROOT
        if len(self._streams) >= self._most:
            raise Overloaded(self._ask_again_s, "launchers at this relay")
        self._numbers += 1
        self._streams[self._numbers] = stream
        return self._numbers

    def say(self, link: int, words: Words[H, O, B]) -> bool:
        """A launcher said something; whether it goes up."""
        if link not in self._streams:
            return False
        self.batch.say(link, words)
        return True

    def go(self, link: int, by_peer: bool) -> bool:
        """A launcher's stream is over; whether that goes up."""
        if self._streams.pop(link, None) is None:
            return False
        self.batch.go(link, by_peer)
        return True

    def down(self, link: int) -> S | None:
        """Where words for a link go; None when it is over."""
        return self._streams.get(link)

    def ended(self, link: int) -> S | None:
        """The root ended a link: its stream, to be ended too."""
        self.batch.forget(link)
        return self._streams.pop(link, None)
