"""A drain, judged a second time: whether a job that was preempted had to end, and whether offers are counted right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core.offers import counted

if TYPE_CHECKING:
    from tests.sim.oracle import Oracle


class DrainOracle:
    """The drain that is open, and what is known of budget and nodes without the cores' own counts."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._drain: Any = None

    def durable(self, step: Step[Any]) -> None:
        """An entry is durable: an end by preemption is judged by the drain that led to it."""
        for fact in step.facts:
            match fact:
                case rm.DrainOrdered(drain):
                    self._drain = drain
                case rm.RoundClosed() | rm.AttemptRaised() | rm.JobOpened():
                    self._drain = None
                case rm.Terminated(decision) if decision.because.code is Reason.PREEMPTED:
                    self._preempted(step)
                case _:
                    pass

    def _preempted(self, step: Step[Any]) -> None:
        drain, live = self._drain, step.state.durable
        if drain is None or drain.node is None or self._oracle.journal_was_lost:
            return  # nobody leaves alone, or nothing is to be saved: there is nothing to weigh
        if any(isinstance(fact, (rm.NodeAdmitted, rm.NodesAdmitted, rm.NodeReturned)) for fact in step.facts):
            return  # who came in the same crowd may have come after the end
        others = [entry.node for entry in live.nodes if entry.node != drain.node and self._could_go_on(entry, step)]
        left = self._restarts_left(live)
        if left > 0 and len(others) >= live.spec.min_nodes:
            self._oracle.fail("drain", f"preempted with {left} restarts left, and {others} to go on with")

    def _restarts_left(self, live: rm.Job) -> int:
        """By the rounds that closed after faults and the restarts given back, both counted here."""
        attempt, budgets = int(live.attempt), self._oracle.budgets
        left = live.spec.max_restarts - budgets.restarts[attempt] + budgets.refunds[attempt]
        bound = dict(live.spec.restarts.by_cause).get(FaultCause.NODE)
        return left if bound is None else min(left, bound - live.spent_on(FaultCause.NODE))

    def _could_go_on(self, entry: Any, step: Step[Any]) -> bool:
        """Whether nothing at all speaks against a node: nobody signalled a launcher of it, and its workers can die."""
        world, seat = self._oracle.world, step.state.volatile.seats.get(entry.node)
        signalled = any(one.node == entry.node and one.signals for one in (*world.launchers(), *world.gone))
        is_in = entry.lost is None and entry.exclusion is None and entry.drained is None
        return is_in and not signalled and seat is not None and seat.doomed is None

    def counts(self, state: Any) -> None:
        """Offers that are counted by news are those that a look at every seat finds."""
        job, seen = state.durable, state.volatile
        if seen.step_counts is None or job.drain is None or job.running_formation is None:
            return
        found = {
            node: seat.observed.draining
            for node in seen.unfinished
            if (seat := seen.seats.get(node)) is not None
            and seat.observed.generation == job.drain.generation
            and seat.observed.draining.offer is not None
        }
        kept = {node: seen.offers.get(node) for node in seen.offers}
        if kept != found or seen.step_counts != counted(job.drain.generation, seen.offers):
            self._oracle.fail("drain", f"offers are counted as {seen.step_counts} of {kept}; seats say {found}")
