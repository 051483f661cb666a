import datetime

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

class MusterKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MUSTER_KIND_UNSPECIFIED: _ClassVar[MusterKind]
    MUSTER_KIND_START: _ClassVar[MusterKind]
    MUSTER_KIND_INTERRUPT: _ClassVar[MusterKind]
    MUSTER_KIND_OVER: _ClassVar[MusterKind]

class ReplacementStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLACEMENT_STAGE_UNSPECIFIED: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_WANTED: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_GRANTED: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_STARTING: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_COMING: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_JOINED: _ClassVar[ReplacementStage]
    REPLACEMENT_STAGE_GIVEN_UP: _ClassVar[ReplacementStage]
MUSTER_KIND_UNSPECIFIED: MusterKind
MUSTER_KIND_START: MusterKind
MUSTER_KIND_INTERRUPT: MusterKind
MUSTER_KIND_OVER: MusterKind
REPLACEMENT_STAGE_UNSPECIFIED: ReplacementStage
REPLACEMENT_STAGE_WANTED: ReplacementStage
REPLACEMENT_STAGE_GRANTED: ReplacementStage
REPLACEMENT_STAGE_STARTING: ReplacementStage
REPLACEMENT_STAGE_COMING: ReplacementStage
REPLACEMENT_STAGE_JOINED: ReplacementStage
REPLACEMENT_STAGE_GIVEN_UP: ReplacementStage

class MusterOrder(_message.Message):
    __slots__ = ("number", "kind", "iteration", "members", "sentence", "is_anew")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    IS_ANEW_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: MusterKind
    iteration: int
    members: _containers.RepeatedScalarFieldContainer[int]
    sentence: str
    is_anew: bool
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[_Union[MusterKind, str]] = ..., iteration: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., sentence: _Optional[str] = ..., is_anew: bool = ...) -> None: ...

class MusterReport(_message.Message):
    __slots__ = ("acted", "iteration", "is_running", "is_over", "joined", "living", "done", "needed", "min_world", "limit", "broken", "evicted", "is_anew", "can_renew")
    ACTED_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    LIVING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    MIN_WORLD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    IS_ANEW_FIELD_NUMBER: _ClassVar[int]
    CAN_RENEW_FIELD_NUMBER: _ClassVar[int]
    acted: MusterOrder
    iteration: int
    is_running: bool
    is_over: bool
    joined: _containers.RepeatedScalarFieldContainer[int]
    living: _containers.RepeatedScalarFieldContainer[int]
    done: int
    needed: int
    min_world: int
    limit: _duration_pb2.Duration
    broken: str
    evicted: _containers.RepeatedScalarFieldContainer[int]
    is_anew: bool
    can_renew: bool
    def __init__(self, acted: _Optional[_Union[MusterOrder, _Mapping]] = ..., iteration: _Optional[int] = ..., is_running: bool = ..., is_over: bool = ..., joined: _Optional[_Iterable[int]] = ..., living: _Optional[_Iterable[int]] = ..., done: _Optional[int] = ..., needed: _Optional[int] = ..., min_world: _Optional[int] = ..., limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., broken: _Optional[str] = ..., evicted: _Optional[_Iterable[int]] = ..., is_anew: bool = ..., can_renew: bool = ...) -> None: ...

class Replacement(_message.Message):
    __slots__ = ("number", "rank", "iteration", "because", "lost_at", "stage", "lost_pid", "pid", "settled_at", "sentence")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    LOST_PID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    rank: int
    iteration: int
    because: _ids_pb2.Because
    lost_at: _timestamp_pb2.Timestamp
    stage: ReplacementStage
    lost_pid: int
    pid: int
    settled_at: _timestamp_pb2.Timestamp
    sentence: str
    def __init__(self, number: _Optional[int] = ..., rank: _Optional[int] = ..., iteration: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., lost_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., stage: _Optional[_Union[ReplacementStage, str]] = ..., lost_pid: _Optional[int] = ..., pid: _Optional[int] = ..., settled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sentence: _Optional[str] = ...) -> None: ...

class Replacing(_message.Message):
    __slots__ = ("granted", "refused_upto", "sentence")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_UPTO_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    granted: _containers.RepeatedScalarFieldContainer[int]
    refused_upto: int
    sentence: str
    def __init__(self, granted: _Optional[_Iterable[int]] = ..., refused_upto: _Optional[int] = ..., sentence: _Optional[str] = ...) -> None: ...
