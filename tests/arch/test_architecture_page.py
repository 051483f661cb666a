"""Holds ARCHITECTURE.md against the code: its table of time limits, its rooms, its length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from resurge_libs.core.time_limits import TimeLimits

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
LONGEST_PAGE_LINES = 250


def limit_rows(text: str) -> list[tuple[str, float, str, str]]:
    """The rows of the page's table of time limits: name, seconds, derived from, bounds."""
    rows = re.findall(r"^\| `(\w+_s)` \| ([\d.e+-]+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return [(name, float(value), derived, bounds) for name, value, derived, bounds in rows]


@pytest.mark.users_row(29)
def test_the_table_of_time_limits_is_the_code_s() -> None:
    code = [(row.name, row.value_s, row.derived_from, row.bounds) for row in TimeLimits().table()]
    assert limit_rows(PAGE.read_text()) == code


def test_a_changed_value_would_be_seen() -> None:
    changed = PAGE.read_text().replace("| `lease_ttl_s` | 5 |", "| `lease_ttl_s` | 6 |")
    code = [(row.name, row.value_s, row.derived_from, row.bounds) for row in TimeLimits().table()]
    assert limit_rows(changed) != code


@pytest.mark.parametrize("room", [path.name for path in sorted((ROOT / "services").iterdir()) if path.is_dir()])
def test_every_room_stands_on_the_page(room: str) -> None:
    assert f"`services/{room}`" in PAGE.read_text()


def test_the_page_stays_short() -> None:
    assert len(PAGE.read_text().splitlines()) <= LONGEST_PAGE_LINES
