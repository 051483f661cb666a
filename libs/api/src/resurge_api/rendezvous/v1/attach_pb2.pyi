import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from resurge_api.common.v1 import ids_pb2 as _ids_pb2
from resurge_api.common.v1 import progress_pb2 as _progress_pb2
from resurge_api.rendezvous.v1 import abort_pb2 as _abort_pb2
from resurge_api.rendezvous.v1 import drain_pb2 as _drain_pb2
from resurge_api.rendezvous.v1 import muster_pb2 as _muster_pb2
from resurge_api.common.v1 import restarts_pb2 as _restarts_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttributionStopAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTRIBUTION_STOP_ACTION_UNSPECIFIED: _ClassVar[AttributionStopAction]
    ATTRIBUTION_STOP_ACTION_LOG: _ClassVar[AttributionStopAction]
    ATTRIBUTION_STOP_ACTION_NO_RESTART: _ClassVar[AttributionStopAction]

class NodePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_PHASE_UNSPECIFIED: _ClassVar[NodePhase]
    NODE_PHASE_READY: _ClassVar[NodePhase]
    NODE_PHASE_STARTING: _ClassVar[NodePhase]
    NODE_PHASE_RUNNING: _ClassVar[NodePhase]
    NODE_PHASE_TEARING_DOWN: _ClassVar[NodePhase]
    NODE_PHASE_FINISHED: _ClassVar[NodePhase]
    NODE_PHASE_STUCK: _ClassVar[NodePhase]
    NODE_PHASE_LEAVING: _ClassVar[NodePhase]

class MilestoneKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MILESTONE_KIND_UNSPECIFIED: _ClassVar[MilestoneKind]
    MILESTONE_KIND_PROCESS_GROUP_READY: _ClassVar[MilestoneKind]
    MILESTONE_KIND_CHECKPOINT_RESTORED: _ClassVar[MilestoneKind]
    MILESTONE_KIND_FIRST_STEP: _ClassVar[MilestoneKind]
    MILESTONE_KIND_WORKER_STARTED: _ClassVar[MilestoneKind]
ATTRIBUTION_STOP_ACTION_UNSPECIFIED: AttributionStopAction
ATTRIBUTION_STOP_ACTION_LOG: AttributionStopAction
ATTRIBUTION_STOP_ACTION_NO_RESTART: AttributionStopAction
NODE_PHASE_UNSPECIFIED: NodePhase
NODE_PHASE_READY: NodePhase
NODE_PHASE_STARTING: NodePhase
NODE_PHASE_RUNNING: NodePhase
NODE_PHASE_TEARING_DOWN: NodePhase
NODE_PHASE_FINISHED: NodePhase
NODE_PHASE_STUCK: NodePhase
NODE_PHASE_LEAVING: NodePhase
MILESTONE_KIND_UNSPECIFIED: MilestoneKind
MILESTONE_KIND_PROCESS_GROUP_READY: MilestoneKind
MILESTONE_KIND_CHECKPOINT_RESTORED: MilestoneKind
MILESTONE_KIND_FIRST_STEP: MilestoneKind
MILESTONE_KIND_WORKER_STARTED: MilestoneKind

