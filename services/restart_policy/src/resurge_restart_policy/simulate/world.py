"""One job on the nodes of a failure trace, from its first to its last event, under one policy. Same seed, same result.

The rules, in prose:

- `active` nodes train, the others are spares; a spare fills each gap in the order of names. A spare's fault is not seen
  until it trains.
- A fault that begins on a training node brings the job down at once. A node that trains while it is faulty brings it
  down again after a time drawn from an exponential distribution, until the trace says that it was repaired.
- The default verdict decides on the restart and its backoff, as in a real job; the policy under test decides on the
  node. Who is excluded comes back when it was repaired, and not before `repair_least_s`.
- A share of the nodes at most is excluded at a time; with too few nodes the job waits for the next that comes back.
- Time is booked in the ledger that a real job keeps, so goodput means the same here.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Booking, Doing, Ledger
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import FaultView, IncidentView, default_verdict
from resurge_restart_policy.simulate.policies import Offence, Policy
from resurge_restart_policy.simulate.trace import TracedFault

AGES_MAX = 32


@dataclass(frozen=True, slots=True)
class Setup:
    """What the trace does not say: the job and how long its phases take, in seconds."""

    nodes: int = 288
    active: int = 256
    step_s: float = 10.0
    checkpoint_steps: int = 180
    detection_s: float = 0.5
    teardown_s: float = 2.0
    rendezvous_s: float = 0.5
    start_s: float = 30.0
    restore_s: float = 120.0
    refail_mean_s: float = 1_800.0
    """How long a faulty node trains before it brings the job down again."""
    repair_least_s: float = 3_600.0
    excluded_share_max: float = 0.2
    max_restarts: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("nodes", "active", "checkpoint_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.active > self.nodes:
            raise ValueError(f"active ({self.active}) must not exceed nodes ({self.nodes})")
        for name in ("step_s", "refail_mean_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy cost."""

    policy: str
    ledger: Ledger
    restarts: int
    exclusions: int
    refused_exclusions: int
    """By the limit on the share of excluded nodes."""
    excluded_node_days: float

    @property
    def goodput(self) -> float:
        """The productive share of the wall time, from 0 to 1."""
        return self.ledger.productive_s / self.ledger.wall_s if self.ledger.wall_s > 0 else 0.0


@dataclass(slots=True)
class _Run:
    """One simulated job, as it goes."""

    faults: tuple[TracedFault, ...]
    setup: Setup
    policy: Policy
    chance: random.Random
    end_s: float
    ledger: Ledger = field(default_factory=Ledger)
    at_s: float = 0.0
    step: int = 0
    restarts: int = 0
    exclusions: int = 0
    refused: int = 0
    excluded_s: float = 0.0
    out_until: dict[str, float] = field(default_factory=dict)
    offences: dict[str, list[float]] = field(default_factory=dict)
    failures: list[float] = field(default_factory=list)
    training: list[str] = field(default_factory=list)
    by_node: dict[str, list[TracedFault]] = field(default_factory=dict)

    def book(self, doing: Doing, for_s: float = 0.0, **steps: int | bool | None) -> None:
        """From now on the job does this; then let `for_s` pass, but never beyond the end."""
        self.ledger = self.ledger.booked(Booking(doing, Wall(self.at_s), **steps))  # type: ignore[arg-type]
        self.at_s = min(self.end_s, self.at_s + for_s)


def simulate(name: str, policy: Policy, faults: Sequence[TracedFault], setup: Setup, seed: int) -> Outcome:
    """Run one policy over the whole trace. Raises ValueError for a trace with more nodes than the setup has."""
    named = sorted({fault.node for fault in faults})
    if len(named) > setup.nodes:
        raise ValueError(f"the trace names {len(named)} nodes, the setup has {setup.nodes}")
    healthy = [f"healthy-{number:05d}" for number in range(setup.nodes - len(named))]
    end_s = max((fault.end_s for fault in faults), default=0.0)
    run = _Run(tuple(faults), setup, policy, random.Random(seed), end_s)
    for fault in faults:
        run.by_node.setdefault(fault.node, []).append(fault)
    names = [*named, *healthy]
    run.chance.shuffle(names)
    run.book(Doing.WAITING)
    while run.at_s < end_s:
        _train(run, names)
    run.book(Doing.WAITING)
    return Outcome(name, run.ledger, run.restarts, run.exclusions, run.refused, run.excluded_s / 86_400.0)


