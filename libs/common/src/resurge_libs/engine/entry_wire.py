"""The journal's entries as bytes: `resurge_api.journal.v1`. The only module of the engine that knows a proto."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from resurge_api.common.v1 import ids_pb2
from resurge_api.journal.v1 import journal_pb2
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.ports import Entry, FactRecord, Snapshot


class NotWhole(ValueError):
    """The bytes are no entry or snapshot."""


def entry_to_bytes(entry: Entry) -> bytes:
    """The stored form of one entry."""
    proto = journal_pb2.Entry(
        seq=entry.seq,
        event=entry.event,
        because=ids_pb2.Because(code=str(entry.because.code), sentence=entry.because.sentence),
        facts=[journal_pb2.Fact(kind=fact.kind, body=fact.body) for fact in entry.facts],
        state_digest=entry.state_digest,
        rules_version=entry.rules_version,
        settings_digest=entry.settings_digest,
    )
    proto.at.FromNanoseconds(round(entry.at * 1e9))
    return proto.SerializeToString(deterministic=True)


def entry_from_bytes(data: bytes) -> Entry:
    """The entry of its stored form. Raises NotWhole."""
    try:
        proto = journal_pb2.Entry.FromString(data)
    except DecodeError as error:
        raise NotWhole(f"no journal entry: {error}") from error
    return Entry(
        seq=proto.seq,
        at=Wall(proto.at.ToNanoseconds() / 1e9),
        event=proto.event,
        because=_because(proto.because),
        facts=tuple(FactRecord(fact.kind, fact.body) for fact in proto.facts),
        state_digest=proto.state_digest,
        rules_version=proto.rules_version,
        settings_digest=proto.settings_digest,
    )


def snapshot_to_bytes(snapshot: Snapshot) -> bytes:
    """The stored form of one snapshot."""
    return journal_pb2.Snapshot(
        seq=snapshot.seq,
        state=snapshot.state,
        state_digest=snapshot.state_digest,
        rules_version=snapshot.rules_version,
    ).SerializeToString(deterministic=True)


def snapshot_from_bytes(data: bytes) -> Snapshot:
    """The snapshot of its stored form. Raises NotWhole."""
    try:
        proto = journal_pb2.Snapshot.FromString(data)
    except DecodeError as error:
        raise NotWhole(f"no snapshot: {error}") from error
    return Snapshot(proto.seq, proto.state, proto.state_digest, proto.rules_version)


def _because(proto: ids_pb2.Because) -> Because:
    try:
        return Because(Reason(proto.code), proto.sentence)
    except ValueError:  # an entry of another release; its facts decide, the reason is for people
        return Because(Reason.NOTHING_CHANGED, f"{proto.code}: {proto.sentence}")
