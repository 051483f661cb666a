from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProgressSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROGRESS_SOURCE_UNSPECIFIED: _ClassVar[ProgressSource]
    PROGRESS_SOURCE_MARKER: _ClassVar[ProgressSource]
    PROGRESS_SOURCE_SDK: _ClassVar[ProgressSource]
PROGRESS_SOURCE_UNSPECIFIED: ProgressSource
PROGRESS_SOURCE_MARKER: ProgressSource
PROGRESS_SOURCE_SDK: ProgressSource

class ProgressRules(_message.Message):
    __slots__ = ("source", "min_iterations", "max_no_progress_cycles")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MIN_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_NO_PROGRESS_CYCLES_FIELD_NUMBER: _ClassVar[int]
    source: ProgressSource
    min_iterations: int
    max_no_progress_cycles: int
    def __init__(self, source: _Optional[_Union[ProgressSource, str]] = ..., min_iterations: _Optional[int] = ..., max_no_progress_cycles: _Optional[int] = ...) -> None: ...

class ProgressCheck(_message.Message):
    __slots__ = ("rules", "baseline", "without_progress", "value", "skipped", "marker", "sdk_step")
    RULES_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    SDK_STEP_FIELD_NUMBER: _ClassVar[int]
    rules: ProgressRules
    baseline: int
    without_progress: int
    value: int
    skipped: str
    marker: int
    sdk_step: int
    def __init__(self, rules: _Optional[_Union[ProgressRules, _Mapping]] = ..., baseline: _Optional[int] = ..., without_progress: _Optional[int] = ..., value: _Optional[int] = ..., skipped: _Optional[str] = ..., marker: _Optional[int] = ..., sdk_step: _Optional[int] = ...) -> None: ...

class ProgressCount(_message.Message):
    __slots__ = ("rules", "baseline", "without_progress", "skipped_in_a_row", "last")
    RULES_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_IN_A_ROW_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    rules: ProgressRules
    baseline: int
    without_progress: int
    skipped_in_a_row: int
    last: ProgressCheck
    def __init__(self, rules: _Optional[_Union[ProgressRules, _Mapping]] = ..., baseline: _Optional[int] = ..., without_progress: _Optional[int] = ..., skipped_in_a_row: _Optional[int] = ..., last: _Optional[_Union[ProgressCheck, _Mapping]] = ...) -> None: ...
