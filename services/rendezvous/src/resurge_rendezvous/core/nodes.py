"""The nodes that a job remembers, in a table whose parts are shared between versions. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from resurge_libs.core.ids import Generation, Incarnation, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because
from resurge_rendezvous.core.shards import PARTS, part_of


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A node is out of later rounds; `until` None means until readmitted."""

    because: Because
    until: Wall | None = None


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
    would_exclude: Because | None = None
    """A verdict named it, but without it the job could not reach MIN."""
    finished: Generation = Generation(0)
    """The last generation whose workers all exited 0 here."""


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

    def __iter__(self) -> Iterator[NodeEntry]:
        for part in self.parts:
            yield from part.entries.values()
