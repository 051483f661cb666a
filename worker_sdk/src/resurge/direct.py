"""The services, reached by gRPC from a process without a launcher on its node: an actor, a notebook, an engine.

    with resurge.direct.Services(Where("control:29400", job_id="train")) as services:
        print(services.job().sentence)
        services.stop_restarting("the reward has collapsed")

Needs the extra `grpc`. A channel is opened by the first call, and closed before this process forks: none is alive in a
data loader's workers, and the next call opens another one. gRPC itself stays up from the first call on: what it does
before a fork may never return where it is being shut down. Decides which calls are made again: those that may not have
arrived, under the same request_id, until their time is over. Effects: the calls.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from resurge.control import WAIT_S, WorkloadAction
from resurge.environment import WorkerEnvironment
from resurge.frames import TEXT_LIMIT, ControlAnswer

PAUSE_S = 0.2
"""Between two tries of a call."""
CUT_SHORT_PAUSE_S = 0.01
"""Before a call is made again that a fork has cut short."""
FORK_WAIT_S = 1.0
"""For calls to end that a fork cuts short."""
TOKEN_KEY = "x-resurge-job-token"
_INDEFINITE = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")
_ACTIONS = {
    WorkloadAction.ShutdownWorkload: "CONTROL_ACTION_SHUTDOWN_WORKLOAD",
    WorkloadAction.ExcludeThisNode: "CONTROL_ACTION_EXCLUDE_THIS_NODE",
}


class CallFailed(Exception):
    """A service refused, or did not answer in time."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code
        """Of gRPC, by name."""
        self.definite = code not in _INDEFINITE
        """Whether nothing was done for certain."""


