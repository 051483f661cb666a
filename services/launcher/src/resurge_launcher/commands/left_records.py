"""The job as a state directory tells it without a control plane: `job.json`, and the journal where that may know more.

`job.json` is a copy for people, and a disk without room may have kept an old one; the journal decides. It is read by a
process of the control plane's own program, which alone knows what its facts mean. Says which of the two was used where
they differ. Writes nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.usage import CommandFailed
from resurge_libs.rpc.records import (
    JOB_NAME,
    JOURNAL_NAME,
    RECOVERIES_NAME,
    ReadJob,
    job_record,
    read_recoveries,
)

READER = "resurge_rendezvous.left_behind"
READ_LIMIT_S = 30.0

Say = Callable[[str], None]


def job_in(directory: Path, say: Say) -> rendezvous_pb2.Job:
    """The job as the directory's records left it. Raises CommandFailed, which says what is missing or damaged."""
    told = job_record(directory)
    if told.job is not None and told.job.HasField("decision") and not _is_older(directory):
        return told.job
    if not (directory / JOURNAL_NAME).exists():
        if told.job is None:
            raise CommandFailed(_nothing(directory, told))
        return told.job
    kept, problem = _journaled(directory)
    if kept is None:
        if told.job is None:
            raise CommandFailed(f"{told.problem}; {problem}")
        say(f"{problem}; shown from {directory / JOB_NAME}")
        return told.job
    if problem:
        say(problem)
    if told.job is not None and _standing(told.job) == _standing(kept):
        return told.job  # the same, and it knows what the nodes did last
    why = told.problem or f"{directory / JOB_NAME} is older than the journal"
    say(f"{why}; shown from the journal {directory / JOURNAL_NAME}")
    return kept


def refuse_to_deny(directory: Path, say: Say) -> None:
    """Raises CommandFailed where no record of a recovery was found, and yet it may not be said that there was none."""
    job, lines = job_in(directory, say), read_recoveries(directory).unreadable_lines
    path = directory / RECOVERIES_NAME
    if job.recoveries_closed:
        what = "recovery" if job.recoveries_closed == 1 else "recoveries"
        raise CommandFailed(f"the job had {job.recoveries_closed} {what}, and {path} holds no record that can be read")
    if lines:
        raise CommandFailed(f"none of the {lines} lines of {path} can be read: what had to be restarted is not known")
    if job.incident_id:
        raise CommandFailed(f"no recovery was completed: incident {job.incident_id} was open when this was recorded")


def _nothing(directory: Path, told: ReadJob) -> str:
    return told.problem if told.is_there else f"{directory} holds no record of a job ({JOB_NAME})"


def _is_older(directory: Path) -> bool:
    """Whether the journal was written to after `job.json`: a next attempt may have begun. An end is written last."""
    written_ns = (directory / JOB_NAME).stat().st_mtime_ns
    for name in (JOURNAL_NAME, f"{JOURNAL_NAME}-wal"):
        try:
            if (directory / name).stat().st_mtime_ns > written_ns:
                return True
        except OSError:
            continue
    return False


def _standing(job: rendezvous_pb2.Job) -> tuple[object, ...]:
    """What both tell, whoever listened."""
    end = job.decision.SerializeToString(deterministic=True) if job.HasField("decision") else None
    return job.token.attempt, job.token.generation, end, job.restarts_spent, job.recoveries_closed


def _journaled(directory: Path) -> tuple[rendezvous_pb2.Job | None, str]:
    """The job that the journal holds, and what is wrong with it."""
    words = [sys.executable, "-P", "-m", READER, str(directory)]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READ_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"the journal in {directory} could not be read within {READ_LIMIT_S:.0f} s"
    last = (done.stderr.strip().splitlines() or [f"the reader of {directory / JOURNAL_NAME} said nothing"])[-1]
    if done.returncode != 0:
        return None, last
    try:
        return json_format.Parse(done.stdout, rendezvous_pb2.Job(), ignore_unknown_fields=True), done.stderr.strip()
    except json_format.ParseError:
        return None, f"the reader of {directory / JOURNAL_NAME} answered in words of another release"
