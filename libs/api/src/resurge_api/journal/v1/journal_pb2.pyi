import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fact(_message.Message):
    __slots__ = ("kind", "body")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    body: bytes
    def __init__(self, kind: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("seq", "at", "event", "because", "facts", "state_digest", "rules_version", "settings_digest")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: _timestamp_pb2.Timestamp
    event: str
    because: _ids_pb2.Because
    facts: _containers.RepeatedCompositeFieldContainer[Fact]
    state_digest: bytes
    rules_version: int
    settings_digest: bytes
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event: _Optional[str] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., facts: _Optional[_Iterable[_Union[Fact, _Mapping]]] = ..., state_digest: _Optional[bytes] = ..., rules_version: _Optional[int] = ..., settings_digest: _Optional[bytes] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("seq", "state", "state_digest", "rules_version")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    seq: int
    state: bytes
    state_digest: bytes
    rules_version: int
    def __init__(self, seq: _Optional[int] = ..., state: _Optional[bytes] = ..., state_digest: _Optional[bytes] = ..., rules_version: _Optional[int] = ...) -> None: ...
