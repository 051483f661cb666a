"""Proto to core values: all validation of what comes from outside. Decides nothing; has no effects.

A name, a number or a list that does not fit is refused with BadRequest that says what would be right; free text that
is too long is cut instead, because a long error message must not cost a node its stream. `wire_out` is the way back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.core.ids import Attempt, FencingToken, Generation, Incarnation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.recommendation import StopAction
from resurge_libs.core.refusals import BadRequest, VersionMismatch
from resurge_libs.core.time_limits import TimeLimits, WrongOrder
from resurge_libs.rpc.errors import because_from_proto, token_from_proto
from resurge_libs.rpc.progress import rules_from_proto
from resurge_libs.rpc.restarts import restart_rules_from_proto
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations
from resurge_rendezvous.core.model import (
    PROTOCOL_VERSION,
    ExitRecord,
    Hello,
    JobSpec,
    Milestone,
    MilestoneKind,
    NodePhase,
    Observed,
    ObservedFault,
    ObservedSpan,
    StoreOffer,
    WorkerProcess,
)
from resurge_rendezvous.wire_aborts import aborts_of
from resurge_rendezvous.wire_drain import NO_DRAINING, draining_of
from resurge_rendezvous.wire_musters import muster_of
from resurge_rendezvous.wire_progress import progress_of
from resurge_rendezvous.wire_replacements import replacements_of

MAX_NAME_BYTES = 256
MAX_PATH_BYTES = 4_096
MAX_ERROR_CHARACTERS = 4_096
MAX_NODES = 100_000
MAX_RESTARTS = 1_000_000
MAX_LOCAL_WORLD_SIZE = 1_024
MAX_ITEMS = 8_192
"""Exit records, faults, milestones or spans in one message."""
MAX_ATTRIBUTES = 32
MAX_NUMBER = 2**53
"""Generations, attempts, incarnations and revisions stay exact in every JSON reader."""
MAX_REMEMBERED_BYTES = 4_096
"""A specification that is longer is looked at each time."""
MAX_RANK = 10_000_000
MAX_EXIT_CODE = 255
MAX_LEASE_TTL_S = 3_600.0
MAX_WALL_S = 253_402_300_799
"""The last second of the year 9999, as Timestamp allows."""

LISTS = ("exits", "faults", "milestones", "spans", "workers")
M = TypeVar("M")
V = TypeVar("V")

PHASES = {
    attach_pb2.NODE_PHASE_READY: NodePhase.READY,
    attach_pb2.NODE_PHASE_STARTING: NodePhase.STARTING,
    attach_pb2.NODE_PHASE_RUNNING: NodePhase.RUNNING,
    attach_pb2.NODE_PHASE_TEARING_DOWN: NodePhase.TEARING_DOWN,
    attach_pb2.NODE_PHASE_FINISHED: NodePhase.FINISHED,
    attach_pb2.NODE_PHASE_STUCK: NodePhase.STUCK,
    attach_pb2.NODE_PHASE_LEAVING: NodePhase.LEAVING,
}
MILESTONES = {
    attach_pb2.MILESTONE_KIND_PROCESS_GROUP_READY: MilestoneKind.PROCESS_GROUP_READY,
    attach_pb2.MILESTONE_KIND_CHECKPOINT_RESTORED: MilestoneKind.CHECKPOINT_RESTORED,
    attach_pb2.MILESTONE_KIND_FIRST_STEP: MilestoneKind.FIRST_STEP,
    attach_pb2.MILESTONE_KIND_WORKER_STARTED: MilestoneKind.WORKER_STARTED,
}
STOP_ACTIONS = {
    attach_pb2.ATTRIBUTION_STOP_ACTION_LOG: StopAction.LOG,
    attach_pb2.ATTRIBUTION_STOP_ACTION_NO_RESTART: StopAction.NO_RESTART,
}


# --- the stream of a launcher -----------------------------------------------------------------------------------------


def hello_of(observed: attach_pb2.Observed, limits: TimeLimits) -> Hello:
    """The introduction in a stream's first message. Raises BadRequest or VersionMismatch."""
    if not observed.HasField("hello"):
        raise BadRequest.of("observed.hello", "is missing; the first message of a stream introduces the launcher")
    hello, wrong, at = observed.hello, Violations(), "observed.hello"
    if hello.protocol_version != PROTOCOL_VERSION:  # before all else: another version's fields mean other things
        raise VersionMismatch(hello.protocol_version, PROTOCOL_VERSION)
    wrong.name(f"{at}.node_id", hello.node_id, MAX_NAME_BYTES)
    for name in ("boot_id", "host", "domain", "address", "machine_id", "log_root", "log_prefix"):
        wrong.text(f"{at}.{name}", getattr(hello, name), MAX_PATH_BYTES if "log_" in name else MAX_NAME_BYTES)
    if hello.is_machine_id_given and not hello.machine_id:
        wrong.add(f"{at}.machine_id", "is empty, though it was given by hand; leave RESURGE_MACHINE_ID out instead")
    wrong.between(f"{at}.incarnation", hello.incarnation, 1, MAX_NUMBER)
    wrong.between(f"{at}.highest_generation", hello.highest_generation, 0, MAX_NUMBER)
    wrong.between(f"{at}.highest_attempt", hello.highest_attempt, 0, MAX_NUMBER)
    wrong.between(f"{at}.local_world_size", hello.local_world_size, 1, MAX_LOCAL_WORLD_SIZE)
    spec = _checked_spec(hello.job, limits, wrong)
    wrong.check()
    assert spec is not None, "a specification that does not fit was refused"
    return Hello(
        spec=spec,
        node=NodeId(hello.node_id),
        incarnation=Incarnation(hello.incarnation),
        protocol_version=hello.protocol_version,
        boot_id=hello.boot_id,
        host=hello.host,
        pid=hello.pid,
        highest_generation=Generation(hello.highest_generation),
        highest_attempt=Attempt(hello.highest_attempt),
        infra_rank=_optional(hello, "infra_rank"),
        domain=hello.domain,
        local_world_size=hello.local_world_size,
        take_over=hello.take_over,
        address=hello.address,
        log_root=hello.log_root,
        log_prefix=hello.log_prefix,
        in_place_version=hello.in_place_version,
        machine_id=hello.machine_id,
        is_id_given=hello.is_machine_id_given,
    )


