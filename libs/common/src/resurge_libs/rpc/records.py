"""The names of what a control plane keeps for others beside its journal; the records for people, and their readers.

`recoveries.jsonl`: one Recovery message per line, appended when a record is closed or amended; the last line of an
incident holds. `job.json`: the Job message as it last stood, replaced in one step. Copies for reading only: the
journal decides.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2

CLAIM_NAME = "control.lock"
"""Held, with the holder's pid in it, by whoever serves the directory, as long as it lives."""
CONTROL_NAME = "control.json"
"""Who serves here, and where."""
RECOVERIES_NAME = "recoveries.jsonl"
JOB_NAME = "job.json"
MAX_LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadRecoveries:
    """Recovery records in the order of their incidents, and how many lines could not be read."""

    recoveries: tuple[rendezvous_pb2.Recovery, ...]
    unreadable_lines: int = 0


def append_recovery(state_dir: Path, recovery: rendezvous_pb2.Recovery) -> None:
    """Add one record. A single write, so that a reader sees a whole line or none; not synced: the journal is."""
    line = json_format.MessageToJson(recovery, indent=None, preserving_proto_field_name=True)
    fd = os.open(state_dir / RECOVERIES_NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # the last writer died within its line
        os.write(fd, (b"\n" if is_cut_off else b"") + line.encode() + b"\n")
    finally:
        os.close(fd)


def read_recoveries(state_dir: Path) -> ReadRecoveries:
    """All records, the newest version of each; lines cut off or not understood are counted, never guessed at."""
    try:
        lines = (state_dir / RECOVERIES_NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return ReadRecoveries(())
    newest: dict[str, rendezvous_pb2.Recovery] = {}
    unreadable = 0
    for line in filter(None, lines):
        try:
            found = json_format.Parse(line[:MAX_LINE_BYTES], rendezvous_pb2.Recovery(), ignore_unknown_fields=True)
        except (json_format.ParseError, UnicodeDecodeError):
            unreadable += 1
            continue
        newest[found.incident_id] = found
    return ReadRecoveries(tuple(newest.values()), unreadable)


def write_job(state_dir: Path, job: rendezvous_pb2.Job) -> None:
    """Replace the job's state as people see it, in one step."""
    # without indentation json has a fast encoder: ten thousand nodes in 0.2 s, not in 1
    text = json_format.MessageToJson(job, indent=None, preserving_proto_field_name=True)
    temporary = state_dir / f".{JOB_NAME}.{os.getpid()}"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(state_dir / JOB_NAME)


def read_job(state_dir: Path) -> rendezvous_pb2.Job | None:
    """The job as it last stood; None when none was written or it cannot be read."""
    try:
        text = (state_dir / JOB_NAME).read_text(encoding="utf-8")
        return json_format.Parse(text, rendezvous_pb2.Job(), ignore_unknown_fields=True)
    except (FileNotFoundError, json_format.ParseError, UnicodeDecodeError):
        return None
