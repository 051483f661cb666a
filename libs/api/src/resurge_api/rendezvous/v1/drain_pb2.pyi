import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StopPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_PHASE_UNSPECIFIED: _ClassVar[StopPhase]
    STOP_PHASE_ASK: _ClassVar[StopPhase]
    STOP_PHASE_HOLD: _ClassVar[StopPhase]
    STOP_PHASE_DECIDED: _ClassVar[StopPhase]
STOP_PHASE_UNSPECIFIED: StopPhase
STOP_PHASE_ASK: StopPhase
STOP_PHASE_HOLD: StopPhase
STOP_PHASE_DECIDED: StopPhase

class Stop(_message.Message):
    __slots__ = ("phase", "step")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    phase: StopPhase
    step: int
    def __init__(self, phase: _Optional[_Union[StopPhase, str]] = ..., step: _Optional[int] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("notice_signal", "grace", "asks", "offer", "held", "told")
    NOTICE_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    notice_signal: int
    grace: _duration_pb2.Duration
    asks: bool
    offer: int
    held: int
    told: bool
    def __init__(self, notice_signal: _Optional[int] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., asks: bool = ..., offer: _Optional[int] = ..., held: _Optional[int] = ..., told: bool = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("request_id", "job_id", "node_id", "reason", "grace")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: str
    node_id: str
    reason: str
    grace: _duration_pb2.Duration
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., reason: _Optional[str] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("because",)
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    because: _ids_pb2.Because
    def __init__(self, because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...
