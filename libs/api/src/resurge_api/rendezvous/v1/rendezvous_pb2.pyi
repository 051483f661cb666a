import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from resurge_api.common.v1 import progress_pb2 as _progress_pb2
from resurge_api.common.v1 import restarts_pb2 as _restarts_pb2
from resurge_api.policy.v1 import policy_pb2 as _policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2 as _attach_pb2
from resurge_api.rendezvous.v1 import drain_pb2 as _drain_pb2
from resurge_api.rendezvous.v1 import relay_pb2 as _relay_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_PHASE_UNSPECIFIED: _ClassVar[JobPhase]
    JOB_PHASE_GATHERING: _ClassVar[JobPhase]
    JOB_PHASE_RUNNING: _ClassVar[JobPhase]
    JOB_PHASE_RECOVERING: _ClassVar[JobPhase]
    JOB_PHASE_FINISHING: _ClassVar[JobPhase]
    JOB_PHASE_ENDED: _ClassVar[JobPhase]

class NodeStanding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STANDING_UNSPECIFIED: _ClassVar[NodeStanding]
    NODE_STANDING_ACTIVE: _ClassVar[NodeStanding]
    NODE_STANDING_SPARE: _ClassVar[NodeStanding]
    NODE_STANDING_EXCLUDED: _ClassVar[NodeStanding]
    NODE_STANDING_LOST: _ClassVar[NodeStanding]
    NODE_STANDING_SILENT: _ClassVar[NodeStanding]
    NODE_STANDING_LEFT: _ClassVar[NodeStanding]

class Activity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVITY_UNSPECIFIED: _ClassVar[Activity]
    ACTIVITY_WAITING: _ClassVar[Activity]
    ACTIVITY_RENDEZVOUS: _ClassVar[Activity]
    ACTIVITY_START: _ClassVar[Activity]
    ACTIVITY_RESTORE: _ClassVar[Activity]
    ACTIVITY_TRAINING: _ClassVar[Activity]
    ACTIVITY_DETECTION: _ClassVar[Activity]
    ACTIVITY_TEARDOWN: _ClassVar[Activity]

class RecoveryOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERY_OUTCOME_UNSPECIFIED: _ClassVar[RecoveryOutcome]
    RECOVERY_OUTCOME_OPEN: _ClassVar[RecoveryOutcome]
    RECOVERY_OUTCOME_RECOVERED: _ClassVar[RecoveryOutcome]
    RECOVERY_OUTCOME_STARTED_ONLY: _ClassVar[RecoveryOutcome]
    RECOVERY_OUTCOME_ENDED: _ClassVar[RecoveryOutcome]

class ControlAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTROL_ACTION_UNSPECIFIED: _ClassVar[ControlAction]
    CONTROL_ACTION_CONTINUE: _ClassVar[ControlAction]
    CONTROL_ACTION_EXCLUDE_THIS_NODE: _ClassVar[ControlAction]
    CONTROL_ACTION_SHUTDOWN_WORKLOAD: _ClassVar[ControlAction]