@dataclass(frozen=True)
class Where:
    """Whom to ask, and who asks."""

    endpoint: str
    """Of rendezvous: host:port or unix:/path."""
    job_id: str
    policy_endpoint: str = ""
    """Of restart policy; empty: the same, as a host serves both."""
    node_id: str = ""
    """Of the job, that this process works on; empty: the name of its machine."""
    rank: int = 0
    generation: int = 0
    """That this process belongs to; 0: whichever there is."""
    token: str = field(default="", repr=False)
    """The job's secret, where the endpoint asks for it."""
    traceparent: str = ""

    @classmethod
    def of(cls, told: WorkerEnvironment) -> Where:
        """As the environment says."""
        return cls(
            told.endpoint, told.job_id, told.policy_endpoint, told.node_id,
            told.rank, told.generation, told.token, told.traceparent,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobState:
    """Where the job stands."""

    phase: str
    """gathering, running, recovering, finishing or ended."""
    attempt: int
    generation: int
    cycle: int
    restarts_spent: int
    sentence: str
    incident_id: str = ""
    """The one that is open; empty for none."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why policy decided as it did."""

    verdict: str
    sentence: str
    rules: tuple[tuple[str, bool, str], ...]
    """Name of each rule, whether it decided, and what it said."""


@dataclass(frozen=True, slots=True)
class _Line:
    channel: Any
    stub: Any


class Services:
    """The services of one job. Calls may come from several threads; a forked child has none: CallFailed, FORKED."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._pid = os.getpid()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._lock = threading.RLock()
        _FORKS.knows(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Close the channels; the next call opens others. A forked child has none."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            lines, self._lines = self._lines, {}
        for line in lines.values():
            line.channel.close()

    def job(self, wait: float = WAIT_S) -> JobState:
        """Where the job stands. Raises CallFailed."""
        found = self._job(time.monotonic() + wait)
        phase = _api().rendezvous.JobPhase.Name(found.phase).removeprefix("JOB_PHASE_").lower()
        token, because = found.token, found.because
        return JobState(
            phase, token.attempt, token.generation, found.cycle, found.restarts_spent,
            because.sentence or because.code, found.incident_id,
        )  # fmt: skip

    def stop_restarting(self, reason: str, wait: float = WAIT_S) -> ControlAnswer:
        """Ask that the job ends and is not restarted. Never raises; the answer says what came of it."""
        return self.ask(WorkloadAction.ShutdownWorkload, reason, wait)

    def exclude_this_node(self, reason: str, wait: float = WAIT_S) -> ControlAnswer:
        """Ask that training goes on without this process's node. Never raises."""
        return self.ask(WorkloadAction.ExcludeThisNode, reason, wait)

    def ask(self, action: WorkloadAction, reason: str, wait: float = WAIT_S) -> ControlAnswer:
        """As the two above."""
        if action is WorkloadAction.Continue:
            return ControlAnswer(True, False, "the workload goes on, as it was asked")
        until = time.monotonic() + wait
        try:
            pb = _api().rendezvous
            request = pb.ReportControlRequestRequest(
                request_id=str(uuid.uuid4()), token=self._token(until), rank=self._where.rank,
                node_id=self._where.node_id or socket.gethostname(), reason=str(reason)[:TEXT_LIMIT],
                action=pb.ControlAction.Value(_ACTIONS[action]),
            )  # fmt: skip
            request.at.GetCurrentTime()
            response = self._call(self._where.endpoint, "RendezvousService", "ReportControlRequest", request, until)
        except CallFailed as failed:
            return ControlAnswer(failed.definite and failed.code != "FORKED", False, str(failed))
        except ImportError as missing:
            return ControlAnswer(False, False, str(missing))
        return ControlAnswer(True, response.carried_out, response.because.sentence or response.because.code)

    def recommend_stop(self, sentence: str, confidence: float | None = None, wait: float = WAIT_S) -> str:
        """Tell policy, as attribution does, that the job should end; gives what came of it: recorded, latched, ended or
        too_late. Raises CallFailed."""
        until = time.monotonic() + wait
        pb = _api().policy
        said = pb.Recommendation(
            kind=pb.RECOMMENDATION_KIND_STOP, sentence=str(sentence)[:TEXT_LIMIT], confidence=confidence,
            token=self._token(until), source=f"{self._where.node_id or socket.gethostname()}, rank {self._where.rank}",
        )  # fmt: skip
        request = pb.ReportRecommendationRequest(request_id=str(uuid.uuid4()), recommendation=said)
        response = self._call(self._policy, "RestartPolicyService", "ReportRecommendation", request, until)
        return str(pb.RecommendationEffect.Name(response.effect).removeprefix("RECOMMENDATION_EFFECT_").lower())

    def explain(self, incident_id: str, wait: float = WAIT_S) -> Explanation:
        """Why policy decided as it did about an incident that it decided lately. Raises CallFailed."""
        pb = _api().policy
        request = pb.ExplainRequest(incident_id=incident_id)
        found = self._call(self._policy, "RestartPolicyService", "Explain", request, time.monotonic() + wait)
        rules = tuple((each.rule, each.decided, each.because.sentence) for each in found.rules)
        kind = pb.VerdictKind.Name(found.verdict.kind).removeprefix("VERDICT_KIND_").lower()
        return Explanation(kind, found.verdict.because.sentence, rules)

    @property
    def _policy(self) -> str:
        return self._where.policy_endpoint or self._where.endpoint

    def _job(self, until: float) -> Any:
        request = _api().rendezvous.GetJobRequest(job_id=self._where.job_id)
        return self._call(self._where.endpoint, "RendezvousService", "GetJob", request, until).job

    def _token(self, until: float) -> Any:
        """The one that holds; with this process's own generation, if it has one: an older one is then refused."""
        token = self._job(until).token
        if self._where.generation:
            token.generation = self._where.generation
        return token

    def _call(self, endpoint: str, service: str, method: str, request: Any, until: float) -> Any:
        """Until it is answered or refused; each request may be made again."""
        if os.getpid() != self._pid:
            raise CallFailed("FORKED", "a forked child does not speak for the process that it was forked from")
        grpc = _api().grpc
        while True:
            left_s, line = max(0.001, until - time.monotonic()), None
            try:
                with _FORKS.calling():
                    line = self._line(endpoint, service)
                    return getattr(line.stub, method)(request, timeout=left_s, metadata=self._metadata())
            except grpc.RpcError as error:
                failed = CallFailed(error.code().name, error.details() or "no answer")
            except ValueError as error:
                if self._lines.get((endpoint, service)) is line:  # what was given cannot be sent
                    raise CallFailed("INVALID_ARGUMENT", str(error)) from None
                failed = CallFailed("CANCELLED", str(error))  # closed for a fork in this very moment
            if failed.code not in ("UNAVAILABLE", "CANCELLED") or time.monotonic() + PAUSE_S >= until:
                raise failed
            time.sleep(PAUSE_S if failed.code == "UNAVAILABLE" else CUT_SHORT_PAUSE_S)

    def _line(self, endpoint: str, service: str) -> _Line:
        """Made whole under the lock: a stub made on a channel that is closed ends the process with SIGSEGV."""
        with self._lock:
            if (endpoint, service) not in self._lines:
                channel = _api().grpc.insecure_channel(endpoint)
                self._lines[endpoint, service] = _Line(channel, _api().stubs[service](channel))
            return self._lines[endpoint, service]

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        told = ((TOKEN_KEY, self._where.token), ("traceparent", self._where.traceparent))
        return tuple((key, value) for key, value in told if value)


class _Forks:
    """Sees to it that no channel is open while this process forks."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Services] = weakref.WeakSet()
        self.begin()

    def begin(self) -> None:
        """As in a process that has just begun, or was forked."""
        self._changed = threading.Condition()
        self._under_way = self._forking = 0

    def knows(self, services: Services) -> None:
        """Close the channels of these too."""
        with self._changed:
            self._known.add(services)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """For one call: none begins during a fork."""
        with self._changed:
            self._changed.wait_for(lambda: not self._forking, FORK_WAIT_S)
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def before(self) -> None:
        """A fork comes: cut the calls short that are under way."""
        with self._changed:
            self._forking += 1
            known = tuple(self._known)
        until = time.monotonic() + FORK_WAIT_S
        while True:
            for services in known:
                services.hang_up()
            with self._changed:
                if self._changed.wait_for(lambda: not self._under_way, 0.01) or time.monotonic() >= until:
                    return

    def after_in_parent(self) -> None:
        """It is over."""
        with self._changed:
            self._forking -= 1
            self._changed.notify_all()


_FORKS = _Forks()
os.register_at_fork(before=_FORKS.before, after_in_parent=_FORKS.after_in_parent, after_in_child=_FORKS.begin)


@dataclass(frozen=True, slots=True)
class _Api:
    grpc: Any
    rendezvous: Any
    policy: Any
    stubs: Mapping[str, Callable[[Any], Any]]
    never_used: Any
    """A channel that stays open, so that gRPC is not shut down, by a thread of its own, with the last of the others."""


_loaded: list[_Api] = []


def _api() -> _Api:
    """The contracts and gRPC itself, imported by the first call. Raises ImportError, saying what to install."""
    if not _loaded:
        with _FORKS.calling():  # gRPC starts, as little beside a fork as it may end
            _loaded.append(_load())
    return _loaded[0]


def _load() -> _Api:
    try:
        import grpc

        from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
        from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
    except ImportError as error:
        raise ImportError(f"resurge.direct needs gRPC: pip install 'resurge[grpc]' ({error})") from None
    stubs = {
        "RendezvousService": rendezvous_pb2_grpc.RendezvousServiceStub,
        "RestartPolicyService": policy_pb2_grpc.RestartPolicyServiceStub,
    }
    return _Api(grpc, rendezvous_pb2, policy_pb2, stubs, grpc.insecure_channel("unix:never-used"))
