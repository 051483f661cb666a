"""Proto to core values and back; every check of what senders and readers say. Decides nothing."""

from __future__ import annotations

from functools import lru_cache

import grpc
from google.rpc import status_pb2

from resurge_api.logs.v1 import logs_pb2
from resurge_libs.core.ids import JobId
from resurge_libs.core.refusals import BadRequest, RpcProblem, VersionMismatch, WrongJob
from resurge_libs.rpc.errors import from_status, to_status
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, LogState, SourceKey, SourceState
from resurge_log_aggregator.reading import Part

PROTOCOL_VERSION = 1
NAME_BYTES_MAX = 256
PATH_BYTES_MAX = 4_096
MISSING_MAX = 1_000
KINDS = {logs_pb2.LOG_KIND_APPLICATION: LogKind.APPLICATION, logs_pb2.LOG_KIND_LAUNCHER: LogKind.LAUNCHER}
CODES = {code.value[0]: code for code in grpc.StatusCode}
KIND_PROTOS = {**{kind: number for number, kind in KINDS.items()}, LogKind.OTHER: logs_pb2.LOG_KIND_OTHER}


def check_hello(hello: logs_pb2.PushHello, served: str) -> None:
    """Raises VersionMismatch, BadRequest, WrongJob."""
    if hello.protocol_version != PROTOCOL_VERSION:
        raise VersionMismatch(hello.protocol_version, PROTOCOL_VERSION)
    _check_name("hello.job_id", hello.job_id)
    _check_name("hello.sender", hello.sender)
    check_job(hello.job_id, served)


def check_job(presented: str, served: str) -> None:
    """Raises WrongJob; an empty name on either side means any."""
    if presented and served and presented != served:
        raise WrongJob(JobId(presented), JobId(served))


def source_of(opened: logs_pb2.OpenSource) -> tuple[SourceKey, int]:
    """A source and its world size. Raises BadRequest."""
    source = opened.source
    kind = kind_of(source.kind)
    _check_name("open.source.node_id", source.node_id)
    if kind is LogKind.LAUNCHER:
        return SourceKey(kind, source.attempt, 0, 0, 0, source.node_id, source.incarnation), 0
    if source.world_size == 0 or source.rank >= source.world_size:
        raise BadRequest.of("open.source.rank", f"must be below world_size, got {source.rank} of {source.world_size}")
    key = SourceKey(
        kind, source.attempt, source.cycle, source.generation, source.rank, source.node_id, source.incarnation
    )
    return key, source.world_size


def named_source_of(opened: logs_pb2.OpenSource, of: LogKey) -> SourceKey:
    """A source that a client of another contract named by a path, which is that of `of`. Raises BadRequest."""
    source = opened.source
    check_named(source.node_id, source.file_path)
    return SourceKey(of.kind, of.attempt, of.cycle, 0, source.rank, source.node_id, source.incarnation, of.name)


def check_named(node: str, path: str) -> None:
    """Raises BadRequest for what no source may be called."""
    _check_name("open.source.node_id", node)
    if len(path.encode()) > PATH_BYTES_MAX:
        raise BadRequest.of("file_path", f"must be no longer than {PATH_BYTES_MAX} bytes")


def kind_of(number: int) -> LogKind:
    """Raises BadRequest for none that is known."""
    kind = KINDS.get(number)  # type: ignore[call-overload]
    if kind is None:
        raise BadRequest.of("kind", "must be LOG_KIND_APPLICATION or LOG_KIND_LAUNCHER")
    return kind


def head_of(block: logs_pb2.Block) -> BlockHead:
    """What a block says of itself. Raises BadRequest."""
    text = block.text
    if text and not text.endswith(b"\n"):
        raise BadRequest.of("blocks.text", "must hold whole lines: its last byte is no newline")
    gap = block.gap
    if gap.bytes > block.length:
        raise BadRequest.of("blocks.gap.bytes", f"must not exceed the block's length {block.length}, got {gap.bytes}")
    return BlockHead(block.offset, block.length, len(text), block.lines, block.ends, gap.bytes, gap.lines)


def _check_name(field: str, name: str) -> None:
    if not name or len(name.encode()) > NAME_BYTES_MAX:
        raise BadRequest.of(field, f"must be a name of 1 to {NAME_BYTES_MAX} bytes")


@lru_cache(maxsize=4_096)
def source_to_proto(key: SourceKey, world_size: int) -> logs_pb2.Source:
    """The source; the same object for the same source, to be read only."""
    return logs_pb2.Source(
        kind=KIND_PROTOS[key.kind],
        node_id=key.node,
        attempt=key.attempt,
        generation=key.generation,
        cycle=key.cycle,
        rank=key.rank,
        world_size=world_size,
        incarnation=key.incarnation,
        file_path=key.name,
    )


def of_place(request: logs_pb2.TailRequest) -> logs_pb2.TailRequest:
    """The request for the file in which a reader goes on."""
    chosen = logs_pb2.TailRequest(kind=request.kind, follow=request.follow)
    chosen.attempt, chosen.cycle = request.after.attempt, request.after.cycle
    return chosen


def part_to_proto(key: LogKey, path: str, part: Part) -> logs_pb2.TailResponse:
    """Lines, and how far the reader is with them."""
    told = place_to_proto(key, path, part.blocks, part.position)
    told.source.CopyFrom(source_to_proto(part.key, part.world_size))
    told.text = part.text
    return told


def place_to_proto(key: LogKey, path: str, blocks: int, position: int, sealed: bool = False) -> logs_pb2.TailResponse:
    """How far a reader is, without lines."""
    place = logs_pb2.LogPlace(
        attempt=key.attempt, cycle=key.cycle, blocks=blocks, position=position, path=path, sealed=sealed
    )
    return logs_pb2.TailResponse(place=place)


def source_state_to_proto(state: SourceState) -> logs_pb2.SourceState:
    """How far a source is."""
    return logs_pb2.SourceState(
        source=source_to_proto(state.key, state.world_size),
        durable=state.durable,
        lines=state.lines,
        ended=state.end_is_durable,
        gap_bytes=state.gap_bytes,
        gap_lines=state.gap_lines,
    )


def log_to_proto(state: LogState, path: str, size: int) -> logs_pb2.Log:
    """One file."""
    return logs_pb2.Log(
        kind=KIND_PROTOS[state.key.kind],
        attempt=state.key.attempt,
        cycle=state.key.cycle,
        path=path,
        bytes=size,
        lines=state.lines,
        world_size=state.world_size,
        sealed=state.is_sealed,
        missing_ranks=state.missing_ranks[:MISSING_MAX],
        gap_bytes=state.gap_bytes,
        gap_lines=state.gap_lines,
    )


def refusal_to_proto(problem: RpcProblem) -> logs_pb2.SourceRefusal:
    """Why a source is not taken."""
    code, status = to_status(problem)
    return logs_pb2.SourceRefusal(code=code.value[0], message=str(problem), details=status.details)


def refusal_of(refused: logs_pb2.SourceRefusal) -> RpcProblem:
    """The refusal on the wire."""
    status = status_pb2.Status(code=refused.code, message=refused.message, details=refused.details)
    return from_status(CODES.get(refused.code, grpc.StatusCode.UNKNOWN), refused.message, status)


def key_of(kind: LogKind, attempt: int, cycle: int) -> LogKey:
    """The file of a request."""
    return LogKey(kind, attempt, cycle)
