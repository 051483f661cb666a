from google.protobuf import any_pb2 as _any_pb2
from resurge_api.rendezvous.v1 import attach_pb2 as _attach_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LinkObserved(_message.Message):
    __slots__ = ("link", "observed")
    LINK_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    link: int
    observed: _attach_pb2.Observed
    def __init__(self, link: _Optional[int] = ..., observed: _Optional[_Union[_attach_pb2.Observed, _Mapping]] = ...) -> None: ...

class LinkBeat(_message.Message):
    __slots__ = ("link", "beat")
    LINK_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    link: int
    beat: _attach_pb2.Beat
    def __init__(self, link: _Optional[int] = ..., beat: _Optional[_Union[_attach_pb2.Beat, _Mapping]] = ...) -> None: ...

class LinkGone(_message.Message):
    __slots__ = ("link", "by_peer")
    LINK_FIELD_NUMBER: _ClassVar[int]
    BY_PEER_FIELD_NUMBER: _ClassVar[int]
    link: int
    by_peer: bool
    def __init__(self, link: _Optional[int] = ..., by_peer: bool = ...) -> None: ...

class AttachManyRequest(_message.Message):
    __slots__ = ("protocol_version", "relay", "observed", "beats", "gone", "fills_places")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    BEATS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    FILLS_PLACES_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    relay: str
    observed: _containers.RepeatedCompositeFieldContainer[LinkObserved]
    beats: _containers.RepeatedCompositeFieldContainer[LinkBeat]
    gone: _containers.RepeatedCompositeFieldContainer[LinkGone]
    fills_places: bool
    def __init__(self, protocol_version: _Optional[int] = ..., relay: _Optional[str] = ..., observed: _Optional[_Iterable[_Union[LinkObserved, _Mapping]]] = ..., beats: _Optional[_Iterable[_Union[LinkBeat, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[LinkGone, _Mapping]]] = ..., fills_places: bool = ...) -> None: ...

class LinkOrder(_message.Message):
    __slots__ = ("link", "revision", "group_rank", "base_rank")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GROUP_RANK_FIELD_NUMBER: _ClassVar[int]
    BASE_RANK_FIELD_NUMBER: _ClassVar[int]
    link: int
    revision: int
    group_rank: int
    base_rank: int
    def __init__(self, link: _Optional[int] = ..., revision: _Optional[int] = ..., group_rank: _Optional[int] = ..., base_rank: _Optional[int] = ...) -> None: ...

class SharedDesired(_message.Message):
    __slots__ = ("desired", "to")
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    desired: _attach_pb2.Desired
    to: _containers.RepeatedCompositeFieldContainer[LinkOrder]
    def __init__(self, desired: _Optional[_Union[_attach_pb2.Desired, _Mapping]] = ..., to: _Optional[_Iterable[_Union[LinkOrder, _Mapping]]] = ...) -> None: ...

class LinkBeatReply(_message.Message):
    __slots__ = ("link", "reply")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    link: int
    reply: _attach_pb2.BeatReply
    def __init__(self, link: _Optional[int] = ..., reply: _Optional[_Union[_attach_pb2.BeatReply, _Mapping]] = ...) -> None: ...

class LinkEnd(_message.Message):
    __slots__ = ("link", "code", "message", "details")
    LINK_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    link: int
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[_any_pb2.Any]
    def __init__(self, link: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[_any_pb2.Any, _Mapping]]] = ...) -> None: ...

class AttachManyResponse(_message.Message):
    __slots__ = ("desired", "beat_replies", "ends")
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    BEAT_REPLIES_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    desired: _containers.RepeatedCompositeFieldContainer[SharedDesired]
    beat_replies: _containers.RepeatedCompositeFieldContainer[LinkBeatReply]
    ends: _containers.RepeatedCompositeFieldContainer[LinkEnd]
    def __init__(self, desired: _Optional[_Iterable[_Union[SharedDesired, _Mapping]]] = ..., beat_replies: _Optional[_Iterable[_Union[LinkBeatReply, _Mapping]]] = ..., ends: _Optional[_Iterable[_Union[LinkEnd, _Mapping]]] = ...) -> None: ...
