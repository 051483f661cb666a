"""What a simulated launcher of the scale bench says: the real protocol's messages, from what a good launcher without
work would do. It opens no connection; `scale_fleet` and `scale_grpc` carry the words.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.duration_pb2 import Duration

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.core.time_limits import TimeLimits
from tests.fakes.launcher import job_spec

STEPS = (
    attach_pb2.MILESTONE_KIND_WORKER_STARTED,
    attach_pb2.MILESTONE_KIND_PROCESS_GROUP_READY,
    attach_pb2.MILESTONE_KIND_CHECKPOINT_RESTORED,
    attach_pb2.MILESTONE_KIND_FIRST_STEP,
)


@dataclass
class Heard:
    """What the launchers of one process have been told so far."""

    reached: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """When launchers were told a goal of a generation."""
    errors: list[str] = field(default_factory=list)
    beats: int = 0
    pings: int = 0
    """Of the transport, sent."""


class Job:
    """The job that all launchers bring."""

    def __init__(self, nodes: int, lease_s: float) -> None:
        self.limits = TimeLimits().changed(lease_ttl_s=lease_s)
        lease = Duration(seconds=int(lease_s))
        self.spec = job_spec("scale", f"{nodes}:{nodes}", max_restarts=1_000, lease_ttl=lease)


class Words:
    """One launcher's state and what it says of it."""

    __slots__ = ("beat_interval_s", "generation", "heard", "hello", "job", "rank", "sequence", "state")

    def __init__(self, name: str, job: Job, heard: Heard) -> None:
        self.job, self.heard = job, heard
        self.sequence = self.rank = self.generation = 0
        self.beat_interval_s = job.limits.beat_interval_s
        self.state = attach_pb2.Observed(phase=attach_pb2.NODE_PHASE_READY)
        self.state.store_offer.address, self.state.store_offer.port = "127.0.0.1", 29500
        self.hello = attach_pb2.Hello(
            protocol_version=1,
            job=job.spec,
            node_id=name,
            incarnation=1,
            boot_id=f"boot-of-{name}",
            host=name,
            pid=1,
            local_world_size=1,
            address="127.0.0.1",
            in_place_version=1,
        )

    def first(self) -> rendezvous_pb2.AttachRequest:
        """The message that begins a stream."""
        self.sequence = 0
        self.hello.highest_generation = self.generation
        message = self.message(beats=True)
        message.observed.hello.CopyFrom(self.hello)
        return message

    def message(self, beats: bool) -> rendezvous_pb2.AttachRequest:
        """The whole state, with a beat if one is due."""
        request = rendezvous_pb2.AttachRequest(observed=self.state)
        if beats:
            self.sequence += 1
            request.observed.beat.sequence = self.sequence
            _set_now(request.observed.beat.sent, time.time_ns())
        return request

    def obey(self, desired: attach_pb2.Desired, told_at: float) -> bool:
        """Do what a good launcher without work would do, at once; true when there is something to say."""
        if desired.HasField("beat_reply"):
            limits = self.job.limits
            granted_s = desired.beat_reply.lease_ttl.ToNanoseconds() / 1e9
            self.beat_interval_s = limits.beat_interval_s * max(1.0, granted_s / limits.lease_ttl_s)
            self.heard.beats += 1
        goal = desired.WhichOneof("goal")
        if goal is None:
            return False
        self.state.revision_seen = desired.revision
        if goal == "run":
            self.heard.reached["run", desired.run.generation].append(told_at)
            if self.generation == desired.run.generation:
                return False  # told again, on a new stream
            self.rank, self.generation = desired.run.base_rank, desired.run.generation
            self._started()
        elif goal == "down":
            self.heard.reached["down", desired.down.generation].append(told_at)
            self._cleared(desired.down.generation)
        else:
            return False
        return True

    def _started(self) -> None:
        del self.state.milestones[:], self.state.exits[:]
        self.state.phase, self.state.generation = attach_pb2.NODE_PHASE_RUNNING, self.generation
        now_ns = time.time_ns()
        for kind in STEPS:
            _set_now(self.state.milestones.add(rank=self.rank, kind=kind).at, now_ns)

    def _cleared(self, generation: int) -> None:
        del self.state.milestones[:]
        self.state.phase, self.state.generation = attach_pb2.NODE_PHASE_READY, generation

    def broken(self) -> None:
        """The one worker is killed."""
        _set_now(self.state.exits.add(rank=self.rank, pid=1, signal=9).at, time.time_ns())


def _set_now(stamp: Any, now_ns: int) -> None:
    stamp.seconds, stamp.nanos = divmod(now_ns, 1_000_000_000)
