"""The path between one launcher and rendezvous: streams that keep their order until they break, and links that block.

A blocked direction holds what is sent, as TCP does, and lets it go late when it heals; whoever gets no answer to its
pings meanwhile gives the stream up. A process that dies has its kernel close its streams; a machine without power
closes nothing. After a reconnect the launcher tells everything again, so that messages are doubled by nature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Protocol

from resurge_libs.core.time_limits import TimeLimits
from tests.sim.timeline import Timeline

Act = Callable[[], None]
MESSAGES_PER_S = 1 / 0.001
"""The delays of messages are spread as the gaps between so many a second."""


@dataclass
class Path:
    """One direction of a link."""

    open: bool = True
    blocked: int = 0
    """Counts its blockages: a watcher sees whether the same one still lasts."""


@dataclass
class Link:
    """What lies between one node and the control plane."""

    up: Path = field(default_factory=Path)
    down: Path = field(default_factory=Path)
    slow_s: float = 0.0
    """Every message may be late by up to so much."""

    @property
    def whole(self) -> bool:
        return self.up.open and self.down.open


class Listener(Protocol):
    """What the two ends of a stream hear."""

    def heard(self, stream: Stream, message: object) -> None: ...
    def stream_ended(self, stream: Stream, *, by_peer: bool, message: object) -> None: ...


@dataclass
class _Way:
    """Messages under way in one direction."""

    last_s: float = 0.0
    held: list[Act] = field(default_factory=list)
    cut: bool = False
    """What is still under way when the sender's kernel reset the connection is lost."""


class Stream:
    """One bidirectional stream with its two ends, which learn of its end at different times."""

    def __init__(self, number: int, link: Link, net: Network, client: Listener, server: Listener) -> None:
        self.name, self.link, self.net = f"s{number}", link, net
        self.client, self.server = client, server
        self.client_open = self.server_open = True
        self._up, self._down = _Way(), _Way()

    def send_up(self, message: object) -> None:
        if self.client_open:
            self._send(self._up, self.link.up, lambda: self._arrive_up(message))

    def send_down(self, message: object) -> None:
        if self.server_open:
            self._send(self._down, self.link.down, lambda: self._arrive_down(message))

    def client_close(self) -> None:
        """The launcher, or its kernel, closes; rendezvous hears of it when the word gets through."""
        if self.client_open:
            self.client_open = False
            self._close(self._up, self.link.up, lambda: self._end_server(by_peer=True))

    def server_close(self, message: object = None) -> None:
        """Rendezvous, or its kernel, closes, perhaps with a last word."""
        if self.server_open:
            self.server_open = False
            self._close(self._down, self.link.down, lambda: self._end_client(message), gently=message is not None)

    def vanish(self) -> None:
        """The launcher's machine is gone without a word."""
        self.client_open = False
        self._up.cut = True
        self.net.watch_server(self)

    def vanish_server(self) -> None:
        """The other machine is gone without a word."""
        self.server_open = False
        self._down.cut = True
        self.net.watch_client(self, lambda: True)

    def give_up_client(self) -> None:
        """The launcher got no answer to its pings."""
        if self.client_open:
            self.client_close()
            self.client.stream_ended(self, by_peer=False, message=None)

    def reset(self) -> None:
        """Something between the two ends the connection; each side takes it for the other's kernel."""
        self._up.cut = self._down.cut = True
        self._end_server(by_peer=True)
        self._end_client(None)

    def give_up_server(self) -> None:
        """Rendezvous got no answer to its pings."""
        if self.server_open:
            self.server_close()
            self.server.stream_ended(self, by_peer=False, message=None)

    def release(self) -> None:
        """What was held goes on its way where the link is open again."""
        for way, path in ((self._up, self.link.up), (self._down, self.link.down)):
            if path.open:
                held, way.held = way.held, []
                for act in held:
                    self._send(way, path, act)

    def _send(self, way: _Way, path: Path, act: Act) -> None:
        if not path.open:
            way.held.append(act)
            return
        at_s = max(way.last_s, self.net.timeline.now_s + self.net.delay_s(self.link))
        way.last_s = at_s
        self.net.timeline.at(at_s, act)

    def _close(self, way: _Way, path: Path, act: Act, *, gently: bool = False) -> None:
        # a reset overtakes what was under way, a proper end comes behind it
        if not gently and self.net.chance.random() < 0.5:
            way.cut = True
        self._send(way, path, act)

    def _arrive_up(self, message: object) -> None:
        if self.server_open and not self._up.cut:
            self.server.heard(self, message)

    def _arrive_down(self, message: object) -> None:
        if self.client_open and not self._down.cut:
            self.client.heard(self, message)

    def _end_server(self, *, by_peer: bool) -> None:
        if self.server_open:
            self.server_open = False
            self.server.stream_ended(self, by_peer=by_peer, message=None)

    def _end_client(self, message: object) -> None:
        if self.client_open:
            self.client_open = False
            self.client.stream_ended(self, by_peer=True, message=message)


