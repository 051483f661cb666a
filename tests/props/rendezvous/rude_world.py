"""A random world around the rendezvous machine: late, twice, old incarnations, old generations, restarts, pauses.

The launchers here are honest about their workers and rude in everything else. What must hold: S10 after each step (the
desk checks it), S2, S3, S4, S5, and the server's half of S1: a generation is formed only when no node that holds a
lease has workers of an older one.
"""

from __future__ import annotations

import dataclasses
import random

from resurge_libs.core.ids import Generation, Incarnation, IncidentId, NodeId, Rank, RequestId
from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Refused
from resurge_libs.core.verdict import Verdict, VerdictKind, default_verdict
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core import model as m
from tests.unit.rendezvous.desk import Desk, spec

NODES = ("n0", "n1", "n2", "n3")
SPECS = (
    spec(max_nodes=4, max_restarts=3),
    spec(min_nodes=3, max_nodes=4, max_restarts=5, strict_fence=True),
    spec(min_nodes=1, max_nodes=4, max_restarts=1),
    spec(min_nodes=2, max_nodes=4, segment=2, max_restarts=4),
)


@dataclasses.dataclass
class Machine:
    """One machine of the world: its launcher, and the generation whose workers truly live there."""

    name: str
    incarnation: int = 1
    stream: str | None = None
    alive: int = 0
    last: int = 0
    goal: object = None
    revision: int = 0
    highest: int = 0
    lease_until: float = 0.0
    exits: tuple = ()
    finished: bool = False
    leaving: bool = False
    exited: bool = False


class Service:
    """The service's side of the world: what it does to the machines, and what must hold of it."""

    def __init__(self, seed: int, which: int, calm: int = 1):
        self.calm = calm
        self.rng = random.Random(seed)
        self.d = Desk(SPECS[which])
        self.d._take = self.take
        self.machines = {name: Machine(name) for name in NODES}
        self.asked: list = []
        self.old: list = []
        self.streams = 0

    # what the service does to the world

    def take(self, action):
        match action:
            case m.SendDesired(node, stream, desired):
                here = self.machines[node]
                if here.stream == stream and desired.revision > here.revision:
                    here.goal, here.revision = desired.goal, desired.revision
                    here.highest = max(here.highest, desired.current_generation)
            case m.AnswerBeat(node, stream, lease_ttl_s=ttl_s):
                here = self.machines[node]
                if here.stream == stream and ttl_s > 0:
                    here.lease_until = self.d.now + ttl_s
            case m.CloseStream(node, stream):
                here = self.machines[node]
                if here.stream == stream:
                    here.stream = None
            case m.AskPolicy(view, _, question):
                self.asked.append((view, question))

    def ask(self, event):
        self.old.append(event)
        before = self.d.job
        try:
            step = self.d.ask(event)
        except Refused:
            return
        self.check(before, step)

    # what must hold

    def check(self, before, step):
        job = step.state.durable
        assert job.restarts_spent <= job.spec.max_restarts if job.spec else True, "S3"
        for fact in step.facts:
            if isinstance(fact, f.RoundClosed):
                self.check_formation(before, fact.formation)
            if isinstance(fact, f.VerdictLatched):
                latched = [(x.incident, x.round) for x in self.d.facts if isinstance(x, f.VerdictLatched)]
                assert len(latched) == len(set(latched)), "S5"

    def check_formation(self, before, formation):
        for place in formation.assignments:
            entry = before.nodes.get(place.node)
            if entry is not None and entry.incarnation == place.incarnation:
                still_out = any(isinstance(x, f.NodeReadmitted) and x.node == place.node for x in self.d.last.facts)
                assert entry.exclusion is None or still_out, "S4"
            assert self.machines[place.node].alive == 0 or self.machines[place.node].incarnation != place.incarnation
        for here in self.machines.values():
            holds = here.lease_until > self.d.now
            assert not (holds and 0 < here.alive < formation.generation), f"S1: {here} at {formation.generation}"

    def policy(self):
        if not self.asked:
            return
        view, question = self.rng.choice(self.asked[-2:])
        draw = self.rng.random()
        if draw < 0.1:
            self.ask(m.VerdictUnavailable(self.d.stamp(), view.incident, view.round, "down", question))
            return
        verdict = default_verdict(view)
        if draw < 0.3:
            out = frozenset(self.rng.sample(NODES, 1))
            verdict = Verdict(
                VerdictKind.RESTART_EXCLUDING, Because(Reason.EXCLUDED, "x"), excluded=out, source="policy"
            )
        elif draw < 0.33:
            verdict = Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "x"), exit_code=93, source="policy")
        elif draw < 0.5:
            verdict = Verdict(VerdictKind.RESTART, Because(Reason.BACKOFF, "x"), delay_s=2.0, source="policy")
        self.ask(m.VerdictArrived(self.d.stamp(), IncidentId(view.incident), view.round, verdict, question))

    def tick(self):
        due = self.d.machine.next_deadline(self.d.state)
        if due is not None and (due <= self.d.now or self.rng.random() < 0.1):
            self.d.now = Instant(max(self.d.now, due))
        self.ask(m.Tick(self.d.stamp(self.rng.random())))

    def replay_old(self):
        """Something said long ago on a stream arrives again."""
        told = [
            event for event in self.old if isinstance(event, m.ObservedReceived | m.StreamClosed | m.VerdictArrived)
        ]
        present = {here.stream for here in self.machines.values()}
        told = [event for event in told if getattr(event, "stream", None) not in present]
        if told:
            self.ask(dataclasses.replace(self.rng.choice(told), stamp=self.d.stamp()))

    def restart(self):
        durable = self.d.machine.initial().durable
        for fact in self.d.facts:
            durable = self.d.machine.evolve(durable, fact)
        assert durable == self.d.state.durable, "S10 over the whole journal"
        self.d.state = self.d.machine.recovered(durable, self.d.now)
        for here in self.machines.values():
            here.stream = None

    def pause(self):
        self.ask(m.Paused(self.d.stamp(), self.rng.choice((0.5, 10.0))))

    def order(self):
        node, request = NodeId(self.rng.choice(NODES)), RequestId(f"r{self.rng.randint(0, 30)}")
        if self.rng.random() < 0.5:
            self.ask(m.ExcludeAsked(self.d.stamp(), request, node, "x", self.rng.choice((None, 5.0))))
        else:
            self.ask(m.ReadmitAsked(self.d.stamp(), request, node))

    def shutdown(self):
        self.ask(m.ShutdownAsked(self.d.stamp(), RequestId("s"), "x"))


