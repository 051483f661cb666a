import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_KIND_UNSPECIFIED: _ClassVar[LogKind]
    LOG_KIND_APPLICATION: _ClassVar[LogKind]
    LOG_KIND_LAUNCHER: _ClassVar[LogKind]
    LOG_KIND_OTHER: _ClassVar[LogKind]
LOG_KIND_UNSPECIFIED: LogKind
LOG_KIND_APPLICATION: LogKind
LOG_KIND_LAUNCHER: LogKind
LOG_KIND_OTHER: LogKind

class Source(_message.Message):
    __slots__ = ("kind", "node_id", "attempt", "generation", "cycle", "rank", "world_size", "incarnation", "file_path")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    kind: LogKind
    node_id: str
    attempt: int
    generation: int
    cycle: int
    rank: int
    world_size: int
    incarnation: int
    file_path: str
    def __init__(self, kind: _Optional[_Union[LogKind, str]] = ..., node_id: _Optional[str] = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ..., cycle: _Optional[int] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., incarnation: _Optional[int] = ..., file_path: _Optional[str] = ...) -> None: ...

class PushHello(_message.Message):
    __slots__ = ("protocol_version", "job_id", "sender", "carries_many")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CARRIES_MANY_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    job_id: str
    sender: str
    carries_many: bool
    def __init__(self, protocol_version: _Optional[int] = ..., job_id: _Optional[str] = ..., sender: _Optional[str] = ..., carries_many: bool = ...) -> None: ...

