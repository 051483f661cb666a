"""What a control plane wrote into its log that people at the launcher must know too. Reads; decides nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

LAST_WORDS_BYTES = 16 * 1024
"""Of the log's end, in which its last line is looked for."""
FIRST_WORDS_BYTES = 64 * 1024
"""Of what one wrote since its start, in which the word of a damaged journal is looked for."""
DAMAGED = "journal_damaged"
_SENTENCE = re.compile(rf' {DAMAGED} (?:\S+ )*?sentence=("(?:[^"\\]|\\.)*")')
FORGOTTEN = "Whatever was decided after that entry is forgotten, among it restarts that were charged to the budget."


def last_words(path: Path) -> str:
    """The last line of the log; empty where there is none."""
    lines = _read(path, None, LAST_WORDS_BYTES).splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")


def journal_damage(path: Path, since: int) -> str:
    """What the log says since that byte of a damaged journal: what is lost, and where it was kept; empty if nothing."""
    for line in _read(path, since, FIRST_WORDS_BYTES).splitlines():
        if DAMAGED in line and (sentence := _sentence(line)):
            return f"{sentence}. {FORGOTTEN}"
    return ""


def _sentence(line: str) -> str:
    found = _SENTENCE.search(line)
    try:
        if found is not None:
            return str(json.loads(found[1]))
        told = json.loads(line)  # a log of JSON lines
        return str(told["sentence"]) if told["event"] == DAMAGED else ""
    except (ValueError, KeyError, TypeError):  # the words were another line's
        return ""


def _read(path: Path, since: int | None, limit: int) -> str:
    """So many bytes from there on, or of the end; nothing where the log cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit) if since is None else since)
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""
