"""What goes up from a relay next: what its launchers have said since the last message, each at most once. Pure.

States are whole, so of several on one link only the newest goes up (with the hello of the first). A beat that says
nothing new besides goes up as a beat alone. Ends go last. Nothing is judged: whatever a launcher says is passed on.
"""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2, relay_pb2


class UpBatch:
    """The open message of one stream to the root."""

    def __init__(self) -> None:
        self._said: dict[int, attach_pb2.Observed] = {}
        self._beats: dict[int, attach_pb2.Beat] = {}
        self._gone: dict[int, bool] = {}
        self._last: dict[int, attach_pb2.Observed] = {}
        """What each link said last, without hello and beat: what the root knows, or will with the next message."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self._said or self._beats or self._gone)

    @property
    def is_urgent(self) -> bool:
        """Whether there is more than beats, which may wait for others."""
        return bool(self._said or self._gone)

    def say(self, link: int, said: attach_pb2.Observed) -> None:
        """A launcher's words arrived on its link; the message belongs to the batch from now on."""
        if said.HasField("beat"):
            self._beats[link] = said.beat
            plain = attach_pb2.Observed()
            plain.CopyFrom(said)
            plain.ClearField("beat")
            if not said.HasField("hello") and plain == self._last.get(link):
                return
        else:
            plain = said
        waiting = self._said.get(link)
        if waiting is not None and waiting.HasField("hello"):
            again = attach_pb2.Observed()
            again.CopyFrom(plain)
            again.hello.CopyFrom(waiting.hello)
            self._said[link] = again
        else:
            self._said[link] = plain
        self._last[link] = _without_hello(plain)

    def go(self, link: int, by_peer: bool) -> None:
        """A launcher's stream ended; nothing follows on its link."""
        self.forget(link)
        self._gone[link] = by_peer

    def forget(self, link: int) -> None:
        """The root ended the link: it wants to hear nothing more of it."""
        self._last.pop(link, None)
        self._beats.pop(link, None)
        said = self._said.get(link)
        if said is not None and said.HasField("hello"):
            del self._said[link]  # it never got as far as the root

    def take(self) -> relay_pb2.AttachManyRequest | None:
        """The message, which begins anew; None when there is nothing to send."""
        if self.is_empty:
            return None
        message = relay_pb2.AttachManyRequest()
        for link, said in self._said.items():
            message.observed.add(link=link, observed=said)
        for link, beat in self._beats.items():
            message.beats.add(link=link, beat=beat)
        for link, by_peer in self._gone.items():
            message.gone.add(link=link, by_peer=by_peer)
        self._said, self._beats, self._gone = {}, {}, {}
        return message


def _without_hello(said: attach_pb2.Observed) -> attach_pb2.Observed:
    if not said.HasField("hello"):
        return said
    plain = attach_pb2.Observed()
    plain.CopyFrom(said)
    plain.ClearField("hello")
    return plain
