import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from resurge_api.common.v1 import progress_pb2 as _progress_pb2
from resurge_api.common.v1 import restarts_pb2 as _restarts_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerdictKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_KIND_UNSPECIFIED: _ClassVar[VerdictKind]
    VERDICT_KIND_RESTART: _ClassVar[VerdictKind]
    VERDICT_KIND_RESTART_EXCLUDING: _ClassVar[VerdictKind]
    VERDICT_KIND_STOP: _ClassVar[VerdictKind]
    VERDICT_KIND_SHUTDOWN: _ClassVar[VerdictKind]

class RecommendationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOMMENDATION_KIND_UNSPECIFIED: _ClassVar[RecommendationKind]
    RECOMMENDATION_KIND_RESTART: _ClassVar[RecommendationKind]
    RECOMMENDATION_KIND_RESTART_EXCLUDING: _ClassVar[RecommendationKind]
    RECOMMENDATION_KIND_STOP: _ClassVar[RecommendationKind]
    RECOMMENDATION_KIND_CONTINUE: _ClassVar[RecommendationKind]
    RECOMMENDATION_KIND_UNKNOWN: _ClassVar[RecommendationKind]

class RecommendationEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOMMENDATION_EFFECT_UNSPECIFIED: _ClassVar[RecommendationEffect]
    RECOMMENDATION_EFFECT_RECORDED: _ClassVar[RecommendationEffect]
    RECOMMENDATION_EFFECT_LATCHED: _ClassVar[RecommendationEffect]
    RECOMMENDATION_EFFECT_ENDED: _ClassVar[RecommendationEffect]
    RECOMMENDATION_EFFECT_TOO_LATE: _ClassVar[RecommendationEffect]
VERDICT_KIND_UNSPECIFIED: VerdictKind
VERDICT_KIND_RESTART: VerdictKind
VERDICT_KIND_RESTART_EXCLUDING: VerdictKind
VERDICT_KIND_STOP: VerdictKind
VERDICT_KIND_SHUTDOWN: VerdictKind
RECOMMENDATION_KIND_UNSPECIFIED: RecommendationKind
RECOMMENDATION_KIND_RESTART: RecommendationKind
RECOMMENDATION_KIND_RESTART_EXCLUDING: RecommendationKind
RECOMMENDATION_KIND_STOP: RecommendationKind
RECOMMENDATION_KIND_CONTINUE: RecommendationKind
RECOMMENDATION_KIND_UNKNOWN: RecommendationKind
RECOMMENDATION_EFFECT_UNSPECIFIED: RecommendationEffect
RECOMMENDATION_EFFECT_RECORDED: RecommendationEffect
RECOMMENDATION_EFFECT_LATCHED: RecommendationEffect
RECOMMENDATION_EFFECT_ENDED: RecommendationEffect
RECOMMENDATION_EFFECT_TOO_LATE: RecommendationEffect

class Fault(_message.Message):
    __slots__ = ("node_id", "rank", "because", "at", "culprit", "exit_code", "signal", "last_step", "cause")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    rank: int
    because: _ids_pb2.Because
    at: _timestamp_pb2.Timestamp
    culprit: bool
    exit_code: int
    signal: int
    last_step: int
    cause: str
    def __init__(self, node_id: _Optional[str] = ..., rank: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., culprit: bool = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., last_step: _Optional[int] = ..., cause: _Optional[str] = ...) -> None: ...

class Incident(_message.Message):
    __slots__ = ("incident_id", "token", "cycle", "round", "faults", "restarts_spent", "max_restarts", "recent_cycle_s", "jitter", "nodes_available", "min_nodes", "job_succeeded", "shutdown_requested", "latched_stop", "advice_missing", "latched_stop_exit_code", "restarts_refunded", "no_restart_exit_code", "progress", "culprit", "cause", "cause_budget", "backoff")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_SPENT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RECENT_CYCLE_S_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    NODES_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    JOB_SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    LATCHED_STOP_FIELD_NUMBER: _ClassVar[int]
    ADVICE_MISSING_FIELD_NUMBER: _ClassVar[int]
    LATCHED_STOP_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_REFUNDED_FIELD_NUMBER: _ClassVar[int]
    NO_RESTART_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_BUDGET_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    token: _ids_pb2.FencingToken
    cycle: int
    round: int
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    restarts_spent: int
    max_restarts: int
    recent_cycle_s: _containers.RepeatedScalarFieldContainer[float]
    jitter: float
    nodes_available: int
    min_nodes: int
    job_succeeded: bool
    shutdown_requested: bool
    latched_stop: _ids_pb2.Because
    advice_missing: _containers.RepeatedScalarFieldContainer[str]
    latched_stop_exit_code: int
    restarts_refunded: int
    no_restart_exit_code: int
    progress: _progress_pb2.ProgressCheck
    culprit: Culprit
    cause: str
    cause_budget: _restarts_pb2.CauseBudget
    backoff: _restarts_pb2.Backoff
    def __init__(self, incident_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., cycle: _Optional[int] = ..., round: _Optional[int] = ..., faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., restarts_spent: _Optional[int] = ..., max_restarts: _Optional[int] = ..., recent_cycle_s: _Optional[_Iterable[float]] = ..., jitter: _Optional[float] = ..., nodes_available: _Optional[int] = ..., min_nodes: _Optional[int] = ..., job_succeeded: bool = ..., shutdown_requested: bool = ..., latched_stop: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., advice_missing: _Optional[_Iterable[str]] = ..., latched_stop_exit_code: _Optional[int] = ..., restarts_refunded: _Optional[int] = ..., no_restart_exit_code: _Optional[int] = ..., progress: _Optional[_Union[_progress_pb2.ProgressCheck, _Mapping]] = ..., culprit: _Optional[_Union[Culprit, _Mapping]] = ..., cause: _Optional[str] = ..., cause_budget: _Optional[_Union[_restarts_pb2.CauseBudget, _Mapping]] = ..., backoff: _Optional[_Union[_restarts_pb2.Backoff, _Mapping]] = ...) -> None: ...

