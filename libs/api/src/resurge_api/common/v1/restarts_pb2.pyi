import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Backoff(_message.Message):
    __slots__ = ("fast_failure", "free_failures", "first_delay", "factor", "max_delay", "jitter_share")
    FAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    FREE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    FIRST_DELAY_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_DELAY_FIELD_NUMBER: _ClassVar[int]
    JITTER_SHARE_FIELD_NUMBER: _ClassVar[int]
    fast_failure: _duration_pb2.Duration
    free_failures: int
    first_delay: _duration_pb2.Duration
    factor: float
    max_delay: _duration_pb2.Duration
    jitter_share: float
    def __init__(self, fast_failure: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., free_failures: _Optional[int] = ..., first_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., factor: _Optional[float] = ..., max_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter_share: _Optional[float] = ...) -> None: ...

class CauseBudget(_message.Message):
    __slots__ = ("cause", "allowed", "spent")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    cause: str
    allowed: int
    spent: int
    def __init__(self, cause: _Optional[str] = ..., allowed: _Optional[int] = ..., spent: _Optional[int] = ...) -> None: ...

class RestartRules(_message.Message):
    __slots__ = ("by_cause", "refund_after", "backoff")
    BY_CAUSE_FIELD_NUMBER: _ClassVar[int]
    REFUND_AFTER_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    by_cause: _containers.RepeatedCompositeFieldContainer[CauseBudget]
    refund_after: _duration_pb2.Duration
    backoff: Backoff
    def __init__(self, by_cause: _Optional[_Iterable[_Union[CauseBudget, _Mapping]]] = ..., refund_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ...) -> None: ...
