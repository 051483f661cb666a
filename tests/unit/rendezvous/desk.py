"""A desk at which a rendezvous machine is asked by hand-driven launchers, in virtual time.

After each step the desk checks what must always hold: the fold of the facts is the durable state (S10), its encoding
comes back as it went, generations only rise (S2).
"""

from __future__ import annotations

from dataclasses import replace

from resurge_libs.core import codec
from resurge_libs.core.ids import Generation, Incarnation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.machine import Reply, Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core.facts import Fact
from resurge_rendezvous.core.model import (
    AskPolicy,
    BeatReceived,
    CloseStream,
    Down,
    Exit,
    ExitRecord,
    ExportRecovery,
    Hello,
    HelloReceived,
    JobSpec,
    Milestone,
    MilestoneKind,
    NodePhase,
    Observed,
    ObservedReceived,
    Park,
    Run,
    SendDesired,
    Stamp,
    StoreOffer,
    StreamClosed,
    Tick,
    VerdictArrived,
)
from resurge_rendezvous.core.step import RendezvousMachine

WALL_AT_START = 5_000.0  # small, so that approximate comparisons of wall times mean something
LIMITS = TimeLimits()
SPEC = JobSpec(JobId("job"), min_nodes=2, max_nodes=3, max_restarts=3, command_digest="abc")
RESTART = Verdict(VerdictKind.RESTART, Because(Reason.RESTART_WITHIN_BUDGET, "again"), source="policy")


