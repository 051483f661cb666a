import datetime

from google.protobuf import duration_pb2 as _duration_pb2
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
MUSTER_KIND_UNSPECIFIED: MusterKind
MUSTER_KIND_START: MusterKind
MUSTER_KIND_INTERRUPT: MusterKind
MUSTER_KIND_OVER: MusterKind

class MusterOrder(_message.Message):
    __slots__ = ("number", "kind", "iteration", "members", "sentence")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: MusterKind
    iteration: int
    members: _containers.RepeatedScalarFieldContainer[int]
    sentence: str
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[_Union[MusterKind, str]] = ..., iteration: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., sentence: _Optional[str] = ...) -> None: ...

class MusterReport(_message.Message):
    __slots__ = ("acted", "iteration", "is_running", "is_over", "joined", "living", "done", "needed", "min_world", "limit", "broken", "evicted")
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
    def __init__(self, acted: _Optional[_Union[MusterOrder, _Mapping]] = ..., iteration: _Optional[int] = ..., is_running: bool = ..., is_over: bool = ..., joined: _Optional[_Iterable[int]] = ..., living: _Optional[_Iterable[int]] = ..., done: _Optional[int] = ..., needed: _Optional[int] = ..., min_world: _Optional[int] = ..., limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., broken: _Optional[str] = ..., evicted: _Optional[_Iterable[int]] = ...) -> None: ...
