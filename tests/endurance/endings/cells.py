"""The kinds of end: how each is brought about, and what every launcher must end with.

A cell is a shape of the job, and an act that is done once all ranks train. To add one: write the act, give the ending
that it must have, and add the cell to CELLS.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.refusals import RpcProblem, Unready, Unsure
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.options import channel_options
from resurge_libs.rpc.retry import call_sync
from resurge_libs.testing import wait_until
from tests.endurance.job import Shape, SmallJob

WORKER = Path(__file__).parent.parent / "programs" / "ending.py"
NO_RESTART = 95
PREEMPTED = 97
"""Not the defaults, so that the settings are seen to reach every launcher."""
ASK_LIMIT_S = 60.0
"""For a control plane that is killed and started again meanwhile, on a busy machine."""
MOST_FAILURES = 4
FAILURE_LIMIT_S = 45.0
TRY_LIMIT_S = 1.0
FLAGS = ("--warm", "off", "--ft_no_restart_exit_code", str(NO_RESTART))
LIMITS = {"RESURGE_LIMITS__LEASE_TTL_S": "2"}
"""Of launchers and control plane alike."""
PAIR = Shape(nodes=2, workers=1, max_restarts=0, pace_s=0.005, flags=FLAGS)
ONE_AND_A_SPARE = replace(PAIR, nodes=1, spares=1, max_restarts=2)


@dataclass(frozen=True)
class Ending:
    """What every launcher ends with."""

    code: int
    cause: EndCause
    own: frozenset[EndCause] = frozenset()
    """Causes of its own with which a launcher may leave beside it, by the same code: it was signalled, and the control
    plane was not there to be asked."""


@dataclass
class Stage:
    """One job that trains, and the ways to disturb it."""

    job: SmallJob
    number: int

    @property
    def is_over(self) -> bool:
        """Every launcher has ended."""
        return all(self.job.processes[name].poll() is not None for name in self.job.shape.launchers)

    def tell(self, name: str) -> None:
        """Leave a file for the workers."""
        (self.job.folder / name).touch()

    def ask(self, service: Any, method: str, request: Any) -> Any:
        """Call the control plane under one request id until it answers: it may be killed meanwhile."""

        def asked() -> Any:
            with grpc.insecure_channel(self.job.endpoint, channel_options(TimeLimits())) as channel:
                try:
                    return call_sync(getattr(service(channel), method), request, TRY_LIMIT_S)
                except (Unsure, Unready):
                    return None

        try:
            return wait_until(asked, ASK_LIMIT_S, f"an answer to {method}")
        except RpcProblem as refused:
            raise AssertionError(f"{method} was refused: {refused}") from None

    def rendezvous(self, method: str, request: Any) -> Any:
        """Call rendezvous."""
        return self.ask(rendezvous_pb2_grpc.RendezvousServiceStub, method, request)

    def policy(self, method: str, request: Any) -> Any:
        """Call the restart policy."""
        return self.ask(policy_pb2_grpc.RestartPolicyServiceStub, method, request)


@dataclass(frozen=True)
class Cell:
    """One kind of end."""

    name: str
    shape: Shape
    act: Callable[[Stage], Ending]
    environ: Mapping[str, str] = field(default_factory=lambda: LIMITS)
    ready: Callable[[Stage], None] | None = None
    """What the act waits for beside the training of all ranks."""


def succeed(stage: Stage) -> Ending:
    """All workers leave with 0."""
    stage.tell("finish")
    return Ending(0, EndCause.SUCCESS)


def spend_the_budget(stage: Stage) -> Ending:
    """A rank fails, on either node, and no restart is left."""
    stage.tell(f"crash-{stage.number % 2}")
    return Ending(1, EndCause.BUDGET)


def stop_by_attribution(stage: Stage) -> Ending:
    """Attribution says STOP; every other time just after a rank has failed."""
    if stage.number % 2:
        stage.tell("crash-1")
    said = policy_pb2.Recommendation(
        kind=policy_pb2.RECOMMENDATION_KIND_STOP, sentence="the same assert in every cycle", source="endings"
    )
    request = policy_pb2.ReportRecommendationRequest(request_id=str(uuid.uuid4()), recommendation=said)
    stage.policy("ReportRecommendation", request)
    return Ending(NO_RESTART, EndCause.ATTRIBUTION_STOP)


def shut_down(stage: Stage) -> Ending:
    """An operator ends the job, or one of its workers does."""
    if stage.number % 2:
        stage.tell(f"shutdown-{stage.number // 2 % 2}")
        return Ending(0, EndCause.WORKLOAD_SHUTDOWN)
    request = rendezvous_pb2.RequestShutdownRequest(request_id=str(uuid.uuid4()), reason="endings")
    stage.rendezvous("RequestShutdown", request)
    return Ending(0, EndCause.SHUTDOWN_REQUESTED)


def exclude(stage: Stage) -> Ending:
    """A worker asks to leave its node out; the spare takes over, and the excluded launcher waits for the job's end."""
    before = stage.job.crew()
    stage.tell("exclude-0")
    after = stage.job.training(after=before.generation, limit_s=30.0, may_end=("control",))
    assert after.nodes.isdisjoint(before.nodes), f"{sorted(after.nodes)} trains after {sorted(before.nodes)} was left"
    stage.tell("finish")
    return Ending(0, EndCause.SUCCESS)


