"""Waiting for the memory of the GPUs after a teardown: when it is free, when the wait is given up, what is recorded.

A process that was reaped may still be taken apart by its driver; whoever starts then runs out of memory. The wait goes
on beside everything else and holds back the spawn alone. It ends when every GPU of the job's is within the tolerance,
when its time is over, or when the driver cannot say: then the start goes on all the same, and it is said. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.values import replace

FAST_POLL_S = 0.2
FAST_FOR_S = 2.0
"""Most of it is free within two seconds."""
POLL_S = 2.0
UNKNOWN_LOOKS = 3
"""So many looks in a row at which no GPU within reach is left to wait for."""


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """The settings of the wait."""

    timeout_s: float = 50.0
    tolerance_mb: int = 512
    poll_interval_s: float | None = None
    """None: fast in the first two seconds, then slower."""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that has memory of a GPU."""

    pid: int
    used_mb: int | None = None
    name: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one look; `used_mb` None: it could not be read."""

    uuid: str
    index: int
    used_mb: int | None
    total_mb: int = 0
    reserved_mb: int = 0
    problem: str = ""
    holders: tuple[GpuHolder, ...] = ()


class ReclaimStatus(StrEnum):
    """How the wait for one GPU, or for all, stands or ended."""

    PENDING = "pending"
    RECLAIMED = "reclaimed"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuStory:
    """What was seen of one GPU during the wait."""

    now: GpuReading
    first_mb: int | None
    peak_mb: int | None
    looks: int
    status: ReclaimStatus
    elapsed_s: float
    """To the look at which its status was last told anew."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The wait after the teardown of a generation."""

    generation: Generation
    began_at: Instant
    until: Instant
    look_at: Instant | None = None
    """When to look next; None while an answer is awaited, and at the end."""
    gpus: tuple[GpuStory, ...] = ()
    blind_looks: int = 0
    status: ReclaimStatus = ReclaimStatus.PENDING
    problem: str = ""
    ended_at: Instant | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a start has to wait."""
        return self.status is ReclaimStatus.PENDING

    @property
    def worst_s(self) -> float:
        """How long the slowest GPU took."""
        return max((gpu.elapsed_s for gpu in self.gpus), default=0.0)


def begun(generation: Generation, rules: ReclaimRules, now: Instant) -> Reclaim:
    """The wait begins with a look at once."""
    return Reclaim(generation, now, after(now, rules.timeout_s))


def due_at(reclaim: Reclaim | None) -> Instant | None:
    """When something is to be done about it: a look, or its end."""
    if reclaim is None or not reclaim.is_pending:
        return None
    return earliest(reclaim.look_at, reclaim.until)


def looking(reclaim: Reclaim) -> Reclaim:
    """A look was ordered."""
    return replace(reclaim, look_at=None)


def timed_out(reclaim: Reclaim, now: Instant) -> Reclaim:
    """Its time is over."""
    gpus = tuple(
        replace(gpu, status=ReclaimStatus.TIMEOUT) if gpu.status is ReclaimStatus.PENDING else gpu
        for gpu in reclaim.gpus
    )
    problem = reclaim.problem if reclaim.gpus else reclaim.problem or "the driver gave no answer"
    return replace(reclaim, gpus=gpus, status=ReclaimStatus.TIMEOUT, problem=problem, look_at=None, ended_at=now)


def looked(
    reclaim: Reclaim, readings: tuple[GpuReading, ...], problem: str, rules: ReclaimRules, now: Instant
) -> Reclaim:
    """After a look: free, unknowable, or to be looked at again. `problem`: no GPU could be asked at all."""
    if not reclaim.is_pending:
        return reclaim
    if problem or not readings:
        why = problem or "no GPU of the job's is visible"
        return replace(reclaim, status=ReclaimStatus.UNKNOWN, problem=why, look_at=None, ended_at=now)
    gpus = tuple(_story(reclaim, reading, rules, now) for reading in readings)
    told = replace(reclaim, gpus=gpus)
    if all(gpu.status is ReclaimStatus.RECLAIMED for gpu in gpus):
        return replace(told, status=ReclaimStatus.RECLAIMED, look_at=None, ended_at=now)
    waits_for_some = any(gpu.status is ReclaimStatus.PENDING for gpu in gpus)
    told = replace(told, blind_looks=0 if waits_for_some else reclaim.blind_looks + 1)
    if told.blind_looks >= UNKNOWN_LOOKS:
        lost = next(gpu.now for gpu in gpus if gpu.status is ReclaimStatus.UNKNOWN)
        why = f"{lost.uuid} cannot be read: {lost.problem}"
        return replace(told, status=ReclaimStatus.UNKNOWN, problem=why, look_at=None, ended_at=now)
    return replace(told, look_at=after(now, _interval_s(told, rules, now)))


def _story(reclaim: Reclaim, reading: GpuReading, rules: ReclaimRules, now: Instant) -> GpuStory:
    before = next((gpu for gpu in reclaim.gpus if gpu.now.uuid == reading.uuid), None)
    if reading.used_mb is None:
        status = ReclaimStatus.UNKNOWN
    elif reading.used_mb <= rules.tolerance_mb:
        status = ReclaimStatus.RECLAIMED
    else:
        status = ReclaimStatus.PENDING
    seen = [mb for mb in (before.peak_mb if before else None, reading.used_mb) if mb is not None]
    first_mb = before.first_mb if before is not None and before.first_mb is not None else reading.used_mb
    elapsed_s = now - reclaim.began_at
    if before is not None and before.status is status and status is not ReclaimStatus.PENDING:
        elapsed_s = before.elapsed_s
    looks = 1 + (before.looks if before is not None else 0)
    return GpuStory(reading, first_mb, max(seen, default=None), looks, status, elapsed_s)


def _interval_s(reclaim: Reclaim, rules: ReclaimRules, now: Instant) -> float:
    if rules.poll_interval_s is not None:
        return rules.poll_interval_s
    return FAST_POLL_S if now - reclaim.began_at < FAST_FOR_S else POLL_S


def attributes(reclaim: Reclaim) -> tuple[tuple[str, str], ...]:
    """What the span of the wait tells: how it ended, and each GPU by its UUID with what holds its memory."""
    told = [
        ("resurge.generation", str(reclaim.generation)),
        ("resurge.reclaim.status", str(reclaim.status)),
        ("resurge.reclaim.worst_s", f"{reclaim.worst_s:.3f}"),
    ]
    if reclaim.problem:
        told.append(("resurge.reclaim.problem", reclaim.problem))
    return (*told, *((f"resurge.gpu.{gpu.now.uuid}", sentence(gpu)) for gpu in reclaim.gpus[:SHOWN_GPUS]))


SHOWN_GPUS = 24
SHOWN_HOLDERS = 8


def sentence(gpu: GpuStory) -> str:
    """One GPU's wait in words."""
    now = gpu.now
    if now.used_mb is None:
        return f"{gpu.status} after {gpu.elapsed_s:.1f} s: {now.problem}"
    course = f"{gpu.first_mb} to {now.used_mb} MiB, at most {gpu.peak_mb} of {now.total_mb}"
    told = f"{gpu.status} after {gpu.elapsed_s:.1f} s and {gpu.looks} looks: {course}"
    holders = ", ".join(_holder(one) for one in now.holders[:SHOWN_HOLDERS])
    if holders:
        return f"{told}; held by {holders}"
    return told if gpu.status is ReclaimStatus.RECLAIMED else f"{told}; held by nobody that is seen from here"


def _holder(one: GpuHolder) -> str:
    name = f" {one.name}" if one.name else ""
    state = f" ({one.state})" if one.state in ("D", "Z") else ""
    used = f" {one.used_mb} MiB" if one.used_mb is not None else ""
    return f"pid {one.pid}{name}{state}{used}"
