"""Faults put into the real cores on purpose: each must be seen by the oracle within a number of seeds.

A mutant that lives says that the worlds are not rude enough, or that the oracle looks away. Each replaces one function
of a core, wherever it was imported, for as long as its worlds run. Single guards are taken out by edits.py; hunting.py
hunts both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from resurge_launcher.core import step as launcher_step
from resurge_launcher.core import teardown
from resurge_libs.core import progress
from resurge_libs.core.lease import Lease
from resurge_libs.core.progress import ProgressCount
from resurge_rendezvous.core import (
    clearing,
    draft,
    excluding,
    fold,
    goals,
    hello,
    identity,
    losses,
    observing,
    rounds,
    rules,
    store,
    ticking,
    verdicts,
)
from resurge_rendezvous.core import step as rdzv_step
from resurge_rendezvous.core.model import Ended, Park, Presence, RestartRefunded
from tests.sim.guards import GUARDS, Mutant, always, nothing


def _short_lease(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda d, *rest: Lease.starting(d.now, d.limits.lease_ttl_s / 4)


def _over_at_once(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda before: replace(before, over=True)


def _clear_when_down(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda d, seat: True


def _knows_nobody(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda job, *rest: Presence()


def _no_end(right: Callable[..., Any]) -> Callable[..., Any]:
    def goal_of(job: Any, *rest: Any) -> Any:
        return Park(goals.SPARE) if isinstance(job.stage, Ended) else right(job, *rest)

    return goal_of


def _uncharged(right: Callable[..., Any]) -> Callable[..., Any]:
    def evolve(job: Any, fact: Any) -> Any:
        return job if type(fact).__name__ == "RestartCharged" else right(job, fact)

    return evolve


def _forgetful(right: Callable[..., Any]) -> Callable[..., Any]:
    """A decision that is not journaled."""

    def record(self: Any, fact: Any) -> None:
        right(self, fact)
        if type(fact).__name__ == "NodeFinished":
            self.facts.pop()

    return record


def _excluded_in(right: Callable[..., Any]) -> Callable[..., Any]:
    def mark_ready(self: Any, node: Any) -> None:
        entry = self.job.nodes.get(node)
        if entry is not None and entry.exclusion is not None:
            self.seen = replace(self.seen, ready=self.seen.ready.put(node, None))
            return
        right(self, node)

    return mark_ready


def _same_name(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, other: one.node == other.node


def _unmoved(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda count, check: count


def _skipped_counts(right: Callable[..., Any]) -> Callable[..., Any]:
    def outcome_of(check: Any) -> Any:
        return right(replace(check, value=check.baseline) if check.value is None else check)

    return outcome_of


def _refunded_at_once(right: Callable[..., Any]) -> Callable[..., Any]:
    def await_refund(d: Any) -> None:
        if d.spec.restarts.refund_after_s > 0 and d.job.restarts_spent > d.job.refunded:
            d.record(RestartRefunded(d.stamp.wall))

    return await_refund


def _one_too_few(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda spec, *others: right(replace(spec, min_nodes=max(1, spec.min_nodes - 1)), *others)


MUTANTS: tuple[Mutant, ...] = (
    Mutant("a node counts as clear whatever it says", clearing, "is_clear", _clear_when_down),
    Mutant("the service's lease is shorter than the launcher's", losses, "renewed_lease", _short_lease),
    Mutant("a service that starts again knows of no leases", rdzv_step, "_relearned", _knows_nobody),
    Mutant("a sweep that saw workers alive ends the teardown", teardown, "strays_gone", _over_at_once),
    Mutant("cycles without progress are not counted", ProgressCount, "after", _unmoved),
    Mutant("a cycle whose marker was not read counts", progress, "outcome_of", _skipped_counts),
    Mutant("the third cycle without progress is one of three more", progress, "is_exhausted", always(False)),
    Mutant("a restart is given back without health", rounds, "await_refund", _refunded_at_once),
    Mutant("charged restarts are not counted", fold, "evolve", _uncharged),
    Mutant("a finished node is not journaled", draft.Draft, "record", _forgetful),
    Mutant("excluded nodes take part in rounds", draft.Draft, "mark_ready", _excluded_in),
    Mutant("exclusions hold for names of nodes", identity, "same_machine", _same_name),
    Mutant("verdicts exclude as many as they like", excluding, "_room", always(1_000)),
    Mutant("a round closes with one node too few", rules, "plan_round", _one_too_few),
    Mutant("a higher number of a launcher is not adopted", hello, "_adopt", nothing),
    Mutant("exits of workers are no faults", observing, "faults_observed", always([])),
    Mutant("a policy that is mute is waited for", verdicts, "verdict_due", nothing),
    Mutant("unreachable nodes are replaced at once", rounds, "_split_possible", nothing),
    Mutant("a round below its quorum waits for ever", rounds, "quorum_over", nothing),
    Mutant("the end of the job is told to nobody", goals, "goal_of", _no_end),
    Mutant("the store takes any token", store, "refused_token", nothing),
    Mutant("ranks that end while others run are not missed", ticking, "_skewed", nothing),
    Mutant("pages never hear of the lease", launcher_step, "_leased", always(())),
    *GUARDS,
)


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The cores with one fault in them."""
    right = getattr(mutant.module, mutant.function)
    wrong = mutant.make(right)
    if isinstance(mutant.module, type):
        places: list[tuple[Any, str]] = [(mutant.module, mutant.function)]
    else:
        cores = [
            module for name, module in list(sys.modules.items()) if name.startswith("resurge_") and ".core." in name
        ]
        places = [(module, name) for module in cores for name, value in list(vars(module).items()) if value is right]
    # tables hold functions too: they are rebuilt around the fault
    tables = [(ticking, "_DUTIES", ticking._DUTIES)]
    try:
        for module, name in places:
            setattr(module, name, wrong)
        for module, name, table in tables:
            setattr(module, name, tuple((key, wrong if duty is right else duty) for key, duty in table))
        yield
    finally:
        for module, name in places:
            setattr(module, name, right)
        for module, name, table in tables:
            setattr(module, name, table)
