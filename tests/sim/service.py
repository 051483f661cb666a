"""Rendezvous with its real core: journal, group commit, streams; and the policy it asks, alive, slow, mute or gone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from resurge_libs.core import codec
from resurge_libs.core.instant import Wall
from resurge_libs.core.machine import Reply, Step, fold
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import RpcProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.verdict import EXIT_NO_RESTART, IncidentView, Verdict, VerdictKind, VerdictRules
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core.step import RendezvousMachine
from resurge_rendezvous.relay.batch import Upward
from resurge_restart_policy.core.step import decide
from tests.sim.calm import CalmBeats
from tests.sim.messages import Beat, Downward, Introduction, LinkEnd
from tests.sim.network import Stream
from tests.sim.process import SimProcess
from tests.sim.timeline import Clock

if TYPE_CHECKING:
    from tests.sim.world import World


@dataclass
class PolicyMood:
    """How the restart policy answers."""

    dead: bool = False
    mute: bool = False
    slowest_s: float = 0.01
    excludes: float = 0.0
    """How often it wants the first suspect's node out."""
    stops: float = 0.0
    """How often it wants the job to end."""
    grants: float = 0.0
    """How often it wants a restart that rendezvous itself must hold; progress is the policy's own to judge."""
    doubles: float = 0.0
    """How often its answer comes twice, the second one later."""


@dataclass
class _Way:
    """How one launcher is reached: a stream of its own, or a link of a relay's."""

    stream: Stream
    link: int | None = None
    node: str | None = None


@dataclass
class _Outgoing:
    """A step whose effects wait until it is durable."""

    event: Any
    before: Any
    step: Step[Any]
    durable_at_s: float


