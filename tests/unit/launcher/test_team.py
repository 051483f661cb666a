"""What a worker leaves in its error file, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resurge_launcher.team import ERROR_LINES, LINE_LIMIT_CHARACTERS, read_error

TRACE = "Traceback\n  line 3\nValueError: bad"
TORCH = {"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": TRACE}}}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (json.dumps(TORCH), TRACE),
        (json.dumps({"message": {"message": "short", "extraInfo": {}}}), "short"),
        (json.dumps({"message": "plain"}), "plain"),
        ("no json at all", "no json at all"),
        ("", ""),
        ("[" * 50_000, "[" * LINE_LIMIT_CHARACTERS),
        (json.dumps({"message": "x" * 50_000}), "x" * LINE_LIMIT_CHARACTERS),
    ],
)
def test_error_files_of_all_kinds(tmp_path: Path, content: str, shown: str):
    (tmp_path / "error.json").write_text(content)
    assert read_error(tmp_path / "error.json") == shown


def test_a_missing_file_says_nothing(tmp_path: Path):
    assert read_error(tmp_path / "error.json") == ""


def test_a_long_trace_keeps_its_end(tmp_path: Path):
    (tmp_path / "error.json").write_text("\n".join(f"line {i}" for i in range(1000)))
    lines = read_error(tmp_path / "error.json").splitlines()
    assert len(lines) == ERROR_LINES and lines[-1] == "line 999"
