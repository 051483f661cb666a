"""Every lesson of users has its test, or the part that will have it; and the tests name their rows."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from functools import cache
from typing import Any

import pytest

from tests.arch import repo

PAGE = "tests/users_rows.toml"
COUNT = 73
OWNERS = {"attribution", "deployment", "gpu_health", "log_aggregator", "operations", "watchdogs"}
FIELDS = {"number", "place", "lesson", "tests", "owner", "differs"}
FEATURES_NOT_BUILT_HERE = {23, 57, 60, 61, 64, 65, 66}
"""Rows about devices and classes of failure; every other row is about what exists, and has a test."""


@cache
def rows() -> tuple[dict[str, Any], ...]:
    return tuple(tomllib.loads(repo.text(PAGE))["row"])


def named() -> dict[str, set[int]]:
    """Test -> the rows that it holds."""
    found: dict[str, set[int]] = {}
    for row in rows():
        for test in row.get("tests", []):
            found.setdefault(test, set()).add(row["number"])
    return found


def test_every_row_stands_there_once_and_says_what_it_is():
    assert [row["number"] for row in rows()] == list(range(1, COUNT + 1))
    for row in rows():
        assert set(row) <= FIELDS, row
        assert row["place"] and len(row["lesson"].split()) >= 4 and "\n" not in row["lesson"], row
        assert row.get("owner") in {None, *OWNERS}, row
        assert row.get("tests") or row.get("owner"), f"row {row['number']} has no test and no owner"


def test_every_row_about_what_is_built_has_a_test():
    assert {row["number"] for row in rows() if not row.get("tests")} == FEATURES_NOT_BUILT_HERE


def test_the_tests_name_their_rows_and_no_others():
    marked = {}
    for name in repo.test_python():
        if "users_row" in repo.text(name):
            marked |= marks(name, repo.text(name))
    assert marked == named()


def test_pages_that_a_difference_names_exist():
    words = [word.strip(".,;:()") for row in rows() for word in row.get("differs", "").split()]
    assert [word for word in words if word.startswith("docs/") and word not in repo.files()] == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_every_named_test_is_collected():
    files = sorted({test.partition("::")[0] for test in named()})
    # importing torch for a list of names costs more than the rest of this layer; those files collect themselves
    quick = [file for file in files if "importorskip" not in repo.text(file)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *quick]
    listed = subprocess.run(command, cwd=repo.ROOT, capture_output=True, text=True, timeout=190, check=False).stdout
    collected = {line.partition("[")[0] for line in listed.splitlines() if "::" in line}
    missing = [test for test in named() if test.partition("::")[0] in quick and test not in collected]
    assert quick and missing == [], listed[-2000:]


def marks(name: str, source: str) -> dict[str, set[int]]:
    """The rows that each test of a file is marked with."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = {number for decorator in node.decorator_list for number in _row(decorator)}
            if numbers:
                found[f"{name}::{node.name}"] = numbers
    return found


def _row(decorator: ast.expr) -> list[int]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.users_row":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def test_marks_are_read_as_pytest_reads_them():
    source = "@pytest.mark.users_row(3)\n@pytest.mark.slow\n@pytest.mark.users_row(4)\nasync def test_a(): ...\n"
    assert marks("tests/x.py", source) == {"tests/x.py::test_a": {3, 4}}
