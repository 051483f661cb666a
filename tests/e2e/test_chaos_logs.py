"""The short form of `make chaos-logs`, and that its judges see what they are there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.endurance import chaos_logs
from tests.endurance.log_job import audit

KILLS = 8


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kills_at_any_moment_lose_no_line_and_double_none(tmp_path: Path):
    tally = chaos_logs.Tally()
    chaos_logs.play_gap(tmp_path / "gap", 1, tally)
    chaos_logs.play_one(tmp_path / "job", 1, KILLS, tally)
    assert tally.findings == []
    assert tally.all_kills >= KILLS and tally.gaps_named > 0 and tally.lines > 1_000 and tally.acked_lines > 1_000


def worker(tmp_path: Path, pid: int, written: int, text: bytes) -> None:
    (tmp_path / f"written-{pid}").write_bytes(written.to_bytes(8, "little"))
    (tmp_path / f"app_cycle{pid % 10}.log").write_bytes(text)


def test_a_lost_a_doubled_and_a_turned_line_are_found(tmp_path: Path):
    whole = b"0: line 10 0\n0: line 10 1\n"
    worker(tmp_path, 10, 2, whole + b"0: line 10 2\n1: something else\n")  # one more than the page says is no fault
    assert (audit(tmp_path, tmp_path).written_lost, audit(tmp_path, tmp_path).doubled) == ([], [])
    worker(tmp_path, 11, 3, b"0: line 11 0\n0: line 11 2\n")
    worker(tmp_path, 12, 2, b"0: line 12 0\n0: line 12 0\n0: line 12 1\n0: line 12 1\n")
    worker(tmp_path, 13, 3, b"0: line 13 0\n0: line 13 2\n0: line 13 1\n")
    worker(tmp_path, 14, 1, b"0: line 14 0\n0: line 13 3\n")
    found = audit(tmp_path, tmp_path)
    assert [sentence.partition(":")[0] for sentence in found.written_lost] == ["pid 11"]
    assert {sentence[:6] for sentence in found.doubled} == {"pid 12", "pid 13"}
    assert any("several cycles" in sentence for sentence in found.doubled)


def test_a_gap_with_the_wrong_count_is_found():
    wrote = [b"0: a", b"0: b", b"0: c"]
    gap = b"0: [resurge: 8 bytes in %d lines are missing here: the spool was full]"
    for got, wrong in (
        ([gap % 2, b"0: c"], False),
        ([gap % 1, b"0: c"], True),
        ([b"0: a", b"0: c"], True),
        ([b"0: a", b"0: b"], True),
    ):
        tally = chaos_logs.Tally()
        chaos_logs._judge_gaps(got, wrote, tally)
        assert bool(tally.gaps_wrong) == wrong, got
