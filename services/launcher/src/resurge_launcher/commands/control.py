"""How the reading commands reach a job: by gRPC while its control plane lives, else from the records it left.

Finds the place, calls, and says where an answer came from. Decides nothing about the job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher import settings as launcher_settings
from resurge_launcher.commands import machine, values
from resurge_launcher.commands.left_records import job_in, refuse_to_deny
from resurge_launcher.probe import answers
from resurge_launcher.usage import CommandFailed, UsageProblem, foreign_answer
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.records import CONTROL_NAME, JOB_NAME, JOURNAL_NAME, RECOVERIES_NAME, read_job, read_recoveries

CALL_LIMIT_S = 5.0
TRY_LIMIT_S = 2.0
MARKS = (CONTROL_NAME, JOB_NAME, RECOVERIES_NAME, JOURNAL_NAME)
"""A directory that holds one of these is some job's."""
ENDPOINT_VARIABLES = ("RESURGE_LAUNCHER__RDZV_ENDPOINT", "PET_RDZV_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job can be asked for; at least one of the two is there."""

    endpoint: Endpoint | None
    state_dir: Path | None
    token: str

    def __str__(self) -> str:
        return str(self.endpoint) if self.endpoint else str(self.state_dir)


class NoAnswer(CommandFailed):
    """The control plane did not answer; the records may."""


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a command is told the place."""
    function = click.option("--state-dir", metavar="DIR", help="State directory of the job.")(function)
    return click.option("--endpoint", "--rdzv-endpoint", metavar="HOST:PORT", help="Its control plane.")(function)


def find_place(endpoint: str | None, state_dir: str | None) -> Place:
    """The place as told, else the newest job of this user on this machine. Raises UsageProblem."""
    environ = launcher_settings.environment()
    token = environ.get("RESURGE_JOB_TOKEN", "")
    source, written = _given_endpoint(endpoint, state_dir, environ)
    if written is not None:
        try:
            return Place(values.endpoint(written), Path(state_dir) if state_dir else None, token)
        except values.Wrong as wrong:
            raise UsageProblem(source, wrong.problem, wrong.right) from None
    directory = Path(state_dir) if state_dir else newest_state_dir(environ)
    if not directory.is_dir():
        raise UsageProblem("--state-dir", f"{directory} is not a directory", "Name the --state-dir of resurge run.")
    return Place(_announced(directory), directory, token)


def _given_endpoint(endpoint: str | None, state_dir: str | None, environ: Mapping[str, str]) -> tuple[str, str | None]:
    if endpoint is not None:
        return "--endpoint", endpoint
    if state_dir is None:
        for variable in ENDPOINT_VARIABLES:
            if environ.get(variable):
                return variable, environ[variable]
    return "", None


def newest_state_dir(environ: Mapping[str, str]) -> Path:
    """The state directory that was written to last. Raises UsageProblem when there is none."""
    root = machine.state_root(environ)
    if (why := machine.why_not_own(root)) is not None:
        raise UsageProblem(
            "--state-dir", f"is missing, and {root} {why}", "Give --endpoint HOST:PORT or --state-dir DIR."
        )
    marks = [mark for name in MARKS for mark in root.glob(f"*/{name}")]
    if not marks:
        raise UsageProblem(
            "--endpoint", f"is missing, and {root} holds no job", "Give --endpoint HOST:PORT or --state-dir DIR."
        )
    return max(marks, key=lambda mark: mark.stat().st_mtime).parent


def _announced(directory: Path) -> Endpoint | None:
    try:
        told = json.loads((directory / CONTROL_NAME).read_text(encoding="utf-8"))
        endpoint = values.endpoint(str(told["endpoint"]))
        # one that was killed leaves its announcement, and on this host a look costs less than a call's patience
        if not endpoint.is_loopback or answers(endpoint):
            return endpoint
        _say(f"no control plane answered at {endpoint}; shown from the records in {directory}")
        return None
    except (OSError, ValueError, KeyError, TypeError):  # nobody serves, or the file is not ours to understand
        return None


def ask(place: Place, method: str, request: Any, service: str = "rendezvous") -> Any:
    """One call to the control plane. Raises NoAnswer when nobody answered, CommandFailed when it refused."""
    if place.endpoint is None:
        raise NoAnswer(f"no control plane serves {place.state_dir}")
    launcher_settings.calm_grpc()
    from resurge_libs.core.refusals import ReplyLost, RpcProblem
    from resurge_libs.core.time_limits import TimeLimits
    from resurge_libs.rpc.channel import open_sync_channel
    from resurge_libs.rpc.context import call_metadata
    from resurge_libs.rpc.endpoint import EndpointProblem
    from resurge_libs.rpc.retry import RetryRules, call_idempotent_sync

    rules = RetryRules(limit_s=CALL_LIMIT_S, try_limit_s=TRY_LIMIT_S)
    try:
        with open_sync_channel(place.endpoint, TimeLimits(), place.token) as channel:
            stub = _stub(service)(channel)
            return call_idempotent_sync(getattr(stub, method), request, rules, call_metadata(place.token))
    except EndpointProblem as problem:
        raise UsageProblem("--endpoint", str(problem), "See RESURGE_JOB_TOKEN in the reference.") from None
    except ReplyLost as lost:
        if foreign := foreign_answer(str(place.endpoint), str(lost)):
            raise UsageProblem("--endpoint", foreign, "See resurge status --help.") from None
        raise NoAnswer(f"no control plane answered at {place.endpoint}: {lost}") from None
    except RpcProblem as problem:
        if foreign := foreign_answer(str(place.endpoint), str(problem)):
            raise UsageProblem("--endpoint", foreign, "See resurge status --help.") from None
        raise CommandFailed(f"{place.endpoint} refused: {problem}") from None


def _stub(service: str) -> Any:
    if service == "policy":
        from resurge_api.policy.v1 import policy_pb2_grpc

        return policy_pb2_grpc.RestartPolicyServiceStub
    from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc

    return rendezvous_pb2_grpc.RendezvousServiceStub


def job_at(place: Place) -> rendezvous_pb2.Job:
    """The job as it stands, else as its records left it."""

    return _live_or(
        place,
        lambda: ask(place, "GetJob", rendezvous_pb2.GetJobRequest()).job,
        lambda directory: job_in(directory, _say),
    )


def has_ended(place: Place) -> bool:
    """Whether the control plane says that the job is over: an order does nothing then. Raises as `ask` does."""
    job = ask(place, "GetJob", rendezvous_pb2.GetJobRequest()).job
    return bool(job.phase == rendezvous_pb2.JOB_PHASE_ENDED)


def recoveries_at(place: Place) -> list[rendezvous_pb2.Recovery]:
    """All recovery records that are kept, oldest first; says how many are not."""

    def from_records(directory: Path) -> list[rendezvous_pb2.Recovery]:
        found = _in_files(directory)
        if not found:
            refuse_to_deny(directory, _say)
            return []
        told = read_job(directory)
        _say_left_out((told.recoveries_closed if told is not None else 0) - len(found))
        return _by_start(found.values())

    def live() -> list[rendezvous_pb2.Recovery]:
        answer = ask(place, "ListRecoveries", rendezvous_pb2.ListRecoveriesRequest())
        known = {item.incident_id: item for item in answer.recoveries}
        if not answer.earlier or place.state_dir is None:
            _say_left_out(answer.earlier, "; --state-dir shows those that its files still hold")
            return list(answer.recoveries)
        earlier = {name: item for name, item in _in_files(place.state_dir).items() if name not in known}
        _say_left_out(answer.earlier - len(earlier))
        return _by_start((*earlier.values(), *known.values()))

    return _live_or(place, live, from_records)


def _in_files(directory: Path) -> dict[str, rendezvous_pb2.Recovery]:
    try:
        found = read_recoveries(directory)
    except OSError as error:
        raise CommandFailed(f"{directory / RECOVERIES_NAME} cannot be read: {error.strerror}") from None
    if found.unreadable_lines:
        _say(f"{found.unreadable_lines} lines of {directory / RECOVERIES_NAME} could not be read and are left out")
    return {item.incident_id: item for item in found.recoveries}


def _by_start(recoveries: Iterable[rendezvous_pb2.Recovery]) -> list[rendezvous_pb2.Recovery]:
    return sorted(recoveries, key=lambda item: item.start.ToNanoseconds())


def _say_left_out(count: int, where: str = "") -> None:
    if count > 0:
        what = "recovery is" if count == 1 else "recoveries are"
        _say(f"{count} earlier {what} not shown: only the newest are kept{where}")


def _live_or(place: Place, live: Callable[[], Any], from_records: Callable[[Path], Any]) -> Any:
    if place.endpoint is None and place.state_dir is not None:
        return from_records(place.state_dir)
    try:
        return live()
    except NoAnswer as silence:
        if place.state_dir is None:
            raise
        _say(f"{silence}; shown from the records in {place.state_dir}")
        return from_records(place.state_dir)


def _say(sentence: str) -> None:
    click.echo(f"resurge: {sentence}", err=True)