class Desk:
    def __init__(self, spec: JobSpec = SPEC, limits: TimeLimits = LIMITS, check: bool = True):
        self.spec, self.limits, self.check = spec, limits, check
        self.machine = RendezvousMachine(limits)
        self.state = self.machine.initial()
        self.now = Instant(100.0)
        self.ids = 0
        self.late_s = 0.0
        """For how long the service had no time to look, as each event has it."""
        self.facts: list[Fact] = []
        self.last: Step | None = None
        self.goals: dict[str, object] = {}
        self.runs: dict[str, Run] = {}
        self.revisions: dict[str, int] = {}
        self.streams: dict[str, str] = {}
        self.incarnations: dict[str, int] = {}
        self.asked: list[AskPolicy] = []
        self.exported: list = []
        self.closed: list[CloseStream] = []
        self.replies: list = []

    # time

    @property
    def wall(self) -> Wall:
        return Wall(WALL_AT_START + self.now)

    def stamp(self, chance: float = 0.5) -> Stamp:
        self.ids += 1
        return Stamp(self.wall, f"id-{self.ids}", chance, self.late_s)

    def wait(self, for_s: float, beats: tuple[str, ...] = ()):
        """Let time pass in ticks, while the named nodes beat."""
        end = self.now + for_s
        while True:
            due = self.machine.next_deadline(self.state)
            beat_at = self.now + self.limits.beat_interval_s if beats else end
            at = min(end, beat_at, due if due is not None else end)
            self.now = Instant(max(self.now, at))
            for node in beats:
                self.beat(node)
            due = self.machine.next_deadline(self.state)
            if due is not None and due <= self.now:
                self.ask(Tick(self.stamp()))
            if self.now >= end:
                return

    # asking

    def ask(self, event) -> Step:
        before = self.state.durable
        step = self.machine.step(self.state, event, self.now)
        self.state, self.last = step.state, step
        self.facts.extend(step.facts)
        if self.check:
            self._check(before, step)
        for action in step.actions:
            self._take(action)
        return step

    def _check(self, before, step: Step):
        assert step.reason.code is not None
        if step.facts:
            self._check_facts(before, step)
        self._check_deadline(step.state)

    def _check_deadline(self, state):
        """Ticks must bring a deadline into the future, or a service would spin."""
        for _ in range(3):
            due = self.machine.next_deadline(state)
            if due is None or due > self.now:
                return
            state = self.machine.step(state, Tick(self.stamp()), self.now).state
        raise AssertionError(f"a deadline stays in the past: {state.volatile.timers}")

    def _check_facts(self, before, step: Step):
        folded = before
        for fact in step.facts:
            again = codec.decode(Fact, codec.encode(fact))
            folded = self.machine.evolve(folded, again)
        assert folded == step.state.durable, "S10: the fold of the facts is not the durable state"
        assert codec.digest(folded) == codec.digest(step.state.durable)
        assert step.state.durable.generation >= before.generation, "S2"
        assert step.state.durable.attempt >= before.attempt, "S2"

    def _take(self, action):
        match action:
            case SendDesired(node, stream, desired):
                assert self.streams.get(node) == stream, "a goal was sent on a stream that is not there"
                assert desired.revision > self.revisions.get(node, 0), "revisions rise"
                self.goals[node], self.revisions[node] = desired.goal, desired.revision
                if isinstance(desired.goal, Run):
                    self.runs[node] = desired.goal
            case AskPolicy():
                self.asked.append(action)
            case ExportRecovery(record):
                self.exported.append(record)
            case CloseStream(node, stream):
                self.closed.append(action)
                if self.streams.get(node) == stream:
                    del self.streams[node]
            case Reply(value):
                self.replies.append(value)

    # launchers

    def hello(self, node: str, incarnation: int = 1, stream: str | None = None, **more) -> Step:
        name = stream or f"{node}/{incarnation}/{self.ids}"
        before = self.streams.get(node)
        self.streams[node] = name
        spec = more.pop("spec", self.spec)
        more.setdefault("boot_id", f"boot-{node}")
        more.setdefault("pid", incarnation)
        more.setdefault("host", node)
        hello = Hello(spec, NodeId(node), Incarnation(incarnation), **more)
        event = HelloReceived(self.stamp(), name, hello, self.revisions.get(node, 0))
        step = self.ask(event)
        if any(isinstance(a, CloseStream) and a.stream == name for a in step.actions):
            if before is not None:
                self.streams[node] = before
        else:
            self.incarnations[node] = incarnation
        return step

    def tell(self, node: str, phase: NodePhase, generation: int = 0, **more) -> Step:
        more.setdefault("revision_seen", self.revisions.get(node, 0))
        more.setdefault("store_offer", StoreOffer(node, 29500))
        observed = Observed(phase, Generation(generation), **more)
        return self.ask(ObservedReceived(self.stamp(), self.streams[node], NodeId(node), observed))

    def join(self, *nodes: str, **more):
        for number, node in enumerate(nodes):
            self.hello(
                node, infra_rank=more.get("infra_rank", number), **{k: v for k, v in more.items() if k != "infra_rank"}
            )
            self.ready(node)

    def ready(self, node: str, **more) -> Step:
        return self.tell(node, NodePhase.READY, self.generation_down(node), **more)

    def generation_down(self, node: str) -> int:
        goal = self.goals.get(node)
        return goal.generation if isinstance(goal, Down) else 0

    def running(self, *nodes: str, **more):
        for node in nodes:
            goal = self.run_of(node)
            self.tell(node, NodePhase.RUNNING, goal.generation, **more)

    def proven(self, *nodes: str):
        """Every rank of these nodes reports a whole start."""
        for node in nodes:
            goal = self.run_of(node)
            count = self.state.durable.nodes.get(node).local_world_size
            marks = tuple(
                Milestone(Rank(goal.base_rank + n), kind, Wall(self.wall), 7)
                for n in range(count)
                for kind in MilestoneKind
            )
            self.tell(node, NodePhase.RUNNING, goal.generation, milestones=marks)

    def crash(self, node: str, signal: int = 11, rank: int | None = None, at: float | None = None) -> Step:
        goal = self.runs[node]
        number = goal.base_rank if rank is None else rank
        record = ExitRecord(Rank(number), 0, 4711, Wall(at if at is not None else self.wall), signal=signal)
        return self.tell(node, NodePhase.TEARING_DOWN, goal.generation, exits=(record,))

    def down(self, *nodes: str):
        for node in nodes:
            goal = self.goals[node]
            assert isinstance(goal, Down), f"{node} is told {goal}"
            self.tell(node, NodePhase.READY, goal.generation)

    def finish(self, *nodes: str):
        for node in nodes:
            goal = self.run_of(node)
            count = self.state.durable.nodes.get(node).local_world_size
            exits = tuple(
                ExitRecord(Rank(goal.base_rank + n), n, 1, Wall(self.wall), exit_code=0) for n in range(count)
            )
            self.tell(node, NodePhase.FINISHED, goal.generation, exits=exits)

    def beat(self, node: str) -> Step | None:
        if node not in self.streams:
            return None
        return self.ask(self.beat_event(node))

    def beat_event(self, node: str) -> BeatReceived:
        return BeatReceived(self.stamp(), self.streams[node], NodeId(node), self.ids, float(self.wall), 0.0, 0.001)

    def ask_offset(self, node: str, offset_s: float):
        """A beat that measured the node's clock: service time is launcher time plus the offset."""
        stream = self.streams[node]
        self.ask(BeatReceived(self.stamp(), stream, NodeId(node), 0, float(self.wall), offset_s, 0.001))

    def close(self, node: str, by_peer: bool = True) -> Step:
        return self.ask(StreamClosed(self.stamp(), self.streams.pop(node), NodeId(node), by_peer))

    def verdict(self, verdict: Verdict = RESTART) -> Step:
        return self.answer(self.asked[-1], verdict)

    def answer(self, asked: AskPolicy, verdict: Verdict = RESTART) -> Step:
        """Policy's word on one question."""
        view = asked.view
        return self.ask(VerdictArrived(self.stamp(), IncidentId(view.incident), view.round, verdict, asked.question))

    def restart_service(self):
        """The service is killed and comes back from its journal: all streams are gone."""
        durable = self.machine.initial().durable
        for fact in self.facts:
            durable = self.machine.evolve(durable, fact)
        assert durable == self.state.durable, "S10 over the whole journal"
        self.streams.clear()
        self.state = self.machine.recovered(durable, self.now)

    # looking

    @property
    def job(self):
        return self.state.durable

    @property
    def stage(self) -> str:
        return type(self.job.stage).__name__

    def run_of(self, node: str) -> Run:
        goal = self.goals[node]
        assert isinstance(goal, Run), f"{node} is told {goal}"
        return goal

    def told(self, node: str) -> str:
        goal = self.goals.get(node)
        match goal:
            case Run(generation):
                return f"RUN {generation}"
            case Down(generation):
                return f"DOWN {generation}"
            case Park():
                return "PARK"
            case Exit(code):
                return f"EXIT {code}"
            case _:
                return "NOTHING"

    def facts_of(self, kind: type) -> list:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def spec(**changes) -> JobSpec:
    return replace(SPEC, **changes)


def started(desk: Desk | None = None, *spares: str) -> Desk:
    """Two nodes run generation 1 and have committed a step; the others are spares."""
    d = desk or Desk()
    d.join("n0", "n1", *spares)
    d.proven("n0", "n1")
    return d
