"""Who gets a place in a round, and in which order. Pure: candidates in, places or a named lack out.

Order: the infrastructure's rank where it is known, then the node's name in natural order. It is the same in every
round, so survivors keep their order and a spare stands where the infrastructure would have put it. Survivors go
before spares, and for each member that is missing the spare that is nearest to it: the one whose domain, read from the
top of the network down (block.rack), has most in common with its own. With `segment`, whole segments come from domains,
those that held segments before first, then those nearest to what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from resurge_libs.core.ids import NodeId
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core.job import Assignment
from resurge_rendezvous.core.nodes import NodeEntry
from resurge_rendezvous.core.values import JobSpec

OrderKey = tuple[int, int, tuple[tuple[int, int, str], ...]]

_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which n2 stands before n10."""
    pieces = (piece for piece in _DIGITS.split(name) if piece)
    return tuple((0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in pieces)


def order_key(entry: NodeEntry) -> OrderKey:
    """The node's place in infrastructure order; nodes without a given rank stand behind those with one."""
    if entry.infra_rank is None:
        return 1, 0, natural(entry.node)
    return 0, entry.infra_rank, natural(entry.node)


def plan_round(
    spec: JobSpec,
    candidates: Iterable[NodeEntry],
    before: frozenset[NodeId],
    missing: Iterable[NodeEntry] = (),
) -> tuple[Assignment, ...] | Because:
    """The places of the next generation, or what is lacking. `before` are the members of the last one, `missing` those
    of them that are no candidates."""
    ordered = sorted(candidates, key=order_key)
    gone = [entry.domain for entry in sorted(missing, key=order_key)]
    if len(ordered) < spec.min_nodes:
        return Because(Reason.BELOW_MIN_NODES, f"{len(ordered)} of {spec.min_nodes} nodes are ready")
    if spec.segment > 1:
        chosen = _whole_segments(spec, ordered, before, gone)
        if isinstance(chosen, Because):
            return chosen
    else:
        chosen = _survivors_first(ordered, before, spec.min_nodes, gone)
    return _placed(chosen)


def _survivors_first(
    ordered: list[NodeEntry], before: frozenset[NodeId], count: int, missing: Sequence[str] = ()
) -> list[NodeEntry]:
    taken = [entry for entry in ordered if entry.node in before][:count]
    spares = [entry for entry in ordered if entry.node not in before]
    for domain in missing[: count - len(taken)]:
        if domain and spares:
            nearest = max(spares, key=lambda spare: nearness(spare.domain, domain))  # the first of equally near ones
            spares.remove(nearest)
            taken.append(nearest)
    names = {entry.node for entry in (*taken, *spares[: count - len(taken)])}
    return [entry for entry in ordered if entry.node in names]


def nearness(one: str, other: str) -> int:
    """How many steps from the top of the network two domains have in common."""
    steps = 0
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if left != right or not left:
            break
        steps += 1
    return steps


@dataclass(frozen=True, slots=True)
class _Domain:
    nodes: list[NodeEntry]
    capacity: int
    held: int
    nearness: int
    """To the nearest member that is missing."""


def _whole_segments(
    spec: JobSpec, ordered: list[NodeEntry], before: frozenset[NodeId], missing: Sequence[str]
) -> list[NodeEntry] | Because:
    by_domain: dict[str, list[NodeEntry]] = {}
    for entry in ordered:
        if entry.domain:  # a node of an unknown domain stands together with nobody
            by_domain.setdefault(entry.domain, []).append(entry)
    domains = [
        _Domain(
            nodes,
            len(nodes) // spec.segment,
            sum(entry.node in before for entry in nodes) // spec.segment,
            max((nearness(name, domain) for domain in missing), default=0),
        )
        for name, nodes in by_domain.items()  # in the order of their smallest member, as `ordered` is sorted
    ]
    needed = spec.min_nodes // spec.segment
    there = sum(domain.capacity for domain in domains)
    if there < needed:
        sentence = f"{there} of {needed} whole segments of {spec.segment} nodes are ready in {len(domains)} domains"
        return Because(Reason.SEGMENT_UNFILLED, sentence)
    shares = [min(domain.capacity, domain.held) for domain in domains]
    for index in range(len(shares)):  # more were held than are needed only after MIN was lowered by a new attempt
        shares[index] = min(shares[index], needed - sum(shares[:index]))
    for index, domain in sorted(enumerate(domains), key=lambda item: -item[1].nearness):
        shares[index] += min(domain.capacity - shares[index], needed - sum(shares))
    chosen: list[NodeEntry] = []
    for domain, share in zip(domains, shares, strict=True):
        chosen.extend(_survivors_first(domain.nodes, before, share * spec.segment))
    return chosen


def _placed(chosen: list[NodeEntry]) -> tuple[Assignment, ...]:
    places, base_rank = [], 0
    for group_rank, entry in enumerate(chosen):
        places.append(Assignment(entry.node, entry.incarnation, group_rank, base_rank, entry.local_world_size))
        base_rank += entry.local_world_size
    return tuple(places)


SPEC_FIELDS: Mapping[str, str] = {
    "min_nodes": "--nnodes",
    "max_nodes": "--nnodes",
    "max_restarts": "--max-restarts",
    "segment": "--segment",
    "command_digest": "the program and its arguments",
    "strict_fence": "strict fence",
    "lease_ttl_s": "lease_ttl_s",
    "fault_grace_s": "fault_grace_s",
    "no_restart_exit_code": "--ft-no-restart-exit-code",
    "attribution_stop_action": "--ft-attribution-stop-action",
    "restarts": "--max-restarts-by-cause, --restart-refund-after and --restart-backoff",
    "progress": "--ft-checkpoint-iteration-file and the options of progress",
    "max_excluded_share": "--max-excluded-share",
    "exclusion_window_s": "--exclusion-window",
    "preempted_exit_code": "--preempted-exit-code",
}
"""What must be the same on all nodes of a job, and how users call it."""


def differing_field(presented: JobSpec, served: JobSpec) -> str | None:
    """The first field in which two specifications of one job differ; None when they agree."""
    return next((name for name in SPEC_FIELDS if getattr(presented, name) != getattr(served, name)), None)


def spec_violation(spec: JobSpec) -> tuple[str, str] | None:
    """The field of a specification that cannot be, and what would be right; None for a good one."""
    if spec.min_nodes < 1:
        return "min_nodes", f"at least 1 node must run, got {spec.min_nodes}"
    if spec.max_nodes < spec.min_nodes:
        return "max_nodes", f"must be at least MIN ({spec.min_nodes}), got {spec.max_nodes}"
    if spec.segment > 1 and spec.min_nodes % spec.segment:
        return "segment", f"MIN ({spec.min_nodes}) must be a multiple of the segment ({spec.segment})"
    return None