def _checked_spec(job: attach_pb2.JobSpec, limits: TimeLimits, wrong: Violations) -> JobSpec | None:
    """The specification, or None where something of it was added to `wrong`."""
    brought = job.SerializeToString(deterministic=True)
    look = _spec_of if len(brought) <= MAX_REMEMBERED_BYTES else _spec_of.__wrapped__
    try:
        return look(brought, limits)
    except BadRequest as problem:
        for violation in problem.violations:
            wrong.add(violation.field, violation.right)
        return None


@lru_cache(maxsize=16)
def _spec_of(brought: bytes, limits: TimeLimits) -> JobSpec:
    """The specification that a launcher brings. All of one job bring the same, so it is looked at once."""
    job, wrong, at = attach_pb2.JobSpec.FromString(brought), Violations(), "observed.hello.job"
    wrong.name(f"{at}.job_id", job.job_id, MAX_NAME_BYTES)
    wrong.text(f"{at}.command_digest", job.command_digest, MAX_NAME_BYTES)
    wrong.between(f"{at}.attempt", job.attempt, 0, MAX_NUMBER)
    wrong.between(f"{at}.min_nodes", job.min_nodes, 1, MAX_NODES)
    wrong.between(f"{at}.max_restarts", job.max_restarts, 0, MAX_RESTARTS)
    for code in ("no_restart_exit_code", "preempted_exit_code"):
        wrong.between(f"{at}.{code}", getattr(job, code), 0, MAX_EXIT_CODE)
    if not job.min_nodes <= job.max_nodes <= MAX_NODES:
        wrong.add(f"{at}.max_nodes", f"is {job.max_nodes}; must be within min_nodes ({job.min_nodes}) and {MAX_NODES}")
    if job.segment > 1 and (job.min_nodes % job.segment or job.segment > job.min_nodes):
        wrong.add(f"{at}.segment", f"is {job.segment}; min_nodes ({job.min_nodes}) must be a multiple of it")
    lease_ttl_s = _seconds(job.lease_ttl, wrong, f"{at}.lease_ttl")
    fault_grace_s = _seconds(job.fault_grace, wrong, f"{at}.fault_grace")
    _check_limits(lease_ttl_s, fault_grace_s, limits, wrong, at)
    defaults = JobSpec(JobId(job.job_id))
    max_excluded_share = _share(job, wrong, f"{at}.max_excluded_share", defaults.max_excluded_share)
    exclusion_window_s = defaults.exclusion_window_s
    if job.HasField("exclusion_window"):
        exclusion_window_s = _seconds(job.exclusion_window, wrong, f"{at}.exclusion_window")
    wrong.check()
    return JobSpec(
        job_id=JobId(job.job_id),
        attempt=Attempt(job.attempt),
        min_nodes=job.min_nodes,
        max_nodes=job.max_nodes,
        max_restarts=job.max_restarts,
        segment=job.segment,
        command_digest=job.command_digest,
        strict_fence=job.strict_fence,
        lease_ttl_s=lease_ttl_s,
        fault_grace_s=fault_grace_s,
        no_restart_exit_code=job.no_restart_exit_code or defaults.no_restart_exit_code,
        attribution_stop_action=STOP_ACTIONS.get(job.attribution_stop_action, defaults.attribution_stop_action),
        progress=rules_from_proto(job, "progress", wrong, at),
        max_excluded_share=max_excluded_share,
        exclusion_window_s=exclusion_window_s,
        preempted_exit_code=job.preempted_exit_code,
        restarts=restart_rules_from_proto(job, "restarts", wrong, at),
    )