class _Disk:
    """Gives facts back as the journal's file does, and reads each once."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        """By the identity of the fact, which the journal keeps."""

    def read(self, fact: Any) -> Any:
        known = self._known.get(id(fact))
        if known is None:
            known = self._known[id(fact)] = codec.decode(rm.Fact, codec.encode(fact))
        return known


class LateLooker(SimProcess):
    """What it hears, it stamps when it looks."""

    def stamp(self) -> rm.Stamp:
        raise NotImplementedError

    def noticed(self, event: Any, late_s: float) -> Any:
        stamp = replace(self.stamp(), late_s=late_s)
        if isinstance(event, rm.BeatsReceived):
            return replace(event, stamp=stamp, beats=tuple(replace(beat, stamp=stamp) for beat in event.beats))
        return replace(event, stamp=stamp)


class Service(LateLooker):
    """The control plane's process, over all its lives; what it journaled outlives each."""

    name = "rdzv"

    def __init__(self, world: World, limits: TimeLimits) -> None:
        super().__init__(world.timeline, Clock())
        self.world = world
        self.machine = RendezvousMachine(limits)
        self.policy = PolicyMood()
        self.journal: list[tuple[Any, ...]] = []
        """The facts of each durable entry."""
        self._disk = _Disk()
        self.lives = 0
        self._replayed = rm.Job()
        """The fold of the durable entries, kept beside the live state to be compared with it."""
        self._outgoing: deque[_Outgoing] = deque()
        self._durable_at_s = 0.0
        self._ways: dict[str, _Way] = {}
        self._relays: dict[Stream, list[tuple[int, object]]] = {}
        """Relays' streams, and what is to go down each when this step is done."""
        self._ids = 0
        self.calm = CalmBeats(self)

    # ------------------------------------------------------------------------------------------- life and death

    def start(self) -> None:
        """Start from the journal, as after kill -9."""
        self.born()
        self.lives += 1
        chance = self.world.chance
        self.clock = Clock(chance.uniform(0, 1e5), 1.0, chance.uniform(-0.05, 0.05))
        durable = fold(self.machine, rm.Job(), tuple(self._disk.read(fact) for entry in self.journal for fact in entry))
        self.world.oracle.replayed(self, durable, self._replayed)
        self._replayed = durable
        self.world.log(self.name, f"starts with {len(self.journal)} entries, generation {durable.generation}")
        self.state = self.machine.recovered(durable, self.now)
        self.arm()

    def kill(self) -> None:
        """SIGKILL: what is not durable is lost, and so nobody was told of it."""
        if not self.alive:
            return
        self.died()
        self.calm.forget()
        self._outgoing.clear()
        ways, self._ways = self._ways, {}
        relays, self._relays = self._relays, {}
        for stream in (*(way.stream for way in ways.values() if way.link is None), *relays):
            stream.server_close()

    def lose_journal(self, last: int | None = None) -> None:
        """The disk lied: the last entries, or all, are gone. Only between two lives."""
        assert not self.alive
        keep = 0 if last is None else max(0, len(self.journal) - last)
        self.world.oracle.journal_lost(self)
        del self.journal[keep:]
        self._disk = _Disk()
        self._replayed = fold(self.machine, rm.Job(), tuple(fact for entry in self.journal for fact in entry))

    # ------------------------------------------------------------------------------------------------- engine

    def stamp(self, at_s: float | None = None) -> rm.Stamp:
        self._ids += 1
        wall = Wall(self.clock.wall(self.timeline.now_s if at_s is None else at_s))
        return rm.Stamp(wall, f"inc-{self.lives}-{self._ids}", self.world.chance.random())

    def tick_event(self) -> Any:
        return rm.Tick(self.stamp())

    def paused_event(self, for_s: float) -> Any:
        return rm.Paused(self.stamp(), for_s)

    def step(self, event: Any) -> Step[Any] | None:
        try:
            return self.machine.step(self.state, event, self.now)
        except RpcProblem as refusal:
            self.world.oracle.refused(event, refusal)
            return None

    def apply(self, event: Any) -> None:
        self.calm.take_all()
        super().apply(event)

    @property
    def is_at_rest(self) -> bool:
        """Whether it would hear a beat now and answer at once."""
        return self.alive and not self.paused and not self._outgoing

    def ask(self, event: Any) -> None:
        """A unary request; lost when the service is not there."""
        self.post(event)

    def stepped(self, event: Any, before: Any, step: Step[Any]) -> None:
        self.world.oracle.decided(self, event, before, step)
        wait_s = self.world.fsync_s() if step.facts else 0.0
        self._durable_at_s = max(self._durable_at_s, self.timeline.now_s + wait_s)
        self._outgoing.append(_Outgoing(event, before, step, self._durable_at_s))
        if self._durable_at_s <= self.timeline.now_s:
            self._flush()
        else:
            self.later(self._durable_at_s - self.timeline.now_s, self._flush)

    def _flush(self) -> None:
        while self._outgoing and self._outgoing[0].durable_at_s <= self.timeline.now_s + 1e-9:
            out = self._outgoing.popleft()
            if out.step.facts and self.world.disk_is_full:
                self.world.log(self.name, "cannot write its journal: the disk is full")
                self.kill()
                self.world.start_service_again()
                return
            if out.step.facts:
                self.journal.append(out.step.facts)
                self._replayed = fold(self.machine, self._replayed, out.step.facts)
                self.world.oracle.durable(self, out.step, self._replayed)
            for action in out.step.actions:
                self._act(action)
        for stream, told in self._relays.items():
            if told:
                stream.send_down(Downward(tuple(told)))
                told.clear()

    # ------------------------------------------------------------------------------------------------- actions

    def _act(self, action: Any) -> None:
        match action:
            case rm.SendDesired(node, stream, desired):
                self.world.log(self.name, f"-> {node} {_short(desired)}")
                self._tell(stream, desired)
            case rm.AnswerBeat(_, stream):
                self._tell(stream, action)
            case rm.CloseStream(node, stream, refusal):
                self.world.log(self.name, f"closes {stream} of {node}: {refusal or 'a newer stream took its place'}")
                way = self._ways.get(stream)
                if way is not None and way.link is None:
                    way.stream.server_close(refusal)
                self._tell(stream, LinkEnd(refusal))
                self._ways.pop(stream, None)
            case rm.AskPolicy(view, _, question):
                self._ask_policy(view, question)
            case rm.ExportRecovery(record):
                self.world.oracle.recovered(self, record)
            case Reply() | rm.PublishJob() | rm.AnnounceKey():
                pass
            case _:
                raise AssertionError(f"unknown action {action!r}")

    def _tell(self, stream: str, message: object) -> None:
        way = self._ways.get(stream)
        if way is not None and way.link is None:
            way.stream.send_down(message)
        elif way is not None and way.link is not None:
            self._relays[way.stream].append((way.link, message))

    def _ask_policy(self, view: IncidentView, question: int) -> None:
        mood = self.policy
        self.world.oracle.blame.asked[question] = view
        if mood.dead:
            event = rm.VerdictUnavailable(self.stamp(), view.incident, view.round, "connection refused", question)
            self.later(0.001, lambda: self.post(event))
        elif not mood.mute:
            verdict = self._verdict(view)
            answer = rm.VerdictArrived(self.stamp(), view.incident, view.round, verdict, question)
            wait_s = self.world.chance.uniform(0.001, mood.slowest_s)
            self.later(wait_s, lambda: self.post(answer))
            if mood.doubles and self.world.chance.random() < mood.doubles:
                self.later(wait_s + self.world.chance.uniform(0.0, 3.0), lambda: self.post(answer))

    def _verdict(self, view: IncidentView) -> Verdict:
        verdict, chance = decide(view, VerdictRules()), self.world.chance
        if not verdict.is_restart:
            grants = self.policy.grants and chance.random() < self.policy.grants
            grants = grants and verdict.because.code is not Reason.NO_PROGRESS
            return replace(verdict, kind=VerdictKind.RESTART, exit_code=0) if grants else verdict
        if chance.random() < self.policy.excludes:
            return replace(verdict, kind=VerdictKind.RESTART_EXCLUDING, excluded=frozenset({view.faults[0].node}))
        if chance.random() < self.policy.stops:
            because = Because(Reason.NO_PROGRESS, "the policy has seen enough")
            return replace(verdict, kind=VerdictKind.STOP, because=because, exit_code=EXIT_NO_RESTART)
        return verdict

    # ------------------------------------------------------------------------------------------------- streams

    def accepted(self, stream: Stream) -> None:
        """A launcher's own stream."""
        self._ways[stream.name] = _Way(stream)

    def accepted_relay(self, stream: Stream) -> None:
        """A relay's stream, with a link for each of its launchers."""
        self._relays[stream] = []

    def heard(self, stream: Stream, message: object) -> None:
        if isinstance(message, Upward):
            if stream in self._relays:
                self._heard_relay(stream, message)
        elif isinstance(message, Beat):
            if (beat := self.beat_of(stream.name, message)) is not None:
                self.post(beat)
        else:
            self._heard_launcher(stream.name, message)

    def _heard_launcher(self, name: str, message: object) -> None:
        way = self._ways.get(name)
        match message:
            case _ if way is None:
                pass
            case Introduction(hello, observed):
                way.node = hello.node
                self.post(rm.HelloReceived(self.stamp(), name, hello, observed.revision_seen))
                self.post(rm.ObservedReceived(self.stamp(), name, hello.node, observed))
            case rm.Observed() if way.node is not None:
                self.post(rm.ObservedReceived(self.stamp(), name, way.node, message))

    def beat_of(self, name: str, beat: Beat, stamp: rm.Stamp | None = None) -> rm.BeatReceived | None:
        """A beat as the core hears it; None on a way that is not known."""
        way = self._ways.get(name)
        if way is None or way.node is None:
            return None
        times = (beat.sent_wall, beat.clock_offset_s, beat.clock_error_s)
        return rm.BeatReceived(stamp or self.stamp(), name, way.node, beat.sequence, *times)

    def _heard_relay(self, stream: Stream, upward: Upward[rm.Hello, rm.Observed, Beat]) -> None:
        """As the root takes a relay's message: states, beats together, ends."""
        for link, words in upward.said:
            name = f"{stream.name}/{link}"
            if name in self._ways:
                self._heard_launcher(name, words.observed)
            elif words.hello is not None:
                self._ways[name] = _Way(stream, link)
                self._heard_launcher(name, Introduction(words.hello, words.observed))
        beats = [
            beat for link, said in upward.beats if (beat := self.beat_of(f"{stream.name}/{link}", said)) is not None
        ]
        if beats:
            self.post(rm.BeatsReceived(beats[0].stamp, tuple(beats)))
        for link, by_peer in upward.gone:
            self._launcher_gone(f"{stream.name}/{link}", by_peer=by_peer)

    def stream_ended(self, stream: Stream, *, by_peer: bool, message: object) -> None:
        if self._relays.pop(stream, None) is not None:
            # the relay's kernel does not speak for those of its launchers
            for name in [name for name, way in self._ways.items() if way.stream is stream]:
                self._launcher_gone(name, by_peer=False)
        else:
            self._launcher_gone(stream.name, by_peer=by_peer)

    def _launcher_gone(self, name: str, *, by_peer: bool) -> None:
        way = self._ways.pop(name, None)
        if way is not None and way.node is not None:
            self.post(rm.StreamClosed(self.stamp(), name, way.node, by_peer))


def knows_answer(service: Service, request: str) -> bool:
    """Whether a request was answered durably; of an ended job nothing more is asked."""
    durable = service._replayed
    return isinstance(durable.stage, rm.Ended) or any(known.request == request for known in durable.answers)


def _short(desired: rm.Desired) -> str:
    goal = desired.goal
    what = type(goal).__name__.upper()
    match goal:
        case rm.Run():
            what += f" g{goal.generation} rank {goal.base_rank} of {goal.world_size}"
        case rm.Down():
            what += f" g{goal.generation} ({goal.because})"
        case rm.Exit():
            what += f" {goal.code}{' all know' if goal.all_acknowledged else ''} ({goal.because})"
        case rm.Park():
            what += f" ({goal.because})"
    return f"#{desired.revision} {what}"
