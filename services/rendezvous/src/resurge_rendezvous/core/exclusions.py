"""Which machines are out, and what is held against each: how the job's tables change by facts. Pure.

An exclusion belongs to a machine. Each node's entry shows the one that holds for the machine it is on, so that rules
ask the entry alone; a node that comes back on other hardware is free, and its old machine stays out under any name.
"""

from __future__ import annotations

from resurge_libs.core.instant import Wall
from resurge_libs.core.values import replace
from resurge_rendezvous.core.identity import Identity, same_machine
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.nodes import Exclusion, MachineExclusion, NodeEntry, Offence, OffenceBook

EXCLUSION_WALLS_MAX = 1_024
OFFENCES_MAX = 512


def admitted(job: Job, entry: NodeEntry) -> Job:
    """A launcher came: its machine may be excluded already, or not be the one that the node was on before."""
    known = job.nodes.get(entry.node)
    exclusion, former, would = exclusion_of(job, entry.identity), None, entry.would_exclude
    if known is not None:
        former = known.former
        if not same_machine(known.identity, entry.identity):
            former, would = known.identity, None
        elif exclusion is None:
            # excluded under another name, which only the boot id joined to this one; or of a snapshot that had no table
            exclusion = exclusion_of(job, known.identity) or known.exclusion
    job = job.with_node(replace(entry, exclusion=exclusion, former=former, would_exclude=would))
    return job if exclusion is None else _known_as(job, entry.identity, exclusion)


def _known_as(job: Job, identity: Identity, exclusion: Exclusion) -> Job:
    """The table knows an excluded machine as it is now, so that its boot id joins whoever else comes from it."""
    if any(one.identity == identity for one in job.exclusions):
        return job
    others = tuple(one for one in job.exclusions if one.identity.node != identity.node or not _is_about(one, identity))
    return replace(job, exclusions=(*others, MachineExclusion(identity, exclusion)))


def excluded(job: Job, identity: Identity, exclusion: Exclusion) -> Job:
    """The machine is out, and so is every node on it; a later order about the same machine replaces the earlier."""
    others = tuple(one for one in job.exclusions if not _is_about(one, identity))
    walls = job.exclusion_walls
    if exclusion.is_automatic:
        walls = (*walls, float(exclusion.at))[-EXCLUSION_WALLS_MAX:]
    job = replace(job, exclusions=(*others, MachineExclusion(identity, exclusion)), exclusion_walls=walls)
    for entry in on_machine(job, identity):
        job = job.with_node(replace(entry, exclusion=exclusion, would_exclude=None))
    return job


def readmitted(job: Job, node: NodeEntry, identity: Identity | None) -> Job:
    """Exclusions are over: of one machine, or without it of the node's machine and of all that had its name."""
    if identity is not None:
        over = [one for one in job.exclusions if one.identity == identity]
    else:
        named = [one.identity for one in job.exclusions if one.identity.node == node.node]
        over = [
            one
            for one in job.exclusions
            if any(same_machine(one.identity, identity) for identity in (node.identity, *named))
        ]
    job = replace(job, exclusions=tuple(one for one in job.exclusions if one not in over))
    about = [one.identity for one in over] if over or identity is not None else [node.identity]
    for entry in job.nodes:
        if entry.node == node.node or any(same_machine(entry.identity, one) for one in about):
            free = replace(entry, exclusion=exclusion_of(job, entry.identity), would_exclude=None)
            job = job.with_node(free)
    return job


def noted(job: Job, offence: Offence) -> Job:
    """One more fault against a machine."""
    return replace(job, offences=OffenceBook((*job.offences.entries, offence)[-OFFENCES_MAX:]))


def exclusion_of(job: Job, identity: Identity) -> Exclusion | None:
    """The exclusion that holds for a machine, the newest of several."""
    return next((one.exclusion for one in reversed(job.exclusions) if same_machine(one.identity, identity)), None)


def on_machine(job: Job, identity: Identity) -> tuple[NodeEntry, ...]:
    """Every node that is on a machine."""
    return tuple(entry for entry in job.nodes if same_machine(entry.identity, identity))


def every_exclusion(job: Job) -> tuple[MachineExclusion, ...]:
    """The whole table, with what entries of an older snapshot hold and the table does not."""
    older = (
        MachineExclusion(entry.identity, entry.exclusion)
        for entry in job.nodes
        if entry.exclusion is not None and exclusion_of(job, entry.identity) is None
    )
    return (*job.exclusions, *older)


def offences_of(job: Job, identity: Identity) -> tuple[Offence, ...]:
    """What is held against a machine, oldest first."""
    return tuple(one for one in job.offences.entries if same_machine(one.identity, identity))


def offence_counts(job: Job) -> dict[str, int]:
    """How many faults are held against the machine of each node; only nodes with some. One look at all nodes, however
    many offences there are: two identities of one machine have at least one of their parts in common."""
    by_part: dict[str, set[int]] = {}
    for number, one in enumerate(job.offences.entries):
        for part in _parts(one.identity):
            by_part.setdefault(part, set()).add(number)
    counts: dict[str, int] = {}
    for entry in job.nodes if by_part else ():
        near = {number for part in _parts(entry.identity) for number in by_part.get(part, ())}
        count = sum(same_machine(job.offences.entries[number].identity, entry.identity) for number in near)
        if count:
            counts[entry.node] = count
    return counts


def _parts(identity: Identity) -> tuple[str, ...]:
    named = (("n", identity.node), ("h", identity.host), ("m", identity.machine_id), ("b", identity.boot_id))
    return tuple(kind + value for kind, value in named if value)


def automatic_since(job: Job, since: Wall) -> int:
    """How many machines verdicts have excluded since then, also if they were readmitted."""
    return sum(wall >= since for wall in job.exclusion_walls)


def _is_about(one: MachineExclusion, identity: Identity) -> bool:
    return same_machine(one.identity, identity)
