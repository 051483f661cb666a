"""The nodes that a job remembers, in a table whose parts are shared between versions. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from resurge_libs.core.ids import Generation, Incarnation, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core.identity import Identity
from resurge_rendezvous.core.shards import PARTS, part_of


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A machine is out of later rounds; `until` None means until readmitted."""

    because: Because
    until: Wall | None = None
    by: str = ""
    """Who asked for it, in words; empty where an earlier release did not say."""
    at: Wall = Wall(0.0)
    is_automatic: bool = False
    """By a verdict, not by a person: it counts for the circuit breaker."""


@dataclass(frozen=True, slots=True)
class MachineExclusion:
    """An exclusion and the machine that it holds for, whatever its nodes are called."""

    identity: Identity
    exclusion: Exclusion


@dataclass(frozen=True, slots=True)
class Offence:
    """A fault that began on a machine and cost a generation."""

    identity: Identity
    generation: Generation
    code: Reason
    at: Wall
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class OffenceBook:
    """Faults counted against machines, oldest first; a value of its own, so that its digest is not computed again."""

    entries: tuple[Offence, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node as the job remembers it."""

    node: NodeId
    incarnation: Incarnation
    boot_id: str = ""
    host: str = ""
    pid: int = 0
    infra_rank: int | None = None
    domain: str = ""
    local_world_size: int = 1
    address: str = ""
    lost: Because | None = None
    """Why its lease is over, until it returns."""
    exclusion: Exclusion | None = None
    """The one that holds for its machine; `Job.exclusions` has all."""
    would_exclude: Because | None = None
    """A verdict named it, but without it the job could not reach MIN."""
    drained: Because | None = None
    """An operator wants it free: its launcher takes part in no later round, and leaves when nothing lives there."""
    finished: Generation = Generation(0)
    """The last generation whose workers all exited 0 here."""
    machine_id: str = ""
    is_id_given: bool = False
    """The machine id was given by hand."""
    former: Identity | None = None
    """The machine that this node was on before it came back on another."""

    @property
    def identity(self) -> Identity:
        """The machine that the node is on."""
        return Identity(self.node, self.host, self.machine_id, self.is_id_given, self.boot_id)


@dataclass(frozen=True, slots=True)
class NodePart:
    """One part of the node table; digests of unchanged parts are not computed again."""

    entries: Mapping[str, NodeEntry] = field(default_factory=dict)


_EMPTY_PART = NodePart()


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Every node the job knows."""

    parts: tuple[NodePart, ...] = (_EMPTY_PART,) * PARTS

    def get(self, node: str) -> NodeEntry | None:
        """The entry, or None for a node never admitted."""
        return self.parts[part_of(node)].entries.get(node)

    def put(self, entry: NodeEntry) -> NodeTable:
        """The table with one entry set."""
        index = part_of(entry.node)
        part = NodePart({**self.parts[index].entries, entry.node: entry})
        return NodeTable((*self.parts[:index], part, *self.parts[index + 1 :]))

    def put_all(self, entries: Iterable[NodeEntry]) -> NodeTable:
        """The table with many entries set; each part is copied once."""
        changed: dict[int, dict[str, NodeEntry]] = {}
        for entry in entries:
            index = part_of(entry.node)
            if index not in changed:
                changed[index] = dict(self.parts[index].entries)
            changed[index][entry.node] = entry
        return NodeTable(
            tuple(NodePart(changed[index]) if index in changed else part for index, part in enumerate(self.parts))
        )

    def __iter__(self) -> Iterator[NodeEntry]:
        for part in self.parts:
            yield from part.entries.values()