class JobSpec(_message.Message):
    __slots__ = ("job_id", "attempt", "min_nodes", "max_nodes", "max_restarts", "segment", "command_digest", "strict_fence", "lease_ttl", "fault_grace", "no_restart_exit_code", "attribution_stop_action", "progress", "max_excluded_share", "exclusion_window", "preempted_exit_code", "restarts")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STRICT_FENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    FAULT_GRACE_FIELD_NUMBER: _ClassVar[int]
    NO_RESTART_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_STOP_ACTION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MAX_EXCLUDED_SHARE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSION_WINDOW_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt: int
    min_nodes: int
    max_nodes: int
    max_restarts: int
    segment: int
    command_digest: str
    strict_fence: bool
    lease_ttl: _duration_pb2.Duration
    fault_grace: _duration_pb2.Duration
    no_restart_exit_code: int
    attribution_stop_action: AttributionStopAction
    progress: _progress_pb2.ProgressRules
    max_excluded_share: float
    exclusion_window: _duration_pb2.Duration
    preempted_exit_code: int
    restarts: _restarts_pb2.RestartRules
    def __init__(self, job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., max_restarts: _Optional[int] = ..., segment: _Optional[int] = ..., command_digest: _Optional[str] = ..., strict_fence: bool = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., fault_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., no_restart_exit_code: _Optional[int] = ..., attribution_stop_action: _Optional[_Union[AttributionStopAction, str]] = ..., progress: _Optional[_Union[_progress_pb2.ProgressRules, _Mapping]] = ..., max_excluded_share: _Optional[float] = ..., exclusion_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., preempted_exit_code: _Optional[int] = ..., restarts: _Optional[_Union[_restarts_pb2.RestartRules, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "job", "node_id", "incarnation", "boot_id", "host", "pid", "highest_generation", "highest_attempt", "infra_rank", "domain", "local_world_size", "take_over", "address", "log_root", "machine_id", "is_machine_id_given", "log_prefix", "in_place_version")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_GENERATION_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INFRA_RANK_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_ROOT_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_MACHINE_ID_GIVEN_FIELD_NUMBER: _ClassVar[int]
    LOG_PREFIX_FIELD_NUMBER: _ClassVar[int]
    IN_PLACE_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    job: JobSpec
    node_id: str
    incarnation: int
    boot_id: str
    host: str
    pid: int
    highest_generation: int
    highest_attempt: int
    infra_rank: int
    domain: str
    local_world_size: int
    take_over: bool
    address: str
    log_root: str
    machine_id: str
    is_machine_id_given: bool
    log_prefix: str
    in_place_version: int
    def __init__(self, protocol_version: _Optional[int] = ..., job: _Optional[_Union[JobSpec, _Mapping]] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., boot_id: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., highest_generation: _Optional[int] = ..., highest_attempt: _Optional[int] = ..., infra_rank: _Optional[int] = ..., domain: _Optional[str] = ..., local_world_size: _Optional[int] = ..., take_over: bool = ..., address: _Optional[str] = ..., log_root: _Optional[str] = ..., machine_id: _Optional[str] = ..., is_machine_id_given: bool = ..., log_prefix: _Optional[str] = ..., in_place_version: _Optional[int] = ...) -> None: ...

class ExitRecord(_message.Message):
    __slots__ = ("rank", "local_rank", "pid", "exit_code", "signal", "at", "last_step", "error", "ended_by_launcher")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ENDED_BY_LAUNCHER_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    pid: int
    exit_code: int
    signal: int
    at: _timestamp_pb2.Timestamp
    last_step: int
    error: str
    ended_by_launcher: bool
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., pid: _Optional[int] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_step: _Optional[int] = ..., error: _Optional[str] = ..., ended_by_launcher: bool = ...) -> None: ...

class WorkerProcess(_message.Message):
    __slots__ = ("rank", "local_rank", "pid")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    pid: int
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class ObservedFault(_message.Message):
    __slots__ = ("rank", "because", "at")
    RANK_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    because: _ids_pb2.Because
    at: _timestamp_pb2.Timestamp
    def __init__(self, rank: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Milestone(_message.Message):
    __slots__ = ("rank", "kind", "at", "step")
    RANK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    rank: int
    kind: MilestoneKind
    at: _timestamp_pb2.Timestamp
    step: int
    def __init__(self, rank: _Optional[int] = ..., kind: _Optional[_Union[MilestoneKind, str]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("name", "start", "end", "rank", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    rank: int
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rank: _Optional[int] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("sequence", "sent", "clock_offset", "clock_error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    sent: _timestamp_pb2.Timestamp
    clock_offset: _duration_pb2.Duration
    clock_error: _duration_pb2.Duration
    def __init__(self, sequence: _Optional[int] = ..., sent: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., clock_offset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., clock_error: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class MarkerReading(_message.Message):
    __slots__ = ("value", "skipped")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    value: int
    skipped: str
    def __init__(self, value: _Optional[int] = ..., skipped: _Optional[str] = ...) -> None: ...

class CycleProgress(_message.Message):
    __slots__ = ("at_start", "at_end", "is_over", "sdk_step")
    AT_START_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    SDK_STEP_FIELD_NUMBER: _ClassVar[int]
    at_start: MarkerReading
    at_end: MarkerReading
    is_over: bool
    sdk_step: int
    def __init__(self, at_start: _Optional[_Union[MarkerReading, _Mapping]] = ..., at_end: _Optional[_Union[MarkerReading, _Mapping]] = ..., is_over: bool = ..., sdk_step: _Optional[int] = ...) -> None: ...

class Observed(_message.Message):
    __slots__ = ("hello", "revision_seen", "phase", "generation", "exits", "faults", "milestones", "spans", "incident_id", "store_offer", "beat", "exit_acknowledged", "leaving_signal", "workers", "progress", "draining", "aborts", "muster", "replacements")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REVISION_SEEN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EXITS_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    MILESTONES_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_OFFER_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    EXIT_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ABORTS_FIELD_NUMBER: _ClassVar[int]
    MUSTER_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    revision_seen: int
    phase: NodePhase
    generation: int
    exits: _containers.RepeatedCompositeFieldContainer[ExitRecord]
    faults: _containers.RepeatedCompositeFieldContainer[ObservedFault]
    milestones: _containers.RepeatedCompositeFieldContainer[Milestone]
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    incident_id: str
    store_offer: StoreOffer
    beat: Beat
    exit_acknowledged: bool
    leaving_signal: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerProcess]
    progress: CycleProgress
    draining: _drain_pb2.Draining
    aborts: _containers.RepeatedCompositeFieldContainer[_abort_pb2.AbortNotice]
    muster: _muster_pb2.MusterReport
    replacements: _containers.RepeatedCompositeFieldContainer[_muster_pb2.Replacement]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., revision_seen: _Optional[int] = ..., phase: _Optional[_Union[NodePhase, str]] = ..., generation: _Optional[int] = ..., exits: _Optional[_Iterable[_Union[ExitRecord, _Mapping]]] = ..., faults: _Optional[_Iterable[_Union[ObservedFault, _Mapping]]] = ..., milestones: _Optional[_Iterable[_Union[Milestone, _Mapping]]] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., incident_id: _Optional[str] = ..., store_offer: _Optional[_Union[StoreOffer, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., exit_acknowledged: bool = ..., leaving_signal: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerProcess, _Mapping]]] = ..., progress: _Optional[_Union[CycleProgress, _Mapping]] = ..., draining: _Optional[_Union[_drain_pb2.Draining, _Mapping]] = ..., aborts: _Optional[_Iterable[_Union[_abort_pb2.AbortNotice, _Mapping]]] = ..., muster: _Optional[_Union[_muster_pb2.MusterReport, _Mapping]] = ..., replacements: _Optional[_Iterable[_Union[_muster_pb2.Replacement, _Mapping]]] = ...) -> None: ...

class StoreOffer(_message.Message):
    __slots__ = ("address", "port", "is_served")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    IS_SERVED_FIELD_NUMBER: _ClassVar[int]
    address: str
    port: int
    is_served: bool
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., is_served: bool = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("generation", "attempt", "cycle", "group_rank", "group_world_size", "base_rank", "world_size", "master_addr", "master_port", "max_restarts", "restarts_spent", "incident_id", "traceparent", "delay", "store_is_served", "stop", "aborts", "muster", "replacing", "in_place_refusal")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_RANK_FIELD_NUMBER: _ClassVar[int]
    GROUP_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    BASE_RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDR_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_SPENT_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    STORE_IS_SERVED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ABORTS_FIELD_NUMBER: _ClassVar[int]
    MUSTER_FIELD_NUMBER: _ClassVar[int]
    REPLACING_FIELD_NUMBER: _ClassVar[int]
    IN_PLACE_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    generation: int
    attempt: int
    cycle: int
    group_rank: int
    group_world_size: int
    base_rank: int
    world_size: int
    master_addr: str
    master_port: int
    max_restarts: int
    restarts_spent: int
    incident_id: str
    traceparent: str
    delay: _duration_pb2.Duration
    store_is_served: bool
    stop: _drain_pb2.Stop
    aborts: _containers.RepeatedCompositeFieldContainer[_abort_pb2.AbortNotice]
    muster: _muster_pb2.MusterOrder
    replacing: _muster_pb2.Replacing
    in_place_refusal: str
    def __init__(self, generation: _Optional[int] = ..., attempt: _Optional[int] = ..., cycle: _Optional[int] = ..., group_rank: _Optional[int] = ..., group_world_size: _Optional[int] = ..., base_rank: _Optional[int] = ..., world_size: _Optional[int] = ..., master_addr: _Optional[str] = ..., master_port: _Optional[int] = ..., max_restarts: _Optional[int] = ..., restarts_spent: _Optional[int] = ..., incident_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., store_is_served: bool = ..., stop: _Optional[_Union[_drain_pb2.Stop, _Mapping]] = ..., aborts: _Optional[_Iterable[_Union[_abort_pb2.AbortNotice, _Mapping]]] = ..., muster: _Optional[_Union[_muster_pb2.MusterOrder, _Mapping]] = ..., replacing: _Optional[_Union[_muster_pb2.Replacing, _Mapping]] = ..., in_place_refusal: _Optional[str] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("generation", "incident_id", "traceparent", "because", "reads_marker")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    READS_MARKER_FIELD_NUMBER: _ClassVar[int]
    generation: int
    incident_id: str
    traceparent: str
    because: _ids_pb2.Because
    reads_marker: bool
    def __init__(self, generation: _Optional[int] = ..., incident_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., reads_marker: bool = ...) -> None: ...

class Park(_message.Message):
    __slots__ = ("because",)
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    because: _ids_pb2.Because
    def __init__(self, because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("code", "because", "all_acknowledged", "attempt", "generation", "cause")
    CODE_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    ALL_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    code: int
    because: _ids_pb2.Because
    all_acknowledged: bool
    attempt: int
    generation: int
    cause: str
    def __init__(self, code: _Optional[int] = ..., because: _Optional[_Union[_ids_pb2.Because, _Mapping]] = ..., all_acknowledged: bool = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ..., cause: _Optional[str] = ...) -> None: ...

class BeatReply(_message.Message):
    __slots__ = ("sequence", "launcher_sent", "received", "sent", "lease_ttl")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAUNCHER_SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    launcher_sent: _timestamp_pb2.Timestamp
    received: _timestamp_pb2.Timestamp
    sent: _timestamp_pb2.Timestamp
    lease_ttl: _duration_pb2.Duration
    def __init__(self, sequence: _Optional[int] = ..., launcher_sent: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., received: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sent: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("revision", "run", "down", "park", "exit", "beat_reply", "current_generation")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    DOWN_FIELD_NUMBER: _ClassVar[int]
    PARK_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    BEAT_REPLY_FIELD_NUMBER: _ClassVar[int]
    CURRENT_GENERATION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    run: Run
    down: Down
    park: Park
    exit: Exit
    beat_reply: BeatReply
    current_generation: int
    def __init__(self, revision: _Optional[int] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., down: _Optional[_Union[Down, _Mapping]] = ..., park: _Optional[_Union[Park, _Mapping]] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., beat_reply: _Optional[_Union[BeatReply, _Mapping]] = ..., current_generation: _Optional[int] = ...) -> None: ...
