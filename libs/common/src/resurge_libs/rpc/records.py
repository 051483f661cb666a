"""The names of what a control plane keeps for others beside its journal; the records for people, and their readers.

`recoveries.jsonl`: one Recovery message per line, appended when a record is closed or amended; the last line of an
incident holds. A full file becomes `recoveries.jsonl.1`, and so on: far more records than the journal remembers.
`job.json`: the Job message as it last stood, replaced in one step. Copies for reading only: the journal decides.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.obs.generations import Generations

CLAIM_NAME = "control.lock"
"""Held, with the holder's pid in it, by whoever serves the directory, as long as it lives."""
CONTROL_NAME = "control.json"
"""Who serves here, and where."""
RECOVERIES_NAME = "recoveries.jsonl"
JOB_NAME = "job.json"
JOURNAL_NAME = "journal.sqlite"
"""What decides: the file that the engine keeps."""
CYCLES_NAME = "cycles"
"""Directory of the records of cycles, where none was named."""
MAX_LINE_BYTES = 16 * 1024 * 1024
RECOVERIES_BYTES_MAX = 3 * 1024 * 1024
RECOVERIES_OLDER_MAX = 3
"""Files of that size beside the present one: what they hold must outlast what the journal remembers, or the next start
would export it again."""


@dataclass(frozen=True, slots=True)
class ReadRecoveries:
    """Recovery records in the order of their incidents, and how many lines could not be read."""

    recoveries: tuple[rendezvous_pb2.Recovery, ...]
    unreadable_lines: int = 0


def append_recovery(state_dir: Path, recovery: rendezvous_pb2.Recovery) -> None:
    """Add one record. A single write, so that a reader sees a whole line or none; not synced: the journal is."""
    line = json_format.MessageToJson(recovery, indent=None, preserving_proto_field_name=True)
    _generations(state_dir).append(line.encode() + b"\n", 0o600)


def read_recoveries(state_dir: Path) -> ReadRecoveries:
    """All records, the newest version of each; lines cut off or not understood are counted, never guessed at."""
    newest: dict[str, rendezvous_pb2.Recovery] = {}
    unreadable = 0
    for line in _generations(state_dir).lines():
        try:
            found = json_format.Parse(line[:MAX_LINE_BYTES], rendezvous_pb2.Recovery(), ignore_unknown_fields=True)
        except (json_format.ParseError, UnicodeDecodeError):
            unreadable += 1
            continue
        newest[found.incident_id] = found
    return ReadRecoveries(tuple(newest.values()), unreadable)


def recorded_incidents(state_dir: Path) -> frozenset[str]:
    """The incidents that have a whole line; far cheaper than reading the records. Raises OSError."""
    found = set()
    for line in _generations(state_dir).lines():
        try:
            found.add(str(json.loads(line)["incident_id"]))
        except (ValueError, KeyError, TypeError):  # cut off, or not ours: as good as not there
            continue
    return frozenset(found)


def _generations(state_dir: Path) -> Generations:
    return Generations(state_dir / RECOVERIES_NAME, RECOVERIES_BYTES_MAX, RECOVERIES_OLDER_MAX)


def write_job(state_dir: Path, job: rendezvous_pb2.Job) -> None:
    """Replace the job's state as people see it, in one step."""
    # without indentation json has a fast encoder: ten thousand nodes in 0.2 s, not in 1
    text = json_format.MessageToJson(job, indent=None, preserving_proto_field_name=True)
    temporary = state_dir / f".{JOB_NAME}.{os.getpid()}"
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(state_dir / JOB_NAME)
    except OSError:
        with contextlib.suppress(OSError):  # half a copy helps nobody, and on a full disk it takes room
            temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class ReadJob:
    """The job as it last stood; None where that could not be read, and then what is wrong, beginning with the file."""

    job: rendezvous_pb2.Job | None
    problem: str = ""
    is_there: bool = True


def job_record(state_dir: Path) -> ReadJob:
    """The job as it last stood, or why it cannot be told."""
    path = state_dir / JOB_NAME
    try:
        text = path.read_text(encoding="utf-8")
        return ReadJob(json_format.Parse(text, rendezvous_pb2.Job(), ignore_unknown_fields=True))
    except FileNotFoundError:
        return ReadJob(None, f"{path} is not there", is_there=False)
    except OSError as error:
        return ReadJob(None, f"{path} cannot be read: {error.strerror}")
    except (json_format.ParseError, UnicodeDecodeError):
        return ReadJob(None, f"{path} is damaged: it holds no whole record of a job")


def read_job(state_dir: Path) -> rendezvous_pb2.Job | None:
    """The job as it last stood; None when none was written or it cannot be read."""
    return job_record(state_dir).job