class World(Service):
    """The machines' side: launchers that obey, tell, crash, leave, come back and come twice."""

    # what the world does

    def turn(self):
        rng = self.rng
        here = self.machines[rng.choice(NODES)]
        moves = (
            (6 * self.calm, self.obey),
            (5 * self.calm, self.tell),
            (4 * self.calm, self.beat),
            (6 * self.calm if here.stream is None else 1, self.attach),
            (1, self.crash),
            (0.6, self.kill_launcher),
            (0.6, self.break_stream),
            (0.3 * self.calm, self.finish),
            (0.15, self.leave),
            (0.3, self.second_launcher),
            (0.3, self.stuck),
        )
        world_moves = (
            (4 * self.calm, self.policy),
            (3 * self.calm, self.tick),
            (0.5, self.replay_old),
            (0.3, self.restart),
            (0.3, self.pause),
            (0.3, self.order),
            (0.02, self.shutdown),
        )
        if rng.random() < 0.75:
            rng.choices([move for _, move in moves], [weight for weight, _ in moves])[0](here)
        else:
            rng.choices([move for _, move in world_moves], [weight for weight, _ in world_moves])[0]()
        self.d.now = Instant(self.d.now + rng.choice((0.0, 0.01, 0.1, 0.1, 1.0, 1.0, 3.0)) / self.calm)
        for each in self.machines.values():  # a launcher whose lease is over ends its workers sooner or later
            if each.alive and each.lease_until < self.d.now - 2.0 and rng.random() < 0.3:
                each.alive = 0

    def attach(self, here: Machine):
        if here.exited:
            return
        self.streams += 1
        here.stream, here.revision = f"s{self.streams}", 0
        hello = m.Hello(
            self.d.spec,
            NodeId(here.name),
            Incarnation(here.incarnation),
            boot_id=f"b-{here.name}",
            pid=here.incarnation,
            highest_generation=Generation(here.highest),
            infra_rank=int(here.name[1]),
            domain="x" if here.name in ("n0", "n1") else "y",
            local_world_size=1 + int(here.name[1]) % 2,
            take_over=self.rng.random() < 0.1,
        )
        if here.lease_until < self.d.now + 5:
            here.lease_until = here.lease_until  # a greeting alone gives the launcher no lease
        self.ask(m.HelloReceived(self.d.stamp(self.rng.random()), here.stream, hello))
        self.tell(here)

    def observed(self, here: Machine) -> m.Observed:
        phase, generation = m.NodePhase.READY, here.last
        if here.leaving and here.alive:
            phase, generation = m.NodePhase.LEAVING, here.alive
        elif here.alive:
            phase, generation = m.NodePhase.RUNNING, here.alive
        elif here.finished:
            phase = m.NodePhase.FINISHED
        marks = ()
        if here.alive and isinstance(here.goal, m.Run) and self.rng.random() < 0.8:
            kinds = list(m.MilestoneKind)[: self.rng.randint(2, 4)]
            marks = tuple(
                m.Milestone(Rank(here.goal.base_rank + n), kind, Wall(self.d.wall + self.rng.uniform(-1, 1)), 3)
                for n in range(2)
                for kind in kinds
            )
        return m.Observed(
            phase,
            Generation(generation),
            here.revision,
            here.exits,
            (),
            marks,
            (),
            None,
            m.StoreOffer(here.name, 1) if self.rng.random() < 0.9 else None,
            isinstance(here.goal, m.Exit),
            15 if here.leaving else None,
        )

    def tell(self, here: Machine):
        if here.stream is not None:
            seen = self.observed(here)
            self.ask(m.ObservedReceived(self.d.stamp(self.rng.random()), here.stream, NodeId(here.name), seen))

    def beat(self, here: Machine):
        if here.stream is not None:
            offset = self.rng.choice((None, 0.0, 0.5))
            at = float(self.d.wall)
            self.ask(m.BeatReceived(self.d.stamp(), here.stream, NodeId(here.name), 1, at, offset, 0.01))

    def obey(self, here: Machine):
        match here.goal:
            case m.Run(generation) if not here.leaving:
                if here.alive and here.alive != generation:
                    here.last, here.alive = here.alive, 0
                if here.last < generation and not here.alive and here.lease_until > self.d.now:
                    here.alive, here.exits, here.finished = generation, (), False
            case m.Down(generation):
                here.alive = 0
                here.finished = False
                here.last = max(here.last, generation)
            case m.Park():
                here.last, here.alive = max(here.last, here.alive), 0
            case m.Exit():
                here.last, here.alive = max(here.last, here.alive), 0
        self.tell(here)

    def crash(self, here: Machine):
        if here.alive and isinstance(here.goal, m.Run):
            at = Wall(self.d.wall + self.rng.uniform(-2, 0.5))
            here.exits = (m.ExitRecord(Rank(here.goal.base_rank), 0, 1, at, signal=11),)
            self.tell(here)

    def finish(self, here: Machine):
        if here.alive and not here.exits and self.rng.random() < 0.3:
            here.last, here.alive, here.finished = here.alive, 0, True
            self.tell(here)

    def leave(self, here: Machine):
        here.leaving = True
        self.tell(here)

    def stuck(self, here: Machine):
        if here.alive and isinstance(here.goal, m.Down) and here.stream is not None:
            seen = m.Observed(m.NodePhase.STUCK, Generation(here.alive), here.revision)
            self.ask(m.ObservedReceived(self.d.stamp(), here.stream, NodeId(here.name), seen))

    def kill_launcher(self, here: Machine):
        """The launcher dies, its workers with it; the kernel may or may not get to say so; a new one may come."""
        stream, here.stream = here.stream, None
        here.alive, here.lease_until = 0, 0.0
        if stream is not None and self.rng.random() < 0.7:
            self.ask(m.StreamClosed(self.d.stamp(), stream, NodeId(here.name)))
        self.machines[here.name] = Machine(here.name, here.incarnation + 1, highest=here.highest)

    def break_stream(self, here: Machine):
        stream, here.stream = here.stream, None
        here.lease_until = min(here.lease_until, self.d.now + 1.0)  # resume_window_s, as the launcher counts
        if stream is not None and self.rng.random() < 0.7:
            by_peer = self.rng.random() < 0.8
            self.ask(m.StreamClosed(self.d.stamp(), stream, NodeId(here.name), by_peer))

    def second_launcher(self, here: Machine):
        hello = m.Hello(self.d.spec, NodeId(here.name), Incarnation(here.incarnation), boot_id=f"b-{here.name}", pid=99)
        self.ask(m.HelloReceived(self.d.stamp(), "second", hello))
        if here.stream is not None and self.d.state.volatile.seats.get(here.name) is not None:
            seat = self.d.state.volatile.seats.get(here.name)
            if seat.stream == "second":  # it was let in: what was there before is over
                self.kill_quietly(here)

    def kill_quietly(self, here: Machine):
        self.ask(m.StreamClosed(self.d.stamp(), "second", NodeId(here.name)))
        self.machines[here.name] = Machine(here.name, here.incarnation + 1, highest=here.highest)