class Culprit(_message.Message):
    __slots__ = ("node_id", "code", "rank", "nodes_left", "is_enough", "offences")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODES_LEFT_FIELD_NUMBER: _ClassVar[int]
    IS_ENOUGH_FIELD_NUMBER: _ClassVar[int]
    OFFENCES_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    code: str
    rank: int
    nodes_left: int
    is_enough: bool
    offences: _containers.RepeatedCompositeFieldContainer[Offence]
    def __init__(self, node_id: _Optional[str] = ..., code: _Optional[str] = ..., rank: _Optional[int] = ..., nodes_left: _Optional[int] = ..., is_enough: bool = ..., offences: _Optional[_Iterable[_Union[Offence, _Mapping]]] = ...) -> None: ...

class Offence(_message.Message):
    __slots__ = ("node_id", "generation", "code", "rank", "elsewhere")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    generation: int
    code: str
    rank: int
    elsewhere: bool
    def __init__(self, node_id: _Optional[str] = ..., generation: _Optional[int] = ..., code: _Optional[str] = ..., rank: _Optional[int] = ..., elsewhere: bool = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("kind", "because", "exit_code", "delay", "excluded_node_ids", "restarts_left", "source", "would_exclude_node_ids")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WOULD_EXCLUDE_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    kind: VerdictKind
    because: _ids_pb2.Because
    exit_code: int
    delay: _duration_pb2.Duration
    excluded_node_ids: _containers.RepeatedScalarFieldContainer[str]
    restarts_left: int
    source: str
    would_exclude_node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Union[VerdictKind, str]] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., exit_code: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., excluded_node_ids: _Optional[_Iterable[str]] = ..., restarts_left: _Optional[int] = ..., source: _Optional[str] = ..., would_exclude_node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("request_id", "incident")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    incident: Incident
    def __init__(self, request_id: _Optional[str] = ..., incident: _Optional[_Union[Incident, _Mapping]] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("verdict",)
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    def __init__(self, verdict: _Optional[_Union[Verdict, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("incident_id", "incident")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    incident: Incident
    def __init__(self, incident_id: _Optional[str] = ..., incident: _Optional[_Union[Incident, _Mapping]] = ...) -> None: ...

class RuleOutcome(_message.Message):
    __slots__ = ("rule", "decided", "because")
    RULE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    rule: str
    decided: bool
    because: _ids_pb2.Because
    def __init__(self, rule: _Optional[str] = ..., decided: bool = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("incident", "verdict", "rules")
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    incident: Incident
    verdict: Verdict
    rules: _containers.RepeatedCompositeFieldContainer[RuleOutcome]
    def __init__(self, incident: _Optional[_Union[Incident, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[RuleOutcome, _Mapping]]] = ...) -> None: ...

class Recommendation(_message.Message):
    __slots__ = ("kind", "token", "sentence", "confidence", "culprit_node_ids", "incident_id", "source")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    kind: RecommendationKind
    token: _ids_pb2.FencingToken
    sentence: str
    confidence: float
    culprit_node_ids: _containers.RepeatedScalarFieldContainer[str]
    incident_id: str
    source: str
    def __init__(self, kind: _Optional[_Union[RecommendationKind, str]] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., sentence: _Optional[str] = ..., confidence: _Optional[float] = ..., culprit_node_ids: _Optional[_Iterable[str]] = ..., incident_id: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ReportRecommendationRequest(_message.Message):
    __slots__ = ("request_id", "recommendation")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    recommendation: Recommendation
    def __init__(self, request_id: _Optional[str] = ..., recommendation: _Optional[_Union[Recommendation, _Mapping]] = ...) -> None: ...

class ReportRecommendationResponse(_message.Message):
    __slots__ = ("effect", "because")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    effect: RecommendationEffect
    because: _ids_pb2.Because
    def __init__(self, effect: _Optional[_Union[RecommendationEffect, str]] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...
