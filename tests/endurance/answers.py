"""Clerks that write to a running job's store, and an observer that reads it; what each was answered is remembered.

A clerk sends one write at a time and repeats it under the same request id until its outcome is sure. At the end the
answers are compared with the journal: `audit` counts what was lost, what was done twice, and what was charged twice.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.core.refusals import Refused, RpcProblem, StaleGeneration, Unready, Unsure
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.engine.entry_wire import entry_from_bytes
from resurge_libs.engine.ports import Entry, Replay
from resurge_libs.engine.replay import facts_of, restore
from resurge_libs.rpc.options import channel_options
from resurge_libs.rpc.retry import call_sync
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.job import Added, Job, PutDone
from resurge_rendezvous.core.limits import SHUTDOWN_KEY
from resurge_rendezvous.core.step import RendezvousMachine

CALL_LIMIT_S = 2.0
PAUSE_S = 0.03
COUNTER = "counter"


@dataclass
class Answered:
    """What was promised to somebody outside; shared by all clerks and the observer of a job."""

    added: dict[str, int] = field(default_factory=dict)
    """Request id -> the counter's value that was answered."""
    put: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Request id -> key and value."""
    refused: list[str] = field(default_factory=list)
    """Request ids that were told, for sure, that nothing was done."""
    verdicts: dict[str, str] = field(default_factory=dict)
    """Incident -> the verdict that an observer was told."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    highest_generation: int = 0
    most_spent: int = 0
    """In the newest attempt: a launcher that comes back after the job's end begins another one, with a budget anew."""
    attempt: int = 0


class Asker(threading.Thread):
    """Asks again and again until it is told to stop; an error of its own is kept and raised by `join_or_raise`."""

    def __init__(self, endpoint: str, turn: Callable[[rendezvous_pb2_grpc.RendezvousServiceStub], None]) -> None:
        super().__init__(daemon=True)
        self._endpoint, self._turn = endpoint, turn
        self._stopping = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            with grpc.insecure_channel(self._endpoint, channel_options(TimeLimits())) as channel:
                stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
                while not self._stopping.wait(PAUSE_S):
                    self._turn(stub)
        except Exception as error:  # task root: told to the driver, which ends the run
            self._error = error

    def finish(self) -> None:
        """Stop after the present turn. Raises what went wrong in the thread."""
        self._stopping.set()
        self.join(4 * CALL_LIMIT_S)
        if self._error is not None:
            raise self._error


class Clerk:
    """Adds to a counter and puts keys, in turn, under the token of the running generation."""

    def __init__(self, name: str, answered: Answered) -> None:
        self._name, self._answered = name, answered
        self._count = 0
        self._token: ids_pb2.FencingToken | None = None
        self._open: pb.AddRequest | pb.PutRequest | None = None

    def turn(self, stub: rendezvous_pb2_grpc.RendezvousServiceStub) -> None:
        """One try of the write that is open, or of the next one."""
        try:
            if self._token is None:
                token = call_sync(stub.GetJob, pb.GetJobRequest(), CALL_LIMIT_S).job.token
                if not token.job_id:
                    return  # no launcher has opened the job yet
                self._token = token
            if self._open is None:
                self._open = self._next()
            if isinstance(self._open, pb.AddRequest):
                value = call_sync(stub.Add, self._open, CALL_LIMIT_S).value
                self._answered.added[self._open.request_id] = value
            else:
                call_sync(stub.Put, self._open, CALL_LIMIT_S)
                self._answered.put[self._open.request_id] = (self._open.key, self._open.value)
            self._open = None
        except Unsure:
            return  # it may have been done: the same request again
        except (StaleGeneration, Unready):
            if self._open is not None:
                self._answered.refused.append(self._open.request_id)
            self._token = self._open = None  # definite: nothing was done; another request under another token
        except Refused as refusal:
            self._answered.lost.append(f"{self._name} was refused with {refusal}")
            self._token = self._open = None

    def _next(self) -> pb.AddRequest | pb.PutRequest:
        self._count += 1
        request = f"{self._name}-{self._count}"
        if self._count % 3:
            return pb.AddRequest(request_id=request, token=self._token, key=COUNTER, delta=1)
        key = f"{self._name}/{self._count % 60}"
        return pb.PutRequest(request_id=request, token=self._token, key=key, value=request.encode())