def _share(job: attach_pb2.JobSpec, wrong: Violations, at: str, default: float) -> float:
    if not job.HasField("max_excluded_share"):
        return default
    if not 0.0 <= job.max_excluded_share <= 1.0:  # also refuses NaN
        wrong.add(at, f"is {job.max_excluded_share}; must be within 0 (no automatic exclusion) and 1")
    return job.max_excluded_share


def _check_limits(lease_ttl_s: float, fault_grace_s: float, limits: TimeLimits, wrong: Violations, at: str) -> None:
    """The job's own limits must keep the order of the table together with this service's."""
    brought = {
        name: value for name, value in (("lease_ttl_s", lease_ttl_s), ("fault_grace_s", fault_grace_s)) if value > 0
    }
    try:
        limits.changed(**brought)
    except WrongOrder as error:
        wrong.add(f"{at}.lease_ttl", str(error))


def observed_of(observed: attach_pb2.Observed) -> Observed:
    """The observed state in any message of a stream. Raises BadRequest."""
    wrong, at = Violations(), "observed"
    phase = PHASES.get(observed.phase)
    if phase is None:
        wrong.add(f"{at}.phase", f"is {observed.phase}; must be one of NodePhase, and not UNSPECIFIED")
    wrong.between(f"{at}.generation", observed.generation, 0, MAX_NUMBER)
    wrong.between(f"{at}.revision_seen", observed.revision_seen, 0, MAX_NUMBER)
    wrong.text(f"{at}.incident_id", observed.incident_id, MAX_NAME_BYTES)
    said = {field.name for field, _ in observed.ListFields()}  # most say little: what is absent is not looked for
    for name in said.intersection(LISTS):
        wrong.count(f"{at}.{name}", len(getattr(observed, name)), MAX_ITEMS)
    wrong.check()  # lists of a bounded length only are looked into
    value = Observed(
        phase=phase or NodePhase.UNKNOWN,
        generation=Generation(observed.generation),
        revision_seen=observed.revision_seen,
        exits=_all_of(observed.exits, _exit_of, wrong, f"{at}.exits") if "exits" in said else (),
        faults=_all_of(observed.faults, _fault_of, wrong, f"{at}.faults") if "faults" in said else (),
        milestones=_all_of(observed.milestones, _milestone_of, wrong, f"{at}.milestones")
        if "milestones" in said
        else (),
        spans=_all_of(observed.spans, _span_of, wrong, f"{at}.spans") if "spans" in said else (),
        incident=IncidentId(observed.incident_id) if "incident_id" in said else None,
        store_offer=_offer_of(observed, wrong, f"{at}.store_offer") if "store_offer" in said else None,
        exit_acknowledged=observed.exit_acknowledged,
        leaving_signal=observed.leaving_signal if "leaving_signal" in said else None,
        workers=_all_of(observed.workers, _worker_of, wrong, f"{at}.workers") if "workers" in said else (),
        progress=progress_of(observed.progress, wrong, f"{at}.progress") if "progress" in said else None,
        draining=draining_of(observed.draining, wrong, f"{at}.draining") if "draining" in said else NO_DRAINING,
        aborts=aborts_of(observed.aborts, wrong, f"{at}.aborts") if "aborts" in said else (),
        muster=muster_of(observed, wrong, f"{at}.muster") if "muster" in said else None,
        replacements=replacements_of(observed, wrong, at) if "replacements" in said else (),
    )
    wrong.check()
    return value