class Network:
    """All links and streams, and the pings that find a silent peer."""

    def __init__(self, timeline: Timeline, chance: Random, limits: TimeLimits) -> None:
        self.timeline, self.chance, self.limits = timeline, chance, limits
        self.links: dict[str, Link] = {}
        self.streams: list[Stream] = []
        self._number = 0
        self._kept = 16
        """So many streams may there be before the closed ones are forgotten."""

    def link(self, node: str) -> Link:
        return self.links.setdefault(node, Link())

    def delay_s(self, link: Link) -> float:
        late_s = self.chance.random() * link.slow_s if link.slow_s else 0.0
        return 0.0002 - log(1.0 - self.chance.random()) / MESSAGES_PER_S + late_s

    def open_stream(self, node: str, client: Listener, server: Listener) -> Stream:
        self._number += 1
        if len(self.streams) > self._kept:
            self.streams = [s for s in self.streams if s.client_open or s.server_open]
            self._kept = 2 * len(self.streams)
        stream = Stream(self._number, self.link(node), self, client, server)
        self.streams.append(stream)
        return stream

    def links_of(self, name: str) -> list[Link]:
        """The links with an end at a node or relay; `n1>r2` lies between the two, `r2^` between r2 and the root."""
        self.link(name)
        return [link for key, link in self.links.items() if key == name or name in key.split(">")]

    def block(self, name: str, *, up: bool, down: bool) -> None:
        """Nothing gets through in the named directions on any link of the name, until `heal`."""
        links = self.links_of(name)
        for link in links:
            for path, wanted in ((link.up, up), (link.down, down)):
                if wanted and path.open:
                    path.open, path.blocked = False, path.blocked + 1
        for stream in self._of(links):
            self._watch_blocked(stream)

    def heal(self, name: str) -> None:
        links = self.links_of(name)
        for link in links:
            link.up.open = link.down.open = True
        for stream in self._of(links):
            stream.release()

    def watch_client(self, stream: Stream, still: Callable[[], bool]) -> None:
        """The launcher gives the stream up if `still` holds after the ping timeout."""
        wait_s = (self.limits.keepalive_s + self.limits.client_ping_timeout_s) * self.chance.uniform(0.9, 1.2)
        self.timeline.after(wait_s, lambda: stream.give_up_client() if still() else None)

    def watch_server(self, stream: Stream, still: Callable[[], bool] = lambda: True) -> None:
        """Rendezvous gives the stream up if `still` holds after its ping timeout."""
        wait_s = self.limits.keepalive_s + self.limits.server_ping_timeout_s * self.chance.uniform(1.0, 1.2)
        self.timeline.after(wait_s, lambda: stream.give_up_server() if still() else None)

    def _watch_blocked(self, stream: Stream) -> None:
        link = stream.link
        before = (link.up.blocked, link.down.blocked)

        def same() -> bool:
            return not link.whole and before == (link.up.blocked, link.down.blocked)

        self.watch_client(stream, same)
        self.watch_server(stream, same)

    def _of(self, links: list[Link]) -> list[Stream]:
        # also streams that one side has closed: the word of it may still be held
        return [stream for stream in self.open_streams() if any(stream.link is link for link in links)]

    def open_streams(self) -> list[Stream]:
        """The streams that at least one side holds open."""
        return [stream for stream in self.streams if stream.client_open or stream.server_open]
