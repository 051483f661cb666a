from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class FencingToken(_message.Message):
    __slots__ = ("job_id", "attempt", "generation")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    generation: int
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class Because(_message.Message):
    __slots__ = ("code", "sentence")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    code: str
    sentence: str
    def __init__(self, code: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...