JOB_PHASE_UNSPECIFIED: JobPhase
JOB_PHASE_GATHERING: JobPhase
JOB_PHASE_RUNNING: JobPhase
JOB_PHASE_RECOVERING: JobPhase
JOB_PHASE_FINISHING: JobPhase
JOB_PHASE_ENDED: JobPhase
NODE_STANDING_UNSPECIFIED: NodeStanding
NODE_STANDING_ACTIVE: NodeStanding
NODE_STANDING_SPARE: NodeStanding
NODE_STANDING_EXCLUDED: NodeStanding
NODE_STANDING_LOST: NodeStanding
NODE_STANDING_SILENT: NodeStanding
NODE_STANDING_LEFT: NodeStanding
ACTIVITY_UNSPECIFIED: Activity
ACTIVITY_WAITING: Activity
ACTIVITY_RENDEZVOUS: Activity
ACTIVITY_START: Activity
ACTIVITY_RESTORE: Activity
ACTIVITY_TRAINING: Activity
ACTIVITY_DETECTION: Activity
ACTIVITY_TEARDOWN: Activity
RECOVERY_OUTCOME_UNSPECIFIED: RecoveryOutcome
RECOVERY_OUTCOME_OPEN: RecoveryOutcome
RECOVERY_OUTCOME_RECOVERED: RecoveryOutcome
RECOVERY_OUTCOME_STARTED_ONLY: RecoveryOutcome
RECOVERY_OUTCOME_ENDED: RecoveryOutcome
CONTROL_ACTION_UNSPECIFIED: ControlAction
CONTROL_ACTION_CONTINUE: ControlAction
CONTROL_ACTION_EXCLUDE_THIS_NODE: ControlAction
CONTROL_ACTION_SHUTDOWN_WORKLOAD: ControlAction

