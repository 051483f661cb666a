"""Excluding machines and letting them in again: by an operator, whose order always holds, or by a verdict.

A verdict is weighed first. A node without which the job could not form a round is kept, and so are all that a verdict
names when together with those of the last while they are more than the set share of the job's nodes: then the verdicts
are more likely wrong than the machines. Either is recorded as WOULD_EXCLUDE with its reason, once per reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import Wall, after
from resurge_libs.core.offenders import CulpritView, OffenceView
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.capacity import could_take_part
from resurge_rendezvous.core.causes import FaultRecord, by_cause
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.exclusions import (
    automatic_since,
    every_exclusion,
    exclusion_of,
    offences_of,
    on_machine,
)
from resurge_rendezvous.core.identity import Identity, same_machine
from resurge_rendezvous.core.job import Formation, Incident
from resurge_rendezvous.core.nodes import Exclusion, NodeEntry, Offence
from resurge_rendezvous.core.rules import plan_round

HARDWARE_FATAL: frozenset[Reason] = frozenset()
"""Reasons for which a node is excluded though MIN becomes unreachable; none is known yet."""
OFFENCES_TOLD_MAX = 32
"""Policy is told the newest ones."""


def exclude(d: Draft, node: NodeId, exclusion: Exclusion, identity: Identity | None = None) -> None:
    """Keep a machine, by default the one that the node is on, out of later rounds; a generation that runs goes on."""
    d.record(f.NodeExcluded(node, exclusion, identity))
    _look_again(d, identity or d.entry(node).identity)


def exclude_by_verdict(d: Draft, nodes: Iterable[NodeId], because: Because, by: str) -> None:
    """Exclude the machines that a verdict names, unless too few would be left or the circuit breaker holds."""
    named = [(node, machine) for node in sorted(nodes) if (machine := _to_exclude(d, node)) is not None]
    machines = _distinct(machine for _, machine in named)
    room = _room(d) if because.code not in HARDWARE_FATAL else machines
    for node, machine in named:
        if exclusion_of(d.job, machine) is not None:
            continue  # another node on a machine that this verdict has excluded already
        left, is_enough = nodes_without(d, machine)
        if not is_enough and because.code not in HARDWARE_FATAL:
            sentence = f"without {node} only {left} of {d.spec.min_nodes} nodes are left: {because.sentence}"
            keep(d, (node,), sentence)
        elif machines > room:
            keep(d, (node,), f"{_held_by_breaker(d)}: {because.sentence}")
        else:
            told = Because(Reason.EXCLUDED, because.sentence)
            exclude(d, node, Exclusion(told, None, by, d.stamp.wall, is_automatic=True), machine)


def readmit(d: Draft, entry: NodeEntry, because: Because, identity: Identity | None = None) -> None:
    """Let a machine take part again: the one given, or the node's and all that were excluded under its name."""
    out = [other.node for other in d.job.nodes if other.exclusion is not None]
    d.record(f.NodeReadmitted(entry.node, because, identity))
    for node in out:
        d.mark_ready(node)
        d.touch(node)
    d.because = because


def exclusions_over(d: Draft) -> None:
    """Readmit the machines whose time is over, and wait for the next one's."""
    left: list[float] = []
    for one in every_exclusion(d.job):
        if one.exclusion.until is None:
            continue
        wait_s = one.exclusion.until - d.stamp.wall
        if wait_s <= 0:
            entry = d.entry(one.identity.node)
            readmit(d, entry, Because(Reason.READMITTED, f"the exclusion of {entry.node} is over"), one.identity)
        else:
            left.append(wait_s)
    d.set_timers(exclusion_at=after(d.now, min(left)) if left else None)


def nodes_without(d: Draft, machine: Identity) -> tuple[int, bool]:
    """How many nodes could take part without a machine, and whether a round can be formed of them."""
    others = [
        entry
        for node in d.seen.seats
        if could_take_part(d, node) and not same_machine((entry := d.entry(node)).identity, machine)
    ]
    if len(others) < d.spec.min_nodes or d.spec.segment <= 1:  # no plan has to sort ten thousand nodes
        return len(others), len(others) >= d.spec.min_nodes
    members = frozenset(NodeId(node) for node in d.seen.members)
    return len(others), not isinstance(plan_round(d.spec, others, members), Because)


def allowed_exclusions(d: Draft) -> int:
    """How many machines verdicts may exclude within the window: the share of the nodes that are there, but one."""
    if d.spec.max_excluded_share <= 0:
        return 0
    there = sum(entry.lost is None for entry in d.job.nodes)
    return max(1, floor(d.spec.max_excluded_share * max(there, d.spec.min_nodes)))


