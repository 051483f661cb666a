"""A launcher's line to rendezvous, as the real stream client keeps it: dials with backoff, introduces itself, beats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from resurge_launcher.core import happenings as h
from resurge_launcher.core.ways import Ways
from resurge_libs.core.ids import Incarnation, NodeId
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import RpcProblem
from resurge_rendezvous.core import model as rm
from tests.sim import mapping
from tests.sim.dial import dial
from tests.sim.messages import Beat, Introduction
from tests.sim.network import Stream

if TYPE_CHECKING:
    from tests.sim.launcher import Launcher
    from tests.sim.relay import Relay
    from tests.sim.service import Service

ROOT = ""
"""The name of the way to rendezvous itself."""
AFTER_PAUSE_S = 0.02
"""A beat that comes due in a pause is sent so soon after it, at most."""
REASONS = {
    h.Refusal.SUPERSEDED: Reason.SUPERSEDED,
    h.Refusal.ALREADY_ATTACHED: Reason.ALREADY_ATTACHED,
    h.Refusal.NOT_WELCOME: Reason.BAD_REQUEST,
}


@dataclass(frozen=True)
class Heard:
    """A message that lay in the socket while the process stood still."""

    stream: Stream
    message: object


class ControlLine:
    """One launcher's connection, over all its streams."""

    def __init__(self, owner: Launcher) -> None:
        self.owner, self.limits = owner, owner.rules.limits
        self.stream: Stream | None = None
        self.met = False
        relays = list(owner.world.relays)
        self._ways = Ways.through(owner.world.chance.sample(relays, len(relays)) if relays else (), ROOT)
        self._heard_at_s = 0.0
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._clock_reading: tuple[float, float] | None = None
        self.unheard_s: float | None = None
        """When the last beat was sent whose answer the launcher has not taken; see calm.py."""
        self.granted_s: float | None = None

    def dial(self) -> None:
        """Try to open a stream."""
        if self.stream is not None or not self.owner.alive:
            return
        if self.owner.paused:
            self.owner.later(0.1, self.dial)
            return
        world = self.owner.world
        dial(self.owner, world.net, world.net.link(self._link_name), self._target, self._connected, self.dial_failed)

    @property
    def _target(self) -> Service | Relay:
        world = self.owner.world
        return world.service if self._ways.now == ROOT else world.relays[self._ways.now]

    @property
    def _link_name(self) -> str:
        return self.owner.node if self._ways.now == ROOT else f"{self.owner.node}>{self._ways.now}"

    def goes_through(self, relay: str) -> bool:
        """Whether it speaks through this relay, or is trying to."""
        return self._ways.now == relay

    def dial_failed(self, why: str) -> None:
        self._ways = self._ways.failed(None)
        self.owner.post(h.StreamLost(why))
        self.dial_later()

    def dial_later(self) -> None:
        limits = self.limits
        wait_s = self.owner.world.chance.uniform(limits.reconnect_backoff_min_s, limits.reconnect_backoff_max_s)
        self.owner.later(wait_s, self.dial)

    def _connected(self) -> None:
        target = self._target
        if not target.alive or self.stream is not None or not self.owner.alive:
            return self.dial_failed("connection refused")
        self.stream = self.owner.world.net.open_stream(self._link_name, self, target)
        self.met, self._heard_at_s = False, self.owner.timeline.now_s
        self._sent.clear()
        target.accepted(self.stream)
        self.stream.send_up(Introduction(self._hello(), mapping.observed(self.owner.observed, self.owner.clock)))
        self._beat(self.stream)
        return None

    def _hello(self) -> rm.Hello:
        return rm.Hello(
            spec=self.owner.world.spec(self.owner.attempt),
            node=NodeId(self.owner.node),
            incarnation=Incarnation(self.owner.incarnation),
            boot_id=self.owner.boot,
            host=self.owner.host,
            pid=self.owner.incarnation,
            highest_generation=self.owner.state.highest_generation,
            highest_attempt=self.owner.state.highest_attempt,
            infra_rank=self.owner.world.order_of(self.owner.node),
            local_world_size=self.owner.rules.local_world_size,
            take_over=self.owner.take_over,
            address=self.owner.node,
            machine_id=self.owner.machine_id,
        )

    def _beat(self, stream: Stream) -> None:
        if stream is not self.stream or not self.owner.alive:
            return
        if self.owner.paused:
            self.owner.later(
                AFTER_PAUSE_S, lambda: self._beat(stream)
            )  # overdue, it is sent at once when it runs again
            return
        if self.owner.timeline.now_s - self._heard_at_s >= self.limits.lease_ttl_s:
            stream.give_up_client()  # whoever does not answer beats for a whole lease is as good as gone
            return
        self._sequence += 1
        if self.owner.world.setup.calm_beats and (way := self._calm_way(stream)):
            self._heard_at_s = self.unheard_s = self.owner.timeline.now_s
            self.granted_s = None
            self.owner.world.service.calm.expect(self, way)
            self.owner.later(self.limits.beat_interval_s, lambda: self._beat(stream))
            return
        self._send_beat(stream)
        self.owner.later(self.limits.beat_interval_s, lambda: self._beat(stream))

    def beat_now(self) -> None:
        """One beat more than its interval wants, if there is a way to send it."""
        if self.stream is not None:
            self._sequence += 1
            self._send_beat(self.stream)

    def _send_beat(self, stream: Stream) -> None:
        self._sent[self._sequence] = self.owner.timeline.now_s
        offset, error = self._clock_reading or (None, None)
        stream.send_up(Beat(self._sequence, self.owner.clock.wall(self.owner.timeline.now_s), offset, error))

    def _calm_way(self, stream: Stream) -> str:
        """What rendezvous calls this way while nothing on it can go wrong; "" while something may."""
        link = stream.link
        if not (self.met and stream.server_open and link.whole and link.slow_s == 0.0):
            return ""
        service = self.owner.world.service
        if not service.is_at_rest:
            return ""
        return stream.name if stream.server is service else self._target.calm_way(stream)

    def calm_beat(self, sent_s: float) -> Beat:
        """The beat that was not sent as a message."""
        offset, error = self._clock_reading or (None, None)
        return Beat(self._sequence, self.owner.clock.wall(sent_s), offset, error)

    def hear_calm(self) -> None:
        """Take the answer to the last beat, if it was not a message, before anything else happens here."""
        sent_s, self.unheard_s = self.unheard_s, None
        if sent_s is None:
            return
        self.owner.world.service.calm.take(self)
        granted_s = self.limits.lease_ttl_s if self.granted_s is None else self.granted_s
        self.owner.apply(h.BeatAcked(self.owner.clock.instant(sent_s), granted_s))

    def heard(self, stream: Stream, message: object) -> None:
        if stream is not self.stream or not self.owner.alive:
            return
        if self.owner.paused:
            # read from the socket only when it runs again
            self.owner.keep_for_later(Heard(stream, message))
            return
        self._take(stream, message)
        self.owner.arm()

    def take_late(self, heard: Heard) -> None:
        """What lay in the socket while the launcher stood still."""
        if heard.stream is self.stream:
            self._take(heard.stream, heard.message)

    def _take(self, stream: Stream, message: object) -> None:
        self._heard_at_s = self.owner.timeline.now_s
        if not self.met:
            self.met = True
            self.owner.world.slow_to_turn.discard(self.owner.node)
            self.owner.apply(h.StreamUp())
            if not self.owner.alive:
                return
        match message:
            case rm.Desired():
                told = mapping.desired(message)
                self.owner.before_desired(told)
                self.owner.apply(told)
            case rm.AnswerBeat():
                self._acknowledged(message)

    def _acknowledged(self, answer: rm.AnswerBeat) -> None:
        sent_s = self._sent.pop(answer.sequence, None)
        if sent_s is None:
            return
        trip_s = self.owner.timeline.now_s - sent_s
        offset_s = answer.received - (self.owner.clock.wall(sent_s) + trip_s / 2)
        self._clock_reading = (offset_s, trip_s / 2)
        self.owner.apply(h.BeatAcked(self.owner.clock.instant(sent_s), answer.lease_ttl_s))

    def stream_ended(self, stream: Stream, *, by_peer: bool, message: object) -> None:
        if stream is not self.stream or not self.owner.alive:
            return
        if self.owner.paused:
            self.owner.later(0.05, lambda: self.stream_ended(stream, by_peer=by_peer, message=message))
            return
        self.stream = None
        refused = mapping.refusal(message)
        if refused is not None:
            self.owner.post(h.Refused(refused, Because(REASONS[refused], str(message))))
            return
        self._ways = self._ways.failed(message if isinstance(message, RpcProblem) else None)
        self.owner.post(h.StreamLost("closed by rendezvous" if by_peer else "no answer to pings"))
        self.dial_later()
