"""Each statement about watchdogs and crashes has a test that names it."""

import re
from pathlib import Path

import pytest

WORKER_SDK_TESTS = (Path(__file__).parent, Path(__file__).parents[2] / "integration" / "worker_sdk")


def named():
    texts = [path.read_text(encoding="utf-8") for folder in WORKER_SDK_TESTS for path in folder.glob("test_*.py")]
    names = re.findall(r"^(?:async )?def test_((?:[RK]\d+_)+)", "\n".join(texts), re.MULTILINE)
    return {statement for name in names for statement in name.split("_") if statement}


@pytest.mark.parametrize(("kind", "last"), [("R", 54), ("K", 25)])
def test_every_statement_is_named_by_a_test(kind, last):
    assert [f"{kind}{n}" for n in range(1, last + 1) if f"{kind}{n}" not in named()] == []