def risk_of_order(d: Draft, entry: NodeEntry) -> str:
    """What an operator should know of excluding a node, in words; empty where there is no risk."""
    said = []
    left, is_enough = nodes_without(d, entry.identity)
    if not is_enough:
        limit_s = d.limits.quorum_wait_s
        said.append(
            f"{left} nodes are left of the {d.spec.min_nodes} that must run: the next round waits {limit_s:g} s for "
            "others, then the job ends"
        )
    mates = [other.node for other in on_machine(d.job, entry.identity) if other.node != entry.node]
    if mates:
        said.append(f"{', '.join(sorted(mates)[:8])} on the same machine is out with it")
    if _room(d) < 1:
        said.append(f"{_held_by_breaker(d)}, which binds verdicts and not operators")
    return "; ".join(said)


def note_offence(d: Draft, incident: Incident) -> None:
    """The generation that a round of an incident cost is held against the machine on which it began."""
    culprit = culprit_of(incident.faults, incident.now_round.generation)
    if culprit is not None and d.job.nodes.get(culprit.node) is not None:
        machine = machine_in_generation(d, culprit.node)
        d.record(f.OffenceNoted(Offence(machine, culprit.generation, culprit.because.code, culprit.at, culprit.rank)))


def culprit_view(d: Draft, formation: Formation, faults: Iterable[FaultRecord]) -> CulpritView | None:
    """What policy is told of the machine on which this round's faults began."""
    first = culprit_of(faults, formation.generation)
    if first is None or d.job.nodes.get(first.node) is None:
        return None
    machine = machine_in_generation(d, first.node)
    own = [_told(offence, False) for offence in offences_of(d.job, machine)]
    others = [
        _told(offence, True)
        for one in d.job.exclusions
        if one.exclusion.is_automatic and not same_machine(one.identity, machine)
        for offence in offences_of(d.job, one.identity)
    ]
    left, is_enough = nodes_without(d, machine)
    return CulpritView(
        node=first.node,
        code=first.because.code,
        rank=first.rank,
        nodes_left=left,
        is_enough=is_enough,
        offences=tuple(sorted((*own, *others), key=lambda one: one.generation)[-OFFENCES_TOLD_MAX:]),
    )


def _told(offence: Offence, elsewhere: bool) -> OffenceView:
    return OffenceView(offence.identity.node, offence.generation, offence.code, offence.rank, elsewhere)


def culprit_of(faults: Iterable[FaultRecord], generation: int) -> FaultRecord | None:
    """The fault that came first in a generation, if it is known."""
    return next(iter(by_cause(fault for fault in faults if fault.generation == generation)), None)


def machine_in_generation(d: Draft, node: NodeId) -> Identity:
    """The machine that a node was on when it ran the newest generation; it may have come back on another since."""
    entry, place = d.entry(node), d.seen.members.get(node)
    if place is not None and place.incarnation != entry.incarnation and entry.former is not None:
        return entry.former
    return entry.identity


def _to_exclude(d: Draft, node: NodeId) -> Identity | None:
    if d.job.nodes.get(node) is None:
        return None
    machine = machine_in_generation(d, node)
    return machine if exclusion_of(d.job, machine) is None else None


def _distinct(identities: Iterable[Identity]) -> int:
    """How many machines these are: several nodes may be on one."""
    found: list[Identity] = []
    for identity in identities:
        if not any(same_machine(identity, one) for one in found):
            found.append(identity)
    return len(found)


def _room(d: Draft) -> int:
    since = Wall(d.stamp.wall - d.spec.exclusion_window_s)
    return max(0, allowed_exclusions(d) - automatic_since(d.job, since))


def _held_by_breaker(d: Draft) -> str:
    since = Wall(d.stamp.wall - d.spec.exclusion_window_s)
    return (
        f"the circuit breaker holds: verdicts excluded {automatic_since(d.job, since)} machines within "
        f"{d.spec.exclusion_window_s:g} s, and a share of {d.spec.max_excluded_share:g} of the nodes allows "
        f"{allowed_exclusions(d)}"
    )


def keep(d: Draft, nodes: Iterable[NodeId], sentence: str) -> None:
    """Record that nodes are kept though a verdict wants them out, and why."""
    because = Because(Reason.WOULD_EXCLUDE, sentence)
    for node in sorted(nodes):
        entry = d.job.nodes.get(node)
        if entry is not None and entry.exclusion is None and entry.would_exclude != because:
            d.record(f.WouldExclude(node, because))


def _look_again(d: Draft, machine: Identity) -> None:
    for entry in on_machine(d.job, machine):
        d.mark_ready(entry.node)
        d.touch(entry.node)