def leave_too_few(stage: Stage) -> Ending:
    """An operator excludes a node that cannot be missed; a rank fails; nobody comes back."""
    order = rendezvous_pb2.ExcludeNodeRequest(request_id=str(uuid.uuid4()), node_id="n1", reason="endings")
    stage.rendezvous("ExcludeNode", order)
    stage.tell("crash-0")
    return Ending(1, EndCause.TOO_FEW_NODES)


def stand_still(stage: Stage) -> Ending:
    """A rank fails, on either node, and no checkpoint was completed since the start.

    On a loaded machine the marker may not be read in time for the verdict. Such a cycle is not counted, as a restart
    waits for nothing, and the next one fails as well.
    """
    job = stage.job
    for _ in range(MOST_FAILURES):
        failed = job.crew().generation
        stage.tell(f"crash-{stage.number % 2}")
        wait_until(lambda failed=failed: stage.is_over or _trains_after(job, failed), FAILURE_LIMIT_S, "what follows")
        if stage.is_over:
            break
    return Ending(NO_RESTART, EndCause.NO_PROGRESS)


def _trains_after(job: SmallJob, generation: int) -> bool:
    crew = job.crew()
    return crew.generation > generation and crew.trains(job.shape.world)


def marker_is_read(stage: Stage) -> None:
    """A cycle that fails before the marker was read for the first time is not counted."""
    request = rendezvous_pb2.GetJobRequest()
    wait_until(lambda: stage.rendezvous("GetJob", request).job.progress.baseline == 10, 30.0, "the marker's reading")


def preempt(stage: Stage) -> Ending:
    """The scheduler signals one launcher, or all of them one after the other."""
    names = stage.job.shape.launchers if stage.number % 2 else stage.job.shape.launchers[stage.number // 2 % 2 :][:1]
    for name in names:
        stage.job.processes[name].send_signal(signal.SIGTERM)
    return Ending(PREEMPTED, EndCause.PREEMPTED, frozenset({EndCause.SIGNALLED}))


WITH_STOPS = replace(PAIR, max_restarts=2, flags=(*FLAGS, "--ft-attribution-stop-action", "no-restart"))
BY_MARKER = {**LIMITS, "RESURGE_LAUNCHER__CHECKPOINT_ITERATION_FILE": "{folder}/marker"}
WITH_MARKER = replace(PAIR, max_restarts=5, flags=(*FLAGS, "--ft-max-no-progress-cycles", "1"))
PREEMPTIBLE = replace(PAIR, max_restarts=5, flags=(*FLAGS, "--preempted-exit-code", str(PREEMPTED)))
IMPATIENT = replace(PAIR, max_restarts=2, flags=FLAGS)

CELLS: tuple[Cell, ...] = (
    Cell("success", PAIR, succeed),
    Cell("budget", PAIR, spend_the_budget),
    Cell("no_progress", WITH_MARKER, stand_still, BY_MARKER, marker_is_read),
    Cell("attribution_stop", WITH_STOPS, stop_by_attribution),
    Cell("shutdown_request", PAIR, shut_down),
    Cell("preemption", PREEMPTIBLE, preempt, {**LIMITS, "RESURGE_LIMITS__DRAIN_GRACE_S": "5"}),
    Cell("exclusion", ONE_AND_A_SPARE, exclude),
    Cell("too_few_nodes", IMPATIENT, leave_too_few, {**LIMITS, "RESURGE_LIMITS__QUORUM_WAIT_S": "3.2"}),
)
