"""The state directory stays small however many incidents there were: the short form of `make bench-journal`."""

import pytest

from resurge_libs.engine import sqlite_file
from resurge_libs.obs import sinks
from resurge_libs.rpc import records
from resurge_rendezvous.core import remembered
from tests.bench import journal_size

INCIDENTS = 300
KIB = 1024


@pytest.fixture
def small(monkeypatch):
    """Every bound at a thirtieth, so that three hundred incidents are as many as ten thousand."""
    monkeypatch.setattr(sqlite_file, "ENTRIES_KEPT", 60)
    monkeypatch.setattr(remembered, "RECORDS_MAX", 20)
    monkeypatch.setattr(remembered, "CHARGES_MAX", 20)
    monkeypatch.setattr(journal_size, "SNAPSHOT_EVERY", 50)
    monkeypatch.setattr(records, "RECOVERIES_BYTES_MAX", 130 * KIB)
    monkeypatch.setattr(sinks, "SPANS_BYTES_MAX", 130 * KIB)
    monkeypatch.setattr(journal_size, "LOG_BYTES_MAX", 60 * KIB)


def test_three_hundred_incidents_leave_a_small_and_flat_directory_that_is_soon_taken_up(tmp_path, small):
    result = journal_size.weigh(tmp_path, INCIDENTS, said=lambda *_, **__: None)
    missed = [what for met, what in journal_size.targets(result) if not met]
    assert not missed
    assert result.total_mib < 3.0
    assert result.records_remembered == 20 < result.records_readable < INCIDENTS == result.records_closed
    said = "".join(path.read_text() for path in sorted(tmp_path.glob(f"{journal_size.LOG_NAME}*")))
    assert "lines_rotated_away" in said