class AttachRequest(_message.Message):
    __slots__ = ("observed",)
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    observed: _attach_pb2.Observed
    def __init__(self, observed: _Optional[_Union[_attach_pb2.Observed, _Mapping]] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("desired",)
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    desired: _attach_pb2.Desired
    def __init__(self, desired: _Optional[_Union[_attach_pb2.Desired, _Mapping]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("node_id", "incarnation", "host", "standing", "phase", "generation", "group_rank", "base_rank", "local_world_size", "domain", "because", "exclusion", "would_exclude", "offences", "machine_id")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_RANK_FIELD_NUMBER: _ClassVar[int]
    BASE_RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSION_FIELD_NUMBER: _ClassVar[int]
    WOULD_EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    OFFENCES_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    host: str
    standing: NodeStanding
    phase: _attach_pb2.NodePhase
    generation: int
    group_rank: int
    base_rank: int
    local_world_size: int
    domain: str
    because: _ids_pb2.Because
    exclusion: Exclusion
    would_exclude: _ids_pb2.Because
    offences: int
    machine_id: str
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., host: _Optional[str] = ..., standing: _Optional[_Union[NodeStanding, str]] = ..., phase: _Optional[_Union[_attach_pb2.NodePhase, str]] = ..., generation: _Optional[int] = ..., group_rank: _Optional[int] = ..., base_rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., domain: _Optional[str] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., exclusion: _Optional[_Union[Exclusion, _Mapping]] = ..., would_exclude: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., offences: _Optional[int] = ..., machine_id: _Optional[str] = ...) -> None: ...

class Exclusion(_message.Message):
    __slots__ = ("node_id", "host", "machine_id", "because", "by", "at", "until", "is_automatic")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    IS_AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    host: str
    machine_id: str
    because: _ids_pb2.Because
    by: str
    at: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    is_automatic: bool
    def __init__(self, node_id: _Optional[str] = ..., host: _Optional[str] = ..., machine_id: _Optional[str] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., by: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., is_automatic: bool = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("spec", "token", "cycle", "phase", "because", "restarts_spent", "incident_id", "nodes", "decision", "ledger", "recoveries_closed", "recommendations", "progress", "exclusions", "restarts_refunded", "cause_budgets", "replaced")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_SPENT_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    RECOVERIES_CLOSED_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIONS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_REFUNDED_FIELD_NUMBER: _ClassVar[int]
    CAUSE_BUDGETS_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    spec: _attach_pb2.JobSpec
    token: _ids_pb2.FencingToken
    cycle: int
    phase: JobPhase
    because: _ids_pb2.Because
    restarts_spent: int
    incident_id: str
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    decision: TerminalDecision
    ledger: Ledger
    recoveries_closed: int
    recommendations: _containers.RepeatedCompositeFieldContainer[RecommendationCount]
    progress: _progress_pb2.ProgressCount
    exclusions: _containers.RepeatedCompositeFieldContainer[Exclusion]
    restarts_refunded: int
    cause_budgets: _containers.RepeatedCompositeFieldContainer[_restarts_pb2.CauseBudget]
    replaced: _containers.RepeatedCompositeFieldContainer[ReplacedRank]
    def __init__(self, spec: _Optional[_Union[_attach_pb2.JobSpec, _Mapping]] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., cycle: _Optional[int] = ..., phase: _Optional[_Union[JobPhase, str]] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., restarts_spent: _Optional[int] = ..., incident_id: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., decision: _Optional[_Union[TerminalDecision, _Mapping]] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., recoveries_closed: _Optional[int] = ..., recommendations: _Optional[_Iterable[_Union[RecommendationCount, _Mapping]]] = ..., progress: _Optional[_Union[_progress_pb2.ProgressCount, _Mapping]] = ..., exclusions: _Optional[_Iterable[_Union[Exclusion, _Mapping]]] = ..., restarts_refunded: _Optional[int] = ..., cause_budgets: _Optional[_Iterable[_Union[_restarts_pb2.CauseBudget, _Mapping]]] = ..., replaced: _Optional[_Iterable[_Union[ReplacedRank, _Mapping]]] = ...) -> None: ...

class ReplacedRank(_message.Message):
    __slots__ = ("node_id", "rank", "generation", "cycle", "attempt", "iteration", "because", "lost_at", "granted_at", "settled_at", "came", "sentence", "lost_pid", "pid")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_FIELD_NUMBER: _ClassVar[int]
    GRANTED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_FIELD_NUMBER: _ClassVar[int]
    CAME_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    LOST_PID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    rank: int
    generation: int
    cycle: int
    attempt: int
    iteration: int
    because: _ids_pb2.Because
    lost_at: _timestamp_pb2.Timestamp
    granted_at: _timestamp_pb2.Timestamp
    settled_at: _timestamp_pb2.Timestamp
    came: bool
    sentence: str
    lost_pid: int
    pid: int
    def __init__(self, node_id: _Optional[str] = ..., rank: _Optional[int] = ..., generation: _Optional[int] = ..., cycle: _Optional[int] = ..., attempt: _Optional[int] = ..., iteration: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., lost_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., granted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., came: bool = ..., sentence: _Optional[str] = ..., lost_pid: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("begun", "reached", "doing", "productive", "lost", "detection", "teardown", "rendezvous", "start", "restore", "waiting", "lost_steps", "unmeasured")
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    DOING_FIELD_NUMBER: _ClassVar[int]
    PRODUCTIVE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DETECTION_FIELD_NUMBER: _ClassVar[int]
    TEARDOWN_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LOST_STEPS_FIELD_NUMBER: _ClassVar[int]
    UNMEASURED_FIELD_NUMBER: _ClassVar[int]
    begun: _timestamp_pb2.Timestamp
    reached: _timestamp_pb2.Timestamp
    doing: Activity
    productive: _duration_pb2.Duration
    lost: _duration_pb2.Duration
    detection: _duration_pb2.Duration
    teardown: _duration_pb2.Duration
    rendezvous: _duration_pb2.Duration
    start: _duration_pb2.Duration
    restore: _duration_pb2.Duration
    waiting: _duration_pb2.Duration
    lost_steps: int
    unmeasured: _duration_pb2.Duration
    def __init__(self, begun: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reached: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., doing: _Optional[_Union[Activity, str]] = ..., productive: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lost: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., detection: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., teardown: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., rendezvous: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., restore: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lost_steps: _Optional[int] = ..., unmeasured: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RecommendationCount(_message.Message):
    __slots__ = ("kind", "count", "last", "last_at")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    kind: _policy_pb2.RecommendationKind
    count: int
    last: _policy_pb2.Recommendation
    last_at: _timestamp_pb2.Timestamp
    def __init__(self, kind: _Optional[_Union[_policy_pb2.RecommendationKind, str]] = ..., count: _Optional[int] = ..., last: _Optional[_Union[_policy_pb2.Recommendation, _Mapping]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TerminalDecision(_message.Message):
    __slots__ = ("exit_code", "because", "at", "token", "cause")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    because: _ids_pb2.Because
    at: _timestamp_pb2.Timestamp
    token: _ids_pb2.FencingToken
    cause: str
    def __init__(self, exit_code: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., cause: _Optional[str] = ...) -> None: ...

class RecoverySpan(_message.Message):
    __slots__ = ("span", "node_id", "clock_error")
    SPAN_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_FIELD_NUMBER: _ClassVar[int]
    span: _attach_pb2.Span
    node_id: str
    clock_error: _duration_pb2.Duration
    def __init__(self, span: _Optional[_Union[_attach_pb2.Span, _Mapping]] = ..., node_id: _Optional[str] = ..., clock_error: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Recovery(_message.Message):
    __slots__ = ("incident_id", "trace_id", "outcome", "start", "end", "incident", "verdict", "generation_from", "generation_to", "spans", "restored_step", "faults")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FROM_FIELD_NUMBER: _ClassVar[int]
    GENERATION_TO_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_STEP_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    trace_id: str
    outcome: RecoveryOutcome
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    incident: _policy_pb2.Incident
    verdict: _policy_pb2.Verdict
    generation_from: int
    generation_to: int
    spans: _containers.RepeatedCompositeFieldContainer[RecoverySpan]
    restored_step: int
    faults: _containers.RepeatedCompositeFieldContainer[_policy_pb2.Fault]
    def __init__(self, incident_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., outcome: _Optional[_Union[RecoveryOutcome, str]] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., incident: _Optional[_Union[_policy_pb2.Incident, _Mapping]] = ..., verdict: _Optional[_Union[_policy_pb2.Verdict, _Mapping]] = ..., generation_from: _Optional[int] = ..., generation_to: _Optional[int] = ..., spans: _Optional[_Iterable[_Union[RecoverySpan, _Mapping]]] = ..., restored_step: _Optional[int] = ..., faults: _Optional[_Iterable[_Union[_policy_pb2.Fault, _Mapping]]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class WatchJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class ExcludeNodeRequest(_message.Message):
    __slots__ = ("request_id", "job_id", "node_id", "reason", "lasts", "by")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LASTS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: str
    node_id: str
    reason: str
    lasts: _duration_pb2.Duration
    by: str
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., reason: _Optional[str] = ..., lasts: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., by: _Optional[str] = ...) -> None: ...

class ExcludeNodeResponse(_message.Message):
    __slots__ = ("node", "warning")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    node: Node
    warning: str
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., warning: _Optional[str] = ...) -> None: ...

class ReadmitNodeRequest(_message.Message):
    __slots__ = ("request_id", "job_id", "node_id", "by")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: str
    node_id: str
    by: str
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ReadmitNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class RequestShutdownRequest(_message.Message):
    __slots__ = ("request_id", "job_id", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job_id: str
    reason: str
    def __init__(self, request_id: _Optional[str] = ..., job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RequestShutdownResponse(_message.Message):
    __slots__ = ("decision",)
    DECISION_FIELD_NUMBER: _ClassVar[int]
    decision: TerminalDecision
    def __init__(self, decision: _Optional[_Union[TerminalDecision, _Mapping]] = ...) -> None: ...

class GetRecoveryRequest(_message.Message):
    __slots__ = ("job_id", "incident_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    incident_id: str
    def __init__(self, job_id: _Optional[str] = ..., incident_id: _Optional[str] = ...) -> None: ...

class GetRecoveryResponse(_message.Message):
    __slots__ = ("recovery",)
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    recovery: Recovery
    def __init__(self, recovery: _Optional[_Union[Recovery, _Mapping]] = ...) -> None: ...

class ListRecoveriesRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListRecoveriesResponse(_message.Message):
    __slots__ = ("recoveries", "earlier")
    RECOVERIES_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    recoveries: _containers.RepeatedCompositeFieldContainer[Recovery]
    earlier: int
    def __init__(self, recoveries: _Optional[_Iterable[_Union[Recovery, _Mapping]]] = ..., earlier: _Optional[int] = ...) -> None: ...

class GetVerdictRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetVerdictResponse(_message.Message):
    __slots__ = ("decision",)
    DECISION_FIELD_NUMBER: _ClassVar[int]
    decision: TerminalDecision
    def __init__(self, decision: _Optional[_Union[TerminalDecision, _Mapping]] = ...) -> None: ...

class PutRequest(_message.Message):
    __slots__ = ("request_id", "token", "key", "value")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    token: _ids_pb2.FencingToken
    key: str
    value: bytes
    def __init__(self, request_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class PutResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("token", "key")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    token: _ids_pb2.FencingToken
    key: str
    def __init__(self, token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("found", "value")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    found: bool
    value: bytes
    def __init__(self, found: bool = ..., value: _Optional[bytes] = ...) -> None: ...

class WaitRequest(_message.Message):
    __slots__ = ("token", "key")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    token: _ids_pb2.FencingToken
    key: str
    def __init__(self, token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class WaitResponse(_message.Message):
    __slots__ = ("found", "value")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    found: bool
    value: bytes
    def __init__(self, found: bool = ..., value: _Optional[bytes] = ...) -> None: ...

class CompareAndSetRequest(_message.Message):
    __slots__ = ("request_id", "token", "key", "expected", "value")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    token: _ids_pb2.FencingToken
    key: str
    expected: bytes
    value: bytes
    def __init__(self, request_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ..., expected: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class CompareAndSetResponse(_message.Message):
    __slots__ = ("written", "value")
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    written: bool
    value: bytes
    def __init__(self, written: bool = ..., value: _Optional[bytes] = ...) -> None: ...

class AddRequest(_message.Message):
    __slots__ = ("request_id", "token", "key", "delta")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    token: _ids_pb2.FencingToken
    key: str
    delta: int
    def __init__(self, request_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ..., delta: _Optional[int] = ...) -> None: ...

class AddResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("request_id", "token", "key")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    token: _ids_pb2.FencingToken
    key: str
    def __init__(self, request_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("existed",)
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    def __init__(self, existed: bool = ...) -> None: ...

class RecordRecommendationRequest(_message.Message):
    __slots__ = ("request_id", "recommendation")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATION_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    recommendation: _policy_pb2.Recommendation
    def __init__(self, request_id: _Optional[str] = ..., recommendation: _Optional[_Union[_policy_pb2.Recommendation, _Mapping]] = ...) -> None: ...

class RecordRecommendationResponse(_message.Message):
    __slots__ = ("effect", "because")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    effect: _policy_pb2.RecommendationEffect
    because: _ids_pb2.Because
    def __init__(self, effect: _Optional[_Union[_policy_pb2.RecommendationEffect, str]] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...

class ReportControlRequestRequest(_message.Message):
    __slots__ = ("request_id", "token", "node_id", "rank", "action", "reason", "at")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    token: _ids_pb2.FencingToken
    node_id: str
    rank: int
    action: ControlAction
    reason: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, request_id: _Optional[str] = ..., token: _Optional[_Union[_ids_pb2.FencingToken, _Mapping]] = ..., node_id: _Optional[str] = ..., rank: _Optional[int] = ..., action: _Optional[_Union[ControlAction, str]] = ..., reason: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReportControlRequestResponse(_message.Message):
    __slots__ = ("carried_out", "because", "decision")
    CARRIED_OUT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    carried_out: bool
    because: _ids_pb2.Because
    decision: TerminalDecision
    def __init__(self, carried_out: bool = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., decision: _Optional[_Union[TerminalDecision, _Mapping]] = ...) -> None: ...
