"""`resurge logs`: what workers printed, live or later; which files there are; what a node has not sent yet."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from google.protobuf import json_format

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher import settings as launcher_settings
from resurge_launcher.commands import log_files, values
from resurge_launcher.commands.control import newest_state_dir
from resurge_launcher.commands.following_logs import Follower, NoLogServer, Part
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_libs.obs.cycle_record import CycleRecord
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.records import CONTROL_NAME

COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91)
"""ANSI foregrounds, one rank after another."""
LOG_SERVER = "log-server"
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@click.group("logs")
def command() -> None:
    """What workers printed: one file per cycle, with every rank's lines."""


def _place(function: Any) -> Any:
    function = click.option("--state-dir", metavar="DIR", help="State directory of the job.")(function)
    return click.option("--log-endpoint", metavar="HOST:PORT", help="Its log server.")(function)


@command.command("tail")
@_place
@click.option("--rank", "ranks", type=click.IntRange(min=0), multiple=True, help="Only this rank; may be repeated.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node; may be repeated.")
@click.option(
    "--cycle", type=click.IntRange(min=0), help="Only this cycle. Default: the last, and those to come with -f."
)
@click.option("--attempt", type=click.IntRange(min=0), help="Of this attempt. Default: the last.")
@click.option("--since", metavar="TIME", help="Only what was written in the last TIME: 90s, 15m, 2h.")
@click.option("--grep", "pattern", metavar="REGEX", help="Only lines that match.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=0, help="Only so many of the last lines; 0: all.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes.")
@click.option("--launchers", is_flag=True, help="What launchers log, instead of what workers print.")
@click.option(
    "--colour", type=click.Choice(["auto", "always", "never"]), default="auto", help="A colour for each rank."
)
def tail(log_endpoint: str | None, state_dir: str | None, **wanted: Any) -> None:
    """Show the lines of a cycle, those of chosen ranks alone if asked, and go on with what comes."""
    pattern = _pattern(wanted["pattern"])
    request = _request(wanted)
    painted = wanted["colour"] == "always" or (wanted["colour"] == "auto" and sys.stdout.isatty())
    out = sys.stdout.buffer
    record = None if log_endpoint is not None else _without_server(state_dir, wanted)
    if record is not None:
        parts = log_files.lines_of(record, wanted)
    elif wanted["follow"]:
        parts = Follower(request, lambda: _log_server(log_endpoint, state_dir), _stream, _said).parts()
    else:
        parts = _once(log_endpoint, state_dir, request, wanted)
    missing = set(wanted["ranks"])
    for rank, text in parts:
        missing.discard(rank)
        if pattern is not None:
            text = b"".join(line for line in text.splitlines(keepends=True) if pattern.search(line))
        if text:
            out.write(_coloured(text, max(0, rank)) if painted else text)
            if record is None:
                out.flush()
    out.flush()
    _say_who_missing(sorted(missing), wanted)


def _say_who_missing(ranks: list[int], wanted: dict[str, Any]) -> None:
    """Refuse ranks that were asked for and have no line at all, where nothing else was asked of the lines."""
    if ranks and not (wanted["since"] or wanted["nodes"] or wanted["lines"]):
        names = ", ".join(str(rank) for rank in ranks[:16])
        of = f"cycle {wanted['cycle']}" if wanted["cycle"] is not None else "this cycle"
        raise CommandFailed(f"no line of rank {names} is there: {of} has no such rank, or it printed nothing")


def _said(sentence: str) -> None:
    click.echo(f"resurge: {sentence}", err=True)


def _once(
    log_endpoint: str | None, state_dir: str | None, request: logs_pb2.TailRequest, wanted: dict[str, Any]
) -> Iterator[Part]:
    """What is there; from the file where the server that was announced does not answer any more."""
    is_answered = False
    try:
        for part in _stream(_log_server(log_endpoint, state_dir), request):
            is_answered = True
            if part.text:
                yield part.source.rank, part.text
    except NoLogServer as problem:
        if log_endpoint is not None or is_answered:
            raise
        record = log_files.record_with_file(_directory(state_dir), wanted["attempt"], wanted["cycle"])
        if record is None:
            raise
        _said(f"{problem}; what follows is read from the file of cycle {record.cycle} itself")
        yield from log_files.lines_of(record, wanted)


def _request(wanted: dict[str, Any]) -> logs_pb2.TailRequest:
    kind = logs_pb2.LOG_KIND_LAUNCHER if wanted["launchers"] else logs_pb2.LOG_KIND_APPLICATION
    request = logs_pb2.TailRequest(
        kind=kind, ranks=wanted["ranks"], nodes=wanted["nodes"], last=wanted["lines"], follow=wanted["follow"]
    )
    if wanted["cycle"] is not None:
        request.cycle = wanted["cycle"]
    if wanted["attempt"] is not None:
        request.attempt = wanted["attempt"]
    if wanted["since"] is not None:
        request.since.FromNanoseconds(round((time.time() - _seconds(wanted["since"])) * 1e9))
    return request


def _seconds(written: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", written)
    if found is None:
        raise UsageProblem("--since", f"{written!r} is no duration", "Give a number with a unit: 90s, 15m, 2h, 1d.")
    return float(found[1]) * UNITS[found[2] or "s"]


def _pattern(written: str | None) -> re.Pattern[bytes] | None:
    if written is None:
        return None
    try:
        return re.compile(written.encode())
    except re.error as error:
        raise UsageProblem(
            "--grep", f"{written!r} is no regular expression: {error}", "Escape what is meant so."
        ) from None


def _coloured(text: bytes, rank: int) -> bytes:
    start = b"\x1b[%dm" % COLOURS[rank % len(COLOURS)]
    return b"".join(start + line.rstrip(b"\n") + b"\x1b[0m\n" for line in text.splitlines(keepends=True))


@command.command("list")
@_place
@click.option("--json", "is_json", is_flag=True, help="Print the files as JSON.")
def listed(log_endpoint: str | None, state_dir: str | None, is_json: bool) -> None:
    """Show every file: how many lines, whether all ranks reached their end, what was given up.

    Without a log server, the files that the records of cycles name; who reached an end is not known then.
    """
    logs, is_served = _logs(log_endpoint, state_dir)
    if is_json:
        rows = (json_format.MessageToJson(log, indent=None, preserving_proto_field_name=True) for log in logs)
        click.echo("[" + ",\n ".join(rows) + "]")
        return
    for log in logs:
        click.echo(_row(log, is_served))
    if not logs:
        click.echo("No line has come yet.")


def _logs(log_endpoint: str | None, state_dir: str | None) -> tuple[Sequence[logs_pb2.Log], bool]:
    """The files, and whether a log server told of them; from the records where none is announced or answers."""
    if log_endpoint is not None:
        return _served(_endpoint(log_endpoint)), True
    directory = _directory(state_dir)
    why = f"no log server serves {directory}"
    if _is_announced(directory):
        try:
            return _served(_log_server(None, str(directory))), True
        except NoLogServer as problem:
            why, found = str(problem), log_files.logs_in_files(directory)
            if not found:
                raise
    elif not (found := log_files.logs_in_files(directory)):
        raise UsageProblem("--log-endpoint", f"is missing, and {why}", log_files.where_to_look(directory))
    _said(f"{why}; shown are the files that its records of cycles name")
    return found, False


def _served(endpoint: Endpoint) -> Sequence[logs_pb2.Log]:
    answer: logs_pb2.ListLogsResponse = _unary(endpoint, "ListLogs", logs_pb2.ListLogsRequest())
    return answer.logs


def _is_announced(directory: Path) -> bool:
    return (directory / LOG_SERVER / CONTROL_NAME).exists()


def _row(log: logs_pb2.Log, is_served: bool) -> str:
    if log.kind == logs_pb2.LOG_KIND_LAUNCHER:
        name, state = "launchers", ""
    elif log.kind == logs_pb2.LOG_KIND_OTHER:
        name, state = "another's file", ""
    else:
        name = f"attempt {log.attempt} cycle {log.cycle}"
        missing = ", ".join(str(rank) for rank in log.missing_ranks[:8])
        state = "" if not is_served else "complete" if log.sealed else f"ranks {missing} go on" if missing else "open"
    gap = f"; {log.gap_bytes} bytes in {log.gap_lines} lines were given up" if log.gap_bytes else ""
    return f"{name:<20} {log.lines:>10} lines {log.bytes:>12} bytes  {state}{gap}  {log.path}"


@command.command("flush")
@click.argument("spool", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--log-endpoint", metavar="HOST:PORT", required=True, help="The log server.")
@click.option("--limit", "limit_s", type=float, default=60.0, metavar="S", help="How long to try.")
def flush(spool: Path, log_endpoint: str, limit_s: float) -> None:
    """Send what is left in a node's spool, as after the launcher and its sender were killed."""
    launcher_settings.calm_grpc()
    from resurge_launcher.logs import shipper
    from resurge_launcher.logs import spool as spools
    from resurge_launcher.logs.backlog import SpoolRules
    from resurge_launcher.logs.route import Route

    notes = list(spools.notes(spool))
    if not notes:
        click.echo(f"{spool} holds no line that is not in its file.")
        return
    endpoint, token = _endpoint(log_endpoint), launcher_settings.environment().get("RESURGE_JOB_TOKEN", "")
    _check_token(endpoint, token)
    claimed = shipper.claim(spool)
    if claimed is None:
        raise CommandFailed(
            f"another process sends {spool} already; it is at work as long as its job, or its sender, lives"
        )
    sender = shipper.Shipper(spool, Route((), endpoint), notes[0].job, notes[0].node, token, SpoolRules())
    try:
        spools.end_unwritten(spool)
        code = sender.run(limit_s=limit_s, once=True)
    except OSError as error:
        raise CommandFailed(f"{spool} cannot be read and written: {error.strerror}") from None
    finally:
        os.close(claimed)
    left = len(list(spools.notes(spool)))
    click.echo(
        f"{len(notes) - left} of {len(notes)} sources are complete in their files"
        + (f", {left} are kept" if left else "")
        + (": all that they hold was sent, and a process has them open and may write on." if left and not code else ".")
    )
    if code:
        raise CommandFailed(f"not everything was taken within {limit_s:g} s; what is left is still in {spool}")


@command.command("merge")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Default: standard output.")
def merge(files: tuple[Path, ...], output: Path | None) -> None:
    """Put the lines of files that nodes appended to in order, rank by rank; within a rank they stay as they were."""
    of_rank: dict[int, list[bytes]] = {}
    for file in files:
        rank = -1  # lines without one come first
        for line in file.read_bytes().splitlines(keepends=True):
            found = re.match(rb" *(\d+): ", line)
            rank = int(found[1]) if found is not None else rank
            of_rank.setdefault(rank, []).append(line if line.endswith(b"\n") else line + b"\n")
    merged = b"".join(b"".join(of_rank[rank]) for rank in sorted(of_rank))
    if output is None:
        sys.stdout.buffer.write(merged)
        return
    try:
        output.write_bytes(merged)
    except OSError as error:
        raise CommandFailed(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"resurge: wrote {output}: {len(of_rank)} ranks", err=True)


# --- the log server ---


def _log_server(written: str | None, state_dir: str | None) -> Endpoint:
    if written is not None:
        return _endpoint(written)
    directory = _directory(state_dir)
    announced = directory / LOG_SERVER / CONTROL_NAME
    try:
        return values.endpoint(str(json.loads(announced.read_text(encoding="utf-8"))["endpoint"]))
    except (OSError, ValueError, KeyError, TypeError):
        right = log_files.where_to_look(directory)
        raise UsageProblem("--log-endpoint", f"is missing, and no log server serves {directory}", right) from None


def _without_server(state_dir: str | None, wanted: dict[str, Any]) -> CycleRecord | None:
    """The record of the cycle whose file is to be read itself; None where a log server is announced, or no file."""
    directory = _directory(state_dir)
    if _is_announced(directory):
        return None
    return log_files.record_with_file(directory, wanted["attempt"], wanted["cycle"])


def _directory(state_dir: str | None) -> Path:
    return Path(state_dir) if state_dir else newest_state_dir(launcher_settings.environment())


def _endpoint(written: str) -> Endpoint:
    try:
        return values.endpoint(written)
    except values.Wrong as wrong:
        raise UsageProblem("--log-endpoint", wrong.problem, wrong.right) from None


def _unary(endpoint: Endpoint, method: str, request: Any) -> Any:
    with _Calls(endpoint) as calls:
        return getattr(calls.stub, method)(request, timeout=10.0, metadata=calls.metadata)


def _stream(endpoint: Endpoint, request: logs_pb2.TailRequest) -> Any:
    with _Calls(endpoint) as calls:
        yield from calls.stub.Tail(request, metadata=calls.metadata)


def _check_token(endpoint: Endpoint, token: str) -> None:
    from resurge_libs.rpc.auth import TokenProblem, require_token

    try:
        require_token(endpoint, token)
    except TokenProblem as problem:
        raise UsageProblem("--log-endpoint", str(problem), "See RESURGE_JOB_TOKEN in the reference.") from None


class _Calls:
    """A channel to the log server whose refusals are sentences."""

    def __init__(self, endpoint: Endpoint) -> None:
        launcher_settings.calm_grpc()
        from resurge_api.logs.v1 import logs_pb2_grpc
        from resurge_libs.core.time_limits import TimeLimits
        from resurge_libs.rpc.channel import open_sync_channel
        from resurge_libs.rpc.context import call_metadata

        token = launcher_settings.environment().get("RESURGE_JOB_TOKEN", "")
        self._endpoint = endpoint
        _check_token(endpoint, token)
        self._channel = open_sync_channel(endpoint, TimeLimits(), token)
        self.metadata = call_metadata(token)
        self.stub = logs_pb2_grpc.LogAggregatorServiceStub(self._channel)

    def __enter__(self) -> _Calls:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        import grpc

        from resurge_libs.core.refusals import Overloaded, ReplyLost, Unready, Unsure
        from resurge_libs.rpc.errors import problem_of

        self._channel.close()
        if isinstance(error, grpc.RpcError):
            problem = problem_of(error)
            said = "did not answer" if isinstance(problem, ReplyLost) else "refused"
            may_answer = isinstance(problem, Unsure | Unready | Overloaded)
            failed = NoLogServer if may_answer else CommandFailed
            raise failed(f"the log server at {self._endpoint} {said}: {problem}") from None