def _all_of(items: Iterable[M], of: Callable[[M, Violations, str], V], wrong: Violations, at: str) -> tuple[V, ...]:
    return tuple([of(item, wrong, f"{at}[{index}]") for index, item in enumerate(items)])


def _worker_of(worker: attach_pb2.WorkerProcess, wrong: Violations, at: str) -> WorkerProcess:
    wrong.between(f"{at}.rank", worker.rank, 0, MAX_RANK)
    return WorkerProcess(Rank(worker.rank), worker.local_rank, worker.pid)


def _exit_of(record: attach_pb2.ExitRecord, wrong: Violations, at: str) -> ExitRecord:
    wrong.between(f"{at}.rank", record.rank, 0, MAX_RANK)
    exit_code, signal = _optional(record, "exit_code"), _optional(record, "signal")
    if exit_code is None and signal is None:
        wrong.add(at, "has neither exit_code nor signal; one of them says how the worker ended")
    return ExitRecord(
        rank=Rank(record.rank),
        local_rank=record.local_rank,
        pid=record.pid,
        at=_wall(record, "at", wrong, at),
        exit_code=exit_code,
        signal=signal,
        last_step=_optional(record, "last_step"),
        error=record.error[:MAX_ERROR_CHARACTERS],
        ended_by_launcher=record.ended_by_launcher,
    )


def _fault_of(fault: attach_pb2.ObservedFault, wrong: Violations, at: str) -> ObservedFault:
    rank = _optional(fault, "rank")
    wrong.between(f"{at}.rank", rank or 0, 0, MAX_RANK)
    return ObservedFault(
        because=because_of(fault.because, wrong, f"{at}.because"),
        at=_wall(fault, "at", wrong, at),
        rank=None if rank is None else Rank(rank),
    )


def _milestone_of(milestone: attach_pb2.Milestone, wrong: Violations, at: str) -> Milestone:
    kind = MILESTONES.get(milestone.kind)
    if kind is None:
        wrong.add(f"{at}.kind", f"is {milestone.kind}; must be one of MilestoneKind, and not UNSPECIFIED")
    wrong.between(f"{at}.rank", milestone.rank, 0, MAX_RANK)
    return Milestone(
        rank=Rank(milestone.rank),
        kind=kind or MilestoneKind.WORKER_STARTED,
        at=_wall(milestone, "at", wrong, at),
        step=_optional(milestone, "step"),
    )


def _span_of(span: attach_pb2.Span, wrong: Violations, at: str) -> ObservedSpan:
    wrong.name(f"{at}.name", span.name, MAX_NAME_BYTES)
    wrong.count(f"{at}.attributes", len(span.attributes), MAX_ATTRIBUTES)
    rank = _optional(span, "rank")
    start, end = _wall(span, "start", wrong, at), _wall(span, "end", wrong, at)
    if end < start:
        wrong.add(f"{at}.end", "is before start")
    attributes = tuple(
        sorted((key[:MAX_NAME_BYTES], text[:MAX_SENTENCE_CHARACTERS]) for key, text in span.attributes.items())
    )
    return ObservedSpan(span.name, start, end, None if rank is None else Rank(rank), attributes)