def _train(run: _Run, names: Sequence[str]) -> None:
    """Gather nodes, start, train until the next failure, and decide what follows from it."""
    setup = run.setup
    while not _gathered(run, names):
        _wait(run)
        if run.at_s >= run.end_s:
            return
    run.book(Doing.RENDEZVOUS, setup.rendezvous_s)
    run.book(Doing.START, setup.start_s)
    run.book(Doing.RESTORE, setup.restore_s)
    restored = run.step - run.step % setup.checkpoint_steps
    run.book(Doing.TRAINING, restored=restored, has_restored=True)
    fault, failed_at_s = _next_failure(run)
    run.step = restored + int((failed_at_s - run.at_s) / setup.step_s)
    run.at_s = failed_at_s
    if fault is None:
        run.book(Doing.WAITING, committed=run.step)
        return
    run.book(Doing.DETECTION, setup.detection_s, committed=run.step)
    run.book(Doing.TEARDOWN, setup.teardown_s)
    _decide(run, fault)


def _gathered(run: _Run, names: Sequence[str]) -> bool:
    """Keep who trained and may go on; fill up with spares, in their order."""
    usable = [name for name in names if run.out_until.get(name, 0.0) <= run.at_s]
    trained = set(run.training)
    kept = [name for name in usable if name in trained]
    spares = [name for name in usable if name not in trained]
    run.training = (kept + spares)[: run.setup.active]
    return len(run.training) == run.setup.active


def _wait(run: _Run) -> None:
    until_s = min(until for until in run.out_until.values() if until > run.at_s)
    run.book(Doing.WAITING, until_s - run.at_s)


def _next_failure(run: _Run) -> tuple[TracedFault | None, float]:
    """What ends this stretch of training, and when; None when the trace ends first."""
    training = set(run.training)
    first: tuple[float, TracedFault] | None = None
    for name in run.training:
        for fault in run.by_node.get(name, ()):
            if fault.start_s <= run.at_s < fault.end_s:
                at_s = run.at_s + run.chance.expovariate(1.0 / run.setup.refail_mean_s)
                if at_s < fault.end_s and (first is None or at_s < first[0]):
                    first = at_s, fault
    place = bisect_right(run.faults, run.at_s, key=lambda fault: fault.start_s)
    for fault in run.faults[place:]:
        if fault.node in training:
            if first is None or fault.start_s < first[0]:
                first = fault.start_s, fault
            break
    if first is None or first[0] >= run.end_s:
        return None, run.end_s
    return first[1], first[0]


def _decide(run: _Run, fault: TracedFault) -> None:
    earlier = run.offences.setdefault(fault.node, [])
    if run.policy(Offence(fault.node, run.at_s, fault.is_hardware, tuple(earlier))):
        _exclude(run, fault)
    earlier.append(run.at_s)
    verdict = default_verdict(_view(run, fault))
    run.failures = [*run.failures, run.at_s][-AGES_MAX:]
    run.restarts += 1
    if verdict.delay_s > 0:
        run.book(Doing.WAITING, verdict.delay_s)


def _exclude(run: _Run, fault: TracedFault) -> None:
    out = sum(1 for until in run.out_until.values() if until > run.at_s)
    if out + 1 > run.setup.excluded_share_max * run.setup.nodes:
        run.refused += 1
        return
    until_s = max(fault.end_s, run.at_s + run.setup.repair_least_s)
    run.out_until[fault.node] = until_s
    run.exclusions += 1
    run.excluded_s += min(until_s, run.end_s) - run.at_s


def _view(run: _Run, fault: TracedFault) -> IncidentView:
    node = NodeId(fault.node)
    return IncidentView(
        job=JobId("simulated"),
        attempt=Attempt(0),
        generation=Generation(run.restarts + 1),
        cycle=Cycle(run.restarts),
        incident=IncidentId(f"sim-{run.restarts}"),
        round=0,
        faults=(FaultView(node, Because(Reason.WORKER_EXIT, fault.what), step=run.step),),
        restarts_spent=run.restarts,
        max_restarts=run.setup.max_restarts,
        min_nodes=run.setup.active,
        nodes_available=run.setup.nodes,
        failure_ages_s=tuple(run.at_s - at_s for at_s in reversed(run.failures)),
        jitter=run.chance.random(),
    )
