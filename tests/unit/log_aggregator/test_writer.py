"""The writer's threads: a block that is put is written at once, also while the other thread rests."""

from __future__ import annotations

import threading

from resurge_libs.testing import wait_until
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey
from resurge_log_aggregator.log_file import Entry, LogFile
from resurge_log_aggregator.writer import Writer, WriterRules

LIMIT_S = 5.0


def test_a_block_wakes_the_appender_also_where_the_syncer_has_rested_for_longer(tmp_path):
    key = SourceKey(LogKind.APPLICATION, 1, 0, 1, 0, "n0", 1)
    file, written = LogFile(tmp_path / "app_cycle0.log", "job", LogKey(LogKind.APPLICATION, 1, 0)), threading.Event()
    writer = Writer(WriterRules(), lambda *_told: written.set(), lambda: None)
    resting = threading.Thread(target=writer._rest, args=(LIMIT_S * 4,), daemon=True)
    resting.start()
    wait_until(lambda: len(writer._wake._waiters) == 1, LIMIT_S, "the rest")
    writer.start()
    writer.add_file(file)
    wait_until(lambda: len(writer._wake._waiters) == 2, LIMIT_S, "the appender, waiting")
    writer.put(file, [Entry(key, 1, BlockHead(0, 2, 2, 1), b"x\n", 0.0)])
    assert written.wait(LIMIT_S), "the block waits for the next one"
    assert writer.stop(LIMIT_S)
    resting.join(LIMIT_S)
    file.close()
