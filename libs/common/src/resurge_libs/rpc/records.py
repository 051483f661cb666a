"""Protobuf messages in files for people and tools: one JSON object per line, or one file replaced whole.

A control plane leaves two beside its journal: `recoveries.jsonl`, one Recovery per line, appended when a record is
closed or amended, the last line of an incident holding; and `job.json`, the Job as it last stood. Copies for reading
only: the journal decides. Uses files given by path; decides nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

RECOVERIES_NAME = "recoveries.jsonl"
JOB_NAME = "job.json"
MAX_LINE_BYTES = 16 * 1024 * 1024

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class ReadRecords(Generic[M]):
    """The records of a file in the order in which they were written, and how many lines could not be read."""

    records: tuple[M, ...]
    unreadable_lines: int = 0


def append_record(file: Path, message: Message) -> None:
    """Add one line. A single write, so that a reader sees a whole line or none; not synced: the journal is."""
    line = json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
    fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # the last writer died within its line
        os.write(fd, (b"\n" if is_cut_off else b"") + line.encode() + b"\n")
    finally:
        os.close(fd)


def read_records(file: Path, kind: type[M]) -> ReadRecords[M]:
    """All records; lines cut off or not understood are counted, never guessed at. A missing file holds none."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return ReadRecords(())
    records: list[M] = []
    unreadable = 0
    for line in filter(None, lines):
        try:
            records.append(json_format.Parse(line[:MAX_LINE_BYTES], kind(), ignore_unknown_fields=True))
        except (json_format.ParseError, UnicodeDecodeError):
            unreadable += 1
    return ReadRecords(tuple(records), unreadable)


def replace_record(file: Path, message: Message) -> None:
    """Replace the one record of a file, in one step."""
    text = json_format.MessageToJson(message, indent=1, preserving_proto_field_name=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(file)


def read_record(file: Path, kind: type[M]) -> M | None:
    """The one record of a file; None when it is missing or cannot be read."""
    try:
        return json_format.Parse(file.read_text(encoding="utf-8"), kind(), ignore_unknown_fields=True)
    except (FileNotFoundError, json_format.ParseError, UnicodeDecodeError):
        return None
