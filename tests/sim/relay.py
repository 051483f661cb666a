"""A relay with its real decisions (`relay/links.py`), between launchers' streams below and one stream to the root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from resurge_libs.core.refusals import Overloaded, RpcProblem, Unready
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.pace import MOST_SAID, Pace
from resurge_rendezvous.relay.batch import Words
from resurge_rendezvous.relay.links import NO_ROOT, Links
from resurge_rendezvous.relay.settings import RelaySettings
from tests.sim.dial import dial
from tests.sim.messages import Beat, Downward, Introduction, LinkEnd
from tests.sim.network import Stream

if TYPE_CHECKING:
    from tests.sim.world import World

SEND_S = 0.0003
SETTINGS = RelaySettings()


class Relay:
    """One relay process, over all its lives."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.alive = self.paused = False
        self.reachable = True
        self.up: Stream | None = None
        self._pace = Pace()
        self._links: Links[Stream, rm.Hello, rm.Observed, Beat] = self._nothing()
        self._link_of: dict[Stream, int] = {}
        self._said: dict[int, rm.Observed] = {}
        self._held: list[Callable[[], None]] = []
        """What comes while it stands still."""
        self._life = 0
        self._send_at_s: float | None = None

    @property
    def way_up(self) -> str:
        """The name of the link between this relay and the root."""
        return f"{self.name}^"

    def _nothing(self) -> Links[Stream, rm.Hello, rm.Observed, Beat]:
        return Links(SETTINGS.max_launchers, self.world.setup.limits.lease_ttl_s)

    # ------------------------------------------------------------------------------------------- life and death

    def start(self) -> None:
        self._life += 1
        self.alive, self.paused, self.reachable = True, False, True
        self._links, self._link_of, self._said, self._held = self._nothing(), {}, {}, []
        self._send_at_s, self._pace = None, Pace()
        self.world.log(self.name, "starts")
        self._dial()

    def later(self, wait_s: float, act: Callable[[], None]) -> None:
        """An act of this life; one that comes due while it stands still waits."""
        life = self._life
        self.world.timeline.after(wait_s, lambda: self._now(act) if self.alive and life == self._life else None)

    def _now(self, act: Callable[[], None]) -> None:
        if self.paused:
            self._held.append(act)
        else:
            act()

    def kill(self) -> None:
        """SIGKILL: its kernel closes every stream."""
        if not self.alive:
            return
        self._gone()
        up, self.up = self.up, None
        streams, self._link_of = self._link_of, {}
        for stream in streams:
            stream.server_close()
        if up is not None:
            up.client_close()

    def vanish(self) -> None:
        """Its machine loses power: nobody is told anything."""
        if not self.alive:
            return
        self._gone()
        self.reachable = False
        up, self.up = self.up, None
        streams, self._link_of = self._link_of, {}
        for stream in streams:
            stream.vanish_server()
        if up is not None:
            up.vanish()

    def _gone(self) -> None:
        self.alive = self.paused = False
        self._life += 1

    def pause(self, for_s: float) -> None:
        """Stand still, as under SIGSTOP."""
        if self.alive and not self.paused:
            self.paused = True
            life = self._life
            self.world.timeline.after(for_s, lambda: self._resume() if life == self._life else None)

    def _resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for act in held:
            if self.alive:
                self._now(act)

    # ------------------------------------------------------------------------------------------------- the root

    def _dial(self) -> None:
        net = self.world.net
        dial(self, net, net.link(self.way_up), self.world.service, self._connected, lambda _why: self._dial_later())

    def _dial_later(self) -> None:
        limits = self.world.setup.limits
        wait_s = self.world.chance.uniform(limits.reconnect_backoff_min_s, limits.reconnect_backoff_max_s)
        self.later(wait_s, self._dial)

    def _connected(self) -> None:
        service = self.world.service
        if not service.alive or self.up is not None:
            self._dial_later()
            return
        self.up = self.world.net.open_stream(self.way_up, self, service)
        service.accepted_relay(self.up)
        self._links.found()

    def _send_soon(self) -> None:
        batch = self._links.batch
        if batch.is_empty:
            return
        now_s = self.world.now_s
        paced_s = max(SEND_S, self._pace.wait_s(now_s, len(self._links)))
        at_s = now_s + (paced_s if batch.is_urgent else SETTINGS.beat_wait_s)
        if self._send_at_s is None or at_s < self._send_at_s:
            self._send_at_s = at_s
            self.later(at_s - now_s, lambda: self._send(at_s))

    def _send(self, planned_s: float) -> None:
        if self._send_at_s != planned_s:
            return
        self._send_at_s = None
        if self._links.batch.is_urgent:
            self._pace.left(self.world.now_s)
        while (upward := self._links.batch.take(MOST_SAID)) is not None and self.up is not None:
            self.up.send_up(upward)

    def _hand_out(self, link: int, told: object) -> None:
        if isinstance(told, LinkEnd):
            stream = self._links.ended(link)
            if stream is not None:
                self._link_of.pop(stream, None)
                stream.server_close(told.refusal)
        else:
            down = self._links.down(link)
            if down is not None:
                down.send_down(told)

    def calm_way(self, stream: Stream) -> str:
        """What rendezvous calls a launcher's link while nothing between the two can go wrong; "" while it may."""
        link = self._link_of.get(stream)
        if link is None or not self.alive or self.paused or self.up is None or not self._links.batch.is_empty:
            return ""
        return f"{self.up.name}/{link}" if self.up.link.whole else ""

    # ------------------------------------------------------------------------------------------------- launchers

    def accepted(self, stream: Stream) -> None:
        """A launcher has connected; it is served from its introduction on."""

    def heard(self, stream: Stream, message: object) -> None:
        if self.alive:
            self._now(lambda: self._hear(stream, message))

    def _hear(self, stream: Stream, message: object) -> None:
        match message:
            case Downward(told) if stream is self.up:
                for link, one in told:
                    self._hand_out(link, one)
            case Introduction(hello, observed):
                try:
                    link = self._link_of[stream] = self._links.open(stream)
                except (Unready, Overloaded) as refusal:
                    self._refuse(stream, refusal)
                    return
                self._say(link, Words(observed, hello))
            case rm.Observed() if stream in self._link_of:
                self._say(self._link_of[stream], Words(message))
            case Beat() if stream in self._link_of:
                link = self._link_of[stream]
                self._say(link, Words(self._said[link], None, message))

    def _say(self, link: int, words: Words[rm.Hello, rm.Observed, Beat]) -> None:
        self._said[link] = words.observed
        if self._links.say(link, words):
            self._send_soon()

    def _refuse(self, stream: Stream, refusal: RpcProblem) -> None:
        stream.server_close(refusal)

    def stream_ended(self, stream: Stream, *, by_peer: bool, message: object) -> None:
        if self.alive:
            self._now(lambda: self._end(stream, by_peer))

    def _end(self, stream: Stream, by_peer: bool) -> None:
        if stream is self.up:
            self.up = None
            self.world.log(self.name, "has lost rendezvous")
            self._link_of, self._said = {}, {}
            for launcher in self._links.let_go():
                self._refuse(launcher, NO_ROOT)
            self._dial_later()
            return
        link = self._link_of.pop(stream, None)
        if link is not None:
            self._said.pop(link, None)
            if self._links.go(link, by_peer):
                self._send_soon()