class OpenSource(_message.Message):
    __slots__ = ("number", "source")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    source: Source
    def __init__(self, number: _Optional[int] = ..., source: _Optional[_Union[Source, _Mapping]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("bytes", "lines", "because")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    lines: int
    because: _ids_pb2.Because
    def __init__(self, bytes: _Optional[int] = ..., lines: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("number", "offset", "length", "text", "lines", "gap", "ends")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    number: int
    offset: int
    length: int
    text: bytes
    lines: int
    gap: Gap
    ends: bool
    def __init__(self, number: _Optional[int] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., text: _Optional[bytes] = ..., lines: _Optional[int] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ..., ends: bool = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("hello", "open", "blocks")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    hello: PushHello
    open: _containers.RepeatedCompositeFieldContainer[OpenSource]
    blocks: _containers.RepeatedCompositeFieldContainer[Block]
    def __init__(self, hello: _Optional[_Union[PushHello, _Mapping]] = ..., open: _Optional[_Iterable[_Union[OpenSource, _Mapping]]] = ..., blocks: _Optional[_Iterable[_Union[Block, _Mapping]]] = ...) -> None: ...

class SourceAck(_message.Message):
    __slots__ = ("number", "durable", "ended", "next", "refused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    durable: int
    ended: bool
    next: int
    refused: SourceRefusal
    def __init__(self, number: _Optional[int] = ..., durable: _Optional[int] = ..., ended: bool = ..., next: _Optional[int] = ..., refused: _Optional[_Union[SourceRefusal, _Mapping]] = ...) -> None: ...

class SourceRefusal(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[_any_pb2.Any]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[_any_pb2.Any, _Mapping]]] = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ("acks", "window", "trouble", "gather", "takes_other")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    GATHER_FIELD_NUMBER: _ClassVar[int]
    TAKES_OTHER_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[SourceAck]
    window: int
    trouble: _ids_pb2.Because
    gather: _duration_pb2.Duration
    takes_other: bool
    def __init__(self, acks: _Optional[_Iterable[_Union[SourceAck, _Mapping]]] = ..., window: _Optional[int] = ..., trouble: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., gather: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., takes_other: bool = ...) -> None: ...

class TailRequest(_message.Message):
    __slots__ = ("job_id", "kind", "attempt", "cycle", "ranks", "nodes", "since", "last", "follow", "after")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    kind: LogKind
    attempt: int
    cycle: int
    ranks: _containers.RepeatedScalarFieldContainer[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    last: int
    follow: bool
    after: LogPlace
    def __init__(self, job_id: _Optional[str] = ..., kind: _Optional[_Union[LogKind, str]] = ..., attempt: _Optional[int] = ..., cycle: _Optional[int] = ..., ranks: _Optional[_Iterable[int]] = ..., nodes: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last: _Optional[int] = ..., follow: bool = ..., after: _Optional[_Union[LogPlace, _Mapping]] = ...) -> None: ...

class LogPlace(_message.Message):
    __slots__ = ("attempt", "cycle", "blocks", "position", "path", "sealed")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    cycle: int
    blocks: int
    position: int
    path: str
    sealed: bool
    def __init__(self, attempt: _Optional[int] = ..., cycle: _Optional[int] = ..., blocks: _Optional[int] = ..., position: _Optional[int] = ..., path: _Optional[str] = ..., sealed: bool = ...) -> None: ...

class TailResponse(_message.Message):
    __slots__ = ("source", "text", "place")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    source: Source
    text: bytes
    place: LogPlace
    def __init__(self, source: _Optional[_Union[Source, _Mapping]] = ..., text: _Optional[bytes] = ..., place: _Optional[_Union[LogPlace, _Mapping]] = ...) -> None: ...

class SourceState(_message.Message):
    __slots__ = ("source", "durable", "lines", "ended", "gap_bytes", "gap_lines")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    GAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    GAP_LINES_FIELD_NUMBER: _ClassVar[int]
    source: Source
    durable: int
    lines: int
    ended: bool
    gap_bytes: int
    gap_lines: int
    def __init__(self, source: _Optional[_Union[Source, _Mapping]] = ..., durable: _Optional[int] = ..., lines: _Optional[int] = ..., ended: bool = ..., gap_bytes: _Optional[int] = ..., gap_lines: _Optional[int] = ...) -> None: ...

class Log(_message.Message):
    __slots__ = ("kind", "attempt", "cycle", "path", "bytes", "lines", "world_size", "sealed", "missing_ranks", "gap_bytes", "gap_lines")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    MISSING_RANKS_FIELD_NUMBER: _ClassVar[int]
    GAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    GAP_LINES_FIELD_NUMBER: _ClassVar[int]
    kind: LogKind
    attempt: int
    cycle: int
    path: str
    bytes: int
    lines: int
    world_size: int
    sealed: bool
    missing_ranks: _containers.RepeatedScalarFieldContainer[int]
    gap_bytes: int
    gap_lines: int
    def __init__(self, kind: _Optional[_Union[LogKind, str]] = ..., attempt: _Optional[int] = ..., cycle: _Optional[int] = ..., path: _Optional[str] = ..., bytes: _Optional[int] = ..., lines: _Optional[int] = ..., world_size: _Optional[int] = ..., sealed: bool = ..., missing_ranks: _Optional[_Iterable[int]] = ..., gap_bytes: _Optional[int] = ..., gap_lines: _Optional[int] = ...) -> None: ...

class GetLogRequest(_message.Message):
    __slots__ = ("job_id", "kind", "attempt", "cycle", "wait")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    kind: LogKind
    attempt: int
    cycle: int
    wait: bool
    def __init__(self, job_id: _Optional[str] = ..., kind: _Optional[_Union[LogKind, str]] = ..., attempt: _Optional[int] = ..., cycle: _Optional[int] = ..., wait: bool = ...) -> None: ...

class GetLogResponse(_message.Message):
    __slots__ = ("log", "sources")
    LOG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    log: Log
    sources: _containers.RepeatedCompositeFieldContainer[SourceState]
    def __init__(self, log: _Optional[_Union[Log, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[SourceState, _Mapping]]] = ...) -> None: ...

class ListLogsRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListLogsResponse(_message.Message):
    __slots__ = ("logs",)
    LOGS_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[Log]
    def __init__(self, logs: _Optional[_Iterable[_Union[Log, _Mapping]]] = ...) -> None: ...
