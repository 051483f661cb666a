"""Rebuilds a machine's durable state from its journal, and checks the digests. Pure over what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from resurge_libs.core import codec
from resurge_libs.core.machine import Machine
from resurge_libs.engine.ports import Damage, Entry, FactRecord, JournalUnusable, Replay

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Restored(Generic[D]):
    """The durable state, the last entry's number, and what was lost on the way."""

    durable: D
    last_seq: int
    damage: Damage | None
    replayed: int
    rules_version: int | None = None
    """Of the last entry or snapshot; where it is not this release's, the engine takes a snapshot at its start."""


def fact_record(fact: Any) -> FactRecord:
    """The record of one fact."""
    return FactRecord(codec.name_of(fact), codec.encode(fact))


def facts_of(entry: Entry, fact_type: Any) -> tuple[Any, ...]:
    """The facts of one entry. Raises CodecError, naming the place, when one cannot be read."""
    return tuple(codec.decode(fact_type, record.body) for record in entry.facts)


def restore(
    machine: Machine[Any],
    empty: D,
    replay: Replay,
    fact_type: Any,
    verify_each: bool = False,
    rules_version: int | None = None,
) -> Restored[D]:
    """Fold the journal's facts, starting at its snapshot or at `empty`.

    With a rules version, entries of an earlier one are folded by the present rules: the digest that the earlier rules
    recorded is of another state then, and is not looked at. A later one is of a release that knows more than this.

    Raises JournalUnusable when a fact cannot be read by this release or when the fold does not arrive at the recorded
    digest: then the journal belongs to other rules, and deciding on from a guess would be worse than stopping.
    """
    durable, digester = empty, codec.Digester()
    if replay.snapshot is not None:
        durable = _decoded(type(empty), replay.snapshot.state, f"snapshot after entry {replay.snapshot.seq}")
    last = len(replay.entries) - 1
    for index, entry in enumerate(replay.entries):
        for record in entry.facts:
            durable = machine.evolve(durable, _decoded(fact_type, record.body, f"entry {entry.seq} ({entry.event})"))
        is_comparable = rules_version is None or entry.rules_version >= rules_version
        if entry.state_digest and is_comparable and (verify_each or index == last):
            _check(digester.digest(durable), entry)
    newest = replay.entries[-1] if replay.entries else replay.snapshot
    version = newest.rules_version if newest is not None else None
    return Restored(durable, replay.last_seq, replay.damage, len(replay.entries), version)


def _decoded(kind: Any, data: bytes, where: str) -> Any:
    try:
        return codec.decode(kind, data)
    except codec.CodecError as error:
        raise JournalUnusable(
            f"journal {where} cannot be read by this release: {error}",
            "start the release that wrote it, or give another state directory",
        ) from error


def _check(found: bytes, entry: Entry) -> None:
    if found != entry.state_digest:
        raise JournalUnusable(
            f"journal entry {entry.seq} ({entry.event}, rules version {entry.rules_version}) does not replay to the "
            f"state it recorded: {found.hex()[:16]} is not {entry.state_digest.hex()[:16]}"
        )
