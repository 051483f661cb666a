"""Watches a world and says at once when an invariant of the design is broken.

S1   no commit behind the fence of g once a later generation is formed; no worker of g lives on a node that holds a
     lease when a worker of a later generation starts; the store takes no write of a fenced generation
S2   each formed generation is higher than all before, and than every number that a launcher has presented
S3   restarts charged, and generations formed after an incident, never exceed the budget of the attempt
S4   no formed generation contains a node on an excluded machine, whatever the node is called; verdicts exclude no
     more machines within the window than the circuit breaker allows
S5   each (incident, round) is given exactly one verdict, and is charged only with one
S6   workers are started on a machine (or in a container) only when none of an older generation is alive there, and a
     launcher that exits leaves none but those that cannot die
S7   after healing, the world becomes quiet within a bound (World.run_until_quiet)
S8   a recovery names first what really failed first, within the recorded clock error
S9   the policy is dead, mute or slow in many worlds, and all of this still holds
S10  the fold of the durable facts equals the live durable state after each entry, and through the codec at each start
P    the count of cycles without progress is right at every check, and ends the job exactly when it should
     (progress_oracle.py)
S11  a launcher that has control when the job ends exits with the job's code
stop the ranks of a generation that were told to stop were told so after one and the same step
drain a job is preempted by one node's drain only when no restart, or too few other nodes, were left; the offers
     of where to stop are counted right (drain_oracle.py)
blame  a verdict that is taken answers a question about who, by all that is known then, began it (blame_oracle.py)
S13  while nothing failed, no launcher signals a worker, whatever becomes of the services
The accounts of the ledger sum up to its wall time after each entry.
Not checked here: S12 (no log aggregator yet).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from resurge_launcher.core.goals import ExitGoal, RunGoal
from resurge_launcher.core.model import OnExcluded
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ledger import Doing
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import RpcProblem
from resurge_libs.core.verdict import EXIT_FAILED, EXIT_NO_RESTART
from resurge_rendezvous.core import model as rm
from tests.sim.blame_oracle import BlameOracle
from tests.sim.budget_oracle import BudgetOracle
from tests.sim.drain_oracle import DrainOracle
from tests.sim.exclusions import Exclusions
from tests.sim.progress_oracle import ProgressOracle
from tests.sim.stop_oracle import StopOracle

if TYPE_CHECKING:
    from tests.sim.launcher import Launcher
    from tests.sim.service import Service
    from tests.sim.world import World

CLOCK_GRACE_S = 0.05
NO_RESTART_CAUSES = frozenset({EndCause.NO_PROGRESS, EndCause.ATTRIBUTION_STOP})
LEAST_COVERAGE = 0.95
OWN_ENDS = frozenset({Reason.CONTROL_LOST, Reason.CONTROL_UNREACHABLE, Reason.SIGNAL_RECEIVED, Reason.RELEASED})
"""RELEASED: an operator drained its node while the job went on without it."""


class Violation(AssertionError):
    """An invariant is broken."""


def _fail_if(broken: str) -> None:
    if broken:
        raise Violation(f"S4: {broken}")


def _is_presumed(formation: rm.Formation | None, because: Because, live: rm.Job) -> bool:
    """Whether a generation is taken for over without a word of those that ran it."""
    if formation is None or because.code is Reason.STREAM_LOST:
        return True
    entries = [(live.nodes.get(place.node), place.incarnation) for place in formation.assignments]
    return any(entry is not None and entry.incarnation != incarnation for entry, incarnation in entries)


class Oracle:
    """Told of everything; remembers what it needs to judge the next thing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.formed: dict[int, rm.Formation] = {}
        self.highest_presented = 0
        self.journal_was_lost = False
        self.presumed_dead: set[int] = set()
        """Generations without the strict fence that were replaced because every launcher closed its stream and none
        came back within its lease, or a launcher came under the same name, or a new attempt, whose beginner says that
        the old one is over. What is cut off or stands still may live on: a known limit without the strict fence."""
        self.verdicts: Counter[tuple[str, int]] = Counter()
        self.out = Exclusions(world)
        self.budgets = BudgetOracle(self)
        self.commits = 0
        self.stopping = StopOracle(self.fail)
        self.drains = DrainOracle(self)
        self.blame = BlameOracle(self.fail)
        self.records: list[rm.RecoveryRecord] = []
        self.decision: rm.TerminalDecision | None = None
        """The end of the present attempt."""
        self.decisions: dict[int, rm.TerminalDecision] = {}
        self.progress = ProgressOracle(self)

    def fail(self, invariant: str, sentence: str) -> None:
        raise Violation(f"{invariant}: {sentence}")

    # --------------------------------------------------------------------------------------------- rendezvous

    def decided(self, service: Service, event: Any, before: Any, step: Step[Any]) -> None:
        """A step was taken; nobody outside knows yet."""
        if isinstance(event, rm.HelloReceived):
            self.highest_presented = max(self.highest_presented, event.hello.highest_generation)
        generation = step.state.durable.generation
        if generation < before.durable.generation:
            self.fail("S2", f"generation fell from {before.durable.generation} to {generation}")
        if step.state.durable is not before.durable and not step.facts and step.state.durable != before.durable:
            self.fail("S10", f"the durable state changed without a fact at {type(event).__name__}")
        self.drains.counts(step.state)
        self.blame.decided(event, before, step)

    def durable(self, service: Service, step: Step[Any], replayed: rm.Job) -> None:
        """An entry is durable: from here on it holds."""
        live = step.state.durable
        if replayed != live:
            self.fail("S10", f"the fold of the journal is not the live state after {step.reason}")
        for fact in step.facts:
            if not isinstance(fact, rm.TimeBooked):  # it goes with others, and would only make stories longer
                self.world.log("rdzv", f"{type(fact).__name__}: {step.reason}")
            self._fact(fact, live)
        self.budgets.check(live)
        self.drains.durable(step)
        self._time(live)

    def _fact(self, fact: Any, live: rm.Job) -> None:
        self.progress.fact(fact, live)
        _fail_if(self.out.fact(fact, live))
        match fact:
            case rm.RoundClosed(formation):
                self._formed(formation, live)
            case rm.VerdictLatched(incident, round):
                self.verdicts[incident, round] += 1
                if self.verdicts[incident, round] > 1 and not self.journal_was_lost:
                    self.fail("S5", f"incident {incident} round {round} got a second verdict")
            case rm.RestartCharged(incident, round):
                if self.verdicts[incident, round] != 1 and not self.journal_was_lost:
                    self.fail("S5", f"incident {incident} round {round} is charged without its one verdict")
            case rm.StoreWritten(key, entry):
                if entry is not None and self._later_formed(int(entry.generation)):
                    self.fail("S1", f"the store took {key!r} of generation {entry.generation}")
            case _:
                self._note(fact, live)

    def _time(self, live: rm.Job) -> None:
        ledger = live.ledger
        others = sum(ledger.of(doing) for doing in Doing if doing is not Doing.TRAINING)
        accounts_s = ledger.productive_s + ledger.lost_s + others
        if abs(accounts_s - ledger.wall_s) > 1e-3 * max(1.0, ledger.wall_s):
            self.fail("ledger", f"the accounts sum up to {accounts_s:.3f} s of {ledger.wall_s:.3f} s")

    def _note(self, fact: Any, live: rm.Job) -> None:
        """Facts that later ones are judged by."""
        self.stopping.agreed(fact)
        match fact:
            case rm.RestartRefunded(at):
                self.budgets.refunded(float(at), live)
            case rm.NodeLost(node):
                self.world.faulted |= str(node) in self.world.slow_to_turn
            case rm.SplitRuledOut(generation, because):
                if not self.world.setup.strict_fence and _is_presumed(self.formed.get(int(generation)), because, live):
                    self.presumed_dead.add(int(generation))
            case rm.Terminated(decision):
                judge_end(self, decision, live)
            case rm.AttemptRaised() | rm.JobOpened():
                self.decision = None
                self.presumed_dead |= set() if self.world.setup.strict_fence else set(self.formed)
            case rm.JournalBehindAdopted() if not self.journal_was_lost:
                self.fail("S2", f"a whole journal is called behind: {fact.because.sentence}")

    def _formed(self, formation: rm.Formation, live: rm.Job) -> None:
        generation = int(formation.generation)
        if not self.journal_was_lost and self.formed and generation <= max(self.formed):
            self.fail("S2", f"generation {generation} is formed after {max(self.formed)}")
        if generation <= self.highest_presented:
            self.fail("S2", f"generation {generation} is formed, a launcher had presented {self.highest_presented}")
        _fail_if(self.out.formed(formation))
        spec = live.spec
        assert spec is not None
        if len(formation.assignments) != spec.min_nodes:
            self.fail("quorum", f"generation {generation} has {len(formation.assignments)} of {spec.min_nodes} nodes")
        ranks = [r for a in formation.assignments for r in range(a.base_rank, a.base_rank + a.local_world_size)]
        if ranks != list(range(formation.world_size)):
            self.fail("ranks", f"generation {generation} has ranks {ranks}")
        self.formed[generation] = formation
        if formation.incident is not None:
            self.budgets.restarts[int(formation.attempt)] += 1

    def replayed(self, service: Service, from_disk: rm.Job, folded: rm.Job) -> None:
        """The service starts: what it reads must be what it knew."""
        if from_disk != folded:
            self.fail("S10", "the journal through the codec does not fold to the state that was durable")

    def journal_lost(self, service: Service) -> None:
        self.journal_was_lost = True
        self.formed = {}  # numbers from before and after the loss have no order
        self.highest_presented = 0
        self.out = Exclusions(self.world)
        self.decision = None
        self.progress.forget()

    def refused(self, event: Any, refusal: RpcProblem) -> None:
        self.world.log("rdzv", f"refuses {type(event).__name__}: {refusal}")

    def recovered(self, service: Service, record: rm.RecoveryRecord) -> None:
        """A recovery record was exported."""
        self.records.append(record)
        if record.start > record.end:
            self.fail("record", f"recovery {record.incident} ends before it starts")
        self._blamed(record)

    def _blamed(self, record: rm.RecoveryRecord) -> None:
        """S8: of the workers a record names, the one that failed first stands first, within its clock error."""
        named = {(f.node, f.rank, int(f.generation)): f for f in record.faults if f.rank is not None}
        true = [(at_s, p) for at_s, p in self.world.crowd.own_ends if (p.node, p.rank, p.generation) in named]
        first = record.faults[0] if record.faults else None
        if first is None or first.rank is None or not true:
            return
        true_s, culprit = min(true, key=lambda one: one[0])
        blamed = (str(first.node), int(first.rank), int(first.generation))
        blamed_s = min((at_s for at_s, p in true if (p.node, p.rank, p.generation) == blamed), default=None)
        errors = (first.clock_error_s, named[culprit.node, culprit.rank, culprit.generation].clock_error_s)
        if blamed_s is None or None in errors:
            return
        if blamed_s - true_s > sum(errors) + CLOCK_GRACE_S:
            late_ms = (blamed_s - true_s) * 1e3
            true_name = f"rank {culprit.rank} of {culprit.node}"
            blames = f"{record.incident} blames rank {first.rank} of {first.node}"
            self.fail("S8", f"{blames}; {true_name} failed {late_ms:.0f} ms sooner")

    def _later_formed(self, generation: int) -> bool:
        return any(other > generation for other in self.formed)

    # ----------------------------------------------------------------------------------------------- launchers

    def spawning(self, launcher: Launcher, run: RunGoal) -> None:
        """A worker is about to be started."""
        generation = int(run.generation)
        formation = self.formed.get(generation)
        if formation is None and not self.journal_was_lost:
            self.fail("S2", f"{launcher.name} starts generation {generation}, which was never formed")
        for process in self.world.crowd.alive_in(launcher.place):
            if process.generation != generation:
                self.fail(
                    "S6", f"{launcher.node} starts g{generation} while pid {process.pid} of g{process.generation} lives"
                )
        older = [p for p, _ in self.world.crowd.processes.values() if p.generation < generation and not p.dying]
        for process, other in [(p, o) for p in older for o in self.world.launchers() if o.place == p.place]:
            if other.holds_lease and type(other.state.phase).__name__ != "Stuck":
                old = f"pid {process.pid} of g{process.generation} on {other.node}, which holds a lease"
                self.fail("S1", f"g{generation} starts on {launcher.node} beside {old}")

    def committed(self, generation: int, node: str, step: int) -> None:
        """A worker saved something: behind the fence, or without one in a job that has none."""
        self.commits += 1
        if self._later_formed(generation) and generation not in self.presumed_dead:
            self.fail("S1", f"{node} committed step {step} of g{generation} after g{max(self.formed)} was formed")

    def signalled(self, launcher: Launcher, generation: int, signal: int) -> None:
        """A launcher ends or signals workers."""
        if not self.world.faulted:
            self.fail("S13", f"{launcher.name} signals workers of g{generation} though nothing failed")

    def left(self, launcher: Launcher, code: int, because: Because) -> None:
        """A launcher exits; only what cannot die may be left behind."""
        now_s = self.world.timeline.now_s
        alive = [p for p in self.world.crowd.alive_in(launcher.place) if p.undying_until_s <= now_s]
        if alive:
            self.fail("S6", f"{launcher.name} exits with {code} ({because}) while {len(alive)} of its workers live")

    # ------------------------------------------------------------------------------------------------ at the end

    def check(self) -> None:
        """What must hold of the world as it stands now that it is quiet."""
        service = self.world.service
        if (
            service.alive
            and service.state.durable.generation < max(self.formed, default=0)
            and not self.journal_was_lost
        ):
            self.fail("S2", "the service knows less than was formed")
        if self.decision is not None:
            for launcher in self.world.launchers():
                self.fail("S11", f"{launcher.name} lives on after the end of the job")
        for launcher in self.world.gone:
            self._learned(launcher)
        for record in {record.incident: record for record in self.records}.values():
            self._told_whole(record)

    def _told_whole(self, record: rm.RecoveryRecord) -> None:
        """The children cover the root: nothing that took time is left untold."""
        if record.outcome is rm.RecoveryOutcome.ENDED or record.end <= record.start:
            return
        covered, at = 0.0, float(record.start)
        for start, end in sorted((float(span.start), float(span.end)) for span in record.spans):
            begin, stop = max(start, at), min(end, float(record.end))
            covered, at = covered + max(0.0, stop - begin), max(at, stop)
        whole_s = record.end - record.start
        if covered / whole_s < LEAST_COVERAGE:
            self.fail("record", f"the spans of {record.incident} cover {covered / whole_s:.0%} of {whole_s:.2f} s")

    def _learned(self, launcher: Launcher) -> None:
        if launcher.exit is None or self.journal_was_lost:
            return
        code, because = launcher.exit
        if because.code in OWN_ENDS or code == 2 or because.code is Reason.SUPERSEDED:
            return
        if because.code is Reason.EXCLUDED and code == 1 and launcher.rules.on_excluded is OnExcluded.EXIT:
            return
        goal = launcher.state.goal
        decision = self.decisions.get(int(goal.attempt)) if isinstance(goal, ExitGoal) else None
        if decision is None:
            self.fail("S11", f"{launcher.name} exited with {code} ({because}) without a decision")
        elif code - 128 in launcher.signals and decision.exit_code == EXIT_FAILED:
            return  # a failure decided after a signal says no more than the signal
        elif isinstance(goal, ExitGoal) and goal.cause is not decision.cause:
            self.fail("S11", f"{launcher.name} left as {goal.cause}, the job ended as {decision.cause}")
        elif code != decision.exit_code:
            self.fail("S11", f"{launcher.name} exited with {code} ({because}), the job with {decision.exit_code}")


def judge_end(oracle: Oracle, decision: rm.TerminalDecision, live: rm.Job) -> None:
    """The first decision of an attempt stays, it has a cause, and only what forbids a restart has the code for that."""
    attempt = int(live.attempt)
    if attempt in oracle.decisions and not oracle.journal_was_lost:
        oracle.fail("S11", f"attempt {attempt} ends as {decision.cause} after it ended as {oracle.decisions[attempt]}")
    if (decision.exit_code == EXIT_NO_RESTART) != (decision.cause in NO_RESTART_CAUSES):
        oracle.fail("S11", f"an end by {decision.cause} has exit code {decision.exit_code}")
    if decision.cause is EndCause.UNKNOWN:
        oracle.fail("S11", f"an end without a cause: {decision.because}")
    oracle.decision = oracle.decisions[attempt] = decision
