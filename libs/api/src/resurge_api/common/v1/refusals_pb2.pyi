import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StaleGeneration(_message.Message):
    __slots__ = ("presented", "current")
    PRESENTED_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    presented: _ids_pb2.FencingToken
    current: _ids_pb2.FencingToken
    def __init__(self, presented: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., current: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ...) -> None: ...

class AlreadyAttached(_message.Message):
    __slots__ = ("node_id", "incarnation", "holder")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    holder: str
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., holder: _Optional[str] = ...) -> None: ...

class Superseded(_message.Message):
    __slots__ = ("node_id", "presented", "current")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRESENTED_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    presented: int
    current: int
    def __init__(self, node_id: _Optional[str] = ..., presented: _Optional[int] = ..., current: _Optional[int] = ...) -> None: ...

class NodeExcluded(_message.Message):
    __slots__ = ("node_id", "until", "because")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    until: _timestamp_pb2.Timestamp
    because: _ids_pb2.Because
    def __init__(self, node_id: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...

class BudgetExhausted(_message.Message):
    __slots__ = ("spent", "max_restarts")
    SPENT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    spent: int
    max_restarts: int
    def __init__(self, spent: _Optional[int] = ..., max_restarts: _Optional[int] = ...) -> None: ...

class VersionMismatch(_message.Message):
    __slots__ = ("presented", "supported")
    PRESENTED_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    presented: int
    supported: int
    def __init__(self, presented: _Optional[int] = ..., supported: _Optional[int] = ...) -> None: ...

class WrongJob(_message.Message):
    __slots__ = ("presented", "served", "field", "presented_value", "served_value")
    PRESENTED_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    PRESENTED_VALUE_FIELD_NUMBER: _ClassVar[int]
    SERVED_VALUE_FIELD_NUMBER: _ClassVar[int]
    presented: str
    served: str
    field: str
    presented_value: str
    served_value: str
    def __init__(self, presented: _Optional[str] = ..., served: _Optional[str] = ..., field: _Optional[str] = ..., presented_value: _Optional[str] = ..., served_value: _Optional[str] = ...) -> None: ...

class Unready(_message.Message):
    __slots__ = ("because",)
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    because: _ids_pb2.Because
    def __init__(self, because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...