def _offer_of(observed: attach_pb2.Observed, wrong: Violations, at: str) -> StoreOffer:
    offer = observed.store_offer
    wrong.name(f"{at}.address", offer.address, MAX_NAME_BYTES)
    wrong.between(f"{at}.port", offer.port, 1, 65_535)
    return StoreOffer(offer.address, offer.port, offer.is_served)


def beat_times_of(beat: attach_pb2.Beat) -> tuple[float, float | None, float | None]:
    """When a beat was sent, and the launcher's clock offset and error if it has measured them. Raises BadRequest."""
    wrong, at = Violations(), "observed.beat"
    sent = _wall(beat, "sent", wrong, at)
    wrong.between(f"{at}.sequence", beat.sequence, 1, MAX_NUMBER)
    offset_s = error_s = None
    if beat.HasField("clock_offset") and beat.HasField("clock_error"):
        offset_s, error_s = _signed_seconds(beat.clock_offset), _seconds(beat.clock_error, wrong, f"{at}.clock_error")
    wrong.check()
    return sent, offset_s, error_s


# --- unary calls ------------------------------------------------------------------------------------------------------


def token_of(request: Any, wrong: Violations) -> FencingToken:
    """The fencing token of a store call; what does not fit is added to `wrong`."""
    token: ids_pb2.FencingToken = request.token
    wrong.name("token.job_id", token.job_id, MAX_NAME_BYTES)
    wrong.between("token.attempt", token.attempt, 0, MAX_NUMBER)
    wrong.between("token.generation", token.generation, 0, MAX_NUMBER)
    return token_from_proto(token)


def lasts_of(lasts: Duration, wrong: Violations, at: str) -> float:
    """A duration of more than no time, in seconds."""
    seconds = _seconds(lasts, wrong, at)
    if seconds <= 0:
        wrong.add(at, "must be longer than nothing; leave it out for no end")
    return seconds


def because_of(because: ids_pb2.Because, wrong: Violations, at: str) -> Because:
    """A reason that a launcher gave; one that a newer release knows is kept in words."""
    wrong.text(f"{at}.code", because.code, MAX_NAME_BYTES)
    known = because_from_proto(because, Reason.OBSERVED)
    return Because(known.code, known.sentence[:MAX_SENTENCE_CHARACTERS])


# --- leaves -----------------------------------------------------------------------------------------------------------


def _optional(message: Any, field: str) -> int | None:
    return getattr(message, field) if message.HasField(field) else None


def wall_of(message: Any, field: str, wrong: Violations) -> Wall:
    """A time of people in a request's own field."""
    return _wall(message, field, wrong, "request")


def _wall(message: Any, field: str, wrong: Violations, at: str) -> Wall:
    stamp: Timestamp = getattr(message, field)
    if not message.HasField(field):
        wrong.add(f"{at}.{field}", "is missing; give the time")
    if not (0 <= stamp.seconds <= MAX_WALL_S and 0 <= stamp.nanos < 1_000_000_000):
        wrong.add(f"{at}.{field}", f"is {stamp.seconds} s and {stamp.nanos} ns; must be a time after 1970")
    return Wall(stamp.seconds + stamp.nanos / 1e9)


def _seconds(duration: Duration, wrong: Violations, at: str) -> float:
    seconds = _signed_seconds(duration)
    if not (math.isfinite(seconds) and 0 <= seconds <= MAX_LEASE_TTL_S * 24):
        wrong.add(at, f"is {seconds:g} s; must be within 0 and {MAX_LEASE_TTL_S * 24:g}")
    return seconds


def _signed_seconds(duration: Duration) -> float:
    return float(duration.seconds) + duration.nanos / 1e9