class Observer:
    """Reads the job as people do: no number falls, no recovery that was shown is ever missing or judged anew."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered

    def turn(self, stub: rendezvous_pb2_grpc.RendezvousServiceStub) -> None:
        """One look."""
        known = self._answered
        try:
            job = call_sync(stub.GetJob, pb.GetJobRequest(), CALL_LIMIT_S).job
            found = call_sync(stub.ListRecoveries, pb.ListRecoveriesRequest(), CALL_LIMIT_S).recoveries
        except RpcProblem:
            return
        if job.token.generation < known.highest_generation:
            known.lost.append(f"generation {job.token.generation} was told after {known.highest_generation}")
        if job.token.attempt > known.attempt:
            known.attempt, known.most_spent = job.token.attempt, 0
        elif job.token.attempt < known.attempt:
            known.lost.append(f"attempt {job.token.attempt} was told after {known.attempt}")
        if job.restarts_spent < known.most_spent:
            known.lost.append(f"{job.restarts_spent} restarts spent were told after {known.most_spent}")
        known.highest_generation = max(known.highest_generation, job.token.generation)
        known.most_spent = max(known.most_spent, job.restarts_spent)
        verdicts = {r.incident_id: _verdict(r) for r in found if r.outcome != pb.RECOVERY_OUTCOME_OPEN}
        for incident, said in known.verdicts.items():
            if verdicts.get(incident) != said:
                known.lost.append(f"verdict of {incident}: {said} was told, now {verdicts.get(incident)}")
        known.verdicts.update(verdicts)


def _verdict(recovery: pb.Recovery) -> str:
    verdict = recovery.verdict
    return f"{verdict.kind} {verdict.because.code} -> generation {recovery.generation_to}"


@dataclass(frozen=True)
class Audit:
    """The journal against what was answered."""

    incidents: int
    rounds: int
    restarts_spent: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    open_incident: str


def audit(state_dir: Path, answered: Answered) -> Audit:
    """Read every fact of the journal of an ended rendezvous. Raises JournalUnusable when it does not replay (S10)."""
    entries = read_entries(state_dir / "journal.sqlite")
    told: list[object] = [fact for entry in entries for fact in facts_of(entry, f.Fact)]
    durable = restore(RendezvousMachine(TimeLimits()), Job(), Replay(None, entries), f.Fact).durable
    requests = Counter(fact.request for fact in told if isinstance(fact, f.RequestAnswered))
    answers = {fact.request: fact.answer for fact in told if isinstance(fact, f.RequestAnswered)}
    lost = list(answered.lost)
    for request, value in answered.added.items():
        if answers.get(request) != Added(value):
            lost.append(f"{request} was answered {value}, the journal has {answers.get(request)}")
    lost += [
        f"{request} was answered, the journal has no such write" for request in answered.put if request not in answers
    ]
    lost += [f"incident {incident} was shown, and is not in the journal" for incident in answered.verdicts
             if incident not in {fact.incident for fact in told if isinstance(fact, f.IncidentOpened)}]  # fmt: skip
    doubled = [*answered.doubled, *(f"{request} was done {n} times" for request, n in requests.items() if n > 1)]
    doubled += [
        f"the counter's value {v} was answered {n} times" for v, n in Counter(answered.added.values()).items() if n > 1
    ]
    doubled += [f"{request} was refused for sure, and done" for request in answered.refused if request in answers]
    adds = sum(isinstance(answer, Added) for answer in answers.values())
    if adds and durable.store[COUNTER].value != str(adds).encode():
        doubled.append(f"{adds} additions gave {durable.store[COUNTER].value!r}")
    lost += _lost_values(durable, answers, told)
    for kind in (f.VerdictLatched, f.RestartCharged):
        times = Counter((fact.incident, fact.round) for fact in told if isinstance(fact, kind))
        doubled += [f"{n} {kind.__name__} for {incident} round {r}" for (incident, r), n in times.items() if n > 1]
    ends = sum(isinstance(fact, f.Terminated) for fact in told)
    reruns = sum(isinstance(fact, f.AttemptRaised) for fact in told)
    doubled += [f"{ends} terminal decisions in {1 + reruns} attempts"] if ends > 1 + reruns else []
    charged = sum(isinstance(fact, f.RestartCharged) for fact in told)
    opened = [fact.incident for fact in told if isinstance(fact, f.IncidentOpened)]
    over = {fact.record.incident for fact in told if isinstance(fact, f.RecoveryClosed)}
    left = ", ".join(incident for incident in opened if incident not in over)
    rounds = sum(isinstance(fact, f.RoundClosed) for fact in told)
    return Audit(len(opened), rounds, charged, tuple(lost), tuple(doubled), left)


def _lost_values(durable: Job, answers: dict, told: list[object]) -> list[str]:
    """Keys whose value is not that of their last write; a clerk's request id is the value that it put."""
    last: dict[str, bytes] = {}
    for fact in told:
        # that key is the service's own: nobody's answer, and a new attempt takes it away
        if isinstance(fact, f.StoreWritten) and fact.entry is not None and fact.key != SHUTDOWN_KEY:
            last[fact.key] = fact.entry.value
    puts = {request.encode() for request, answer in answers.items() if isinstance(answer, PutDone)}
    found = [
        f"{key} holds what nobody was answered" for key, value in last.items() if key != COUNTER and value not in puts
    ]
    return found + [
        f"{key} lost its value"
        for key, value in last.items()
        if key not in durable.store or durable.store[key].value != value
    ]


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Every entry of a journal, beside whoever writes it."""
    reader = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return tuple(entry_from_bytes(row[0]) for row in reader.execute("SELECT body FROM entries ORDER BY seq"))
    finally:
        reader.close()
