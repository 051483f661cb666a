"""Which sources a sender opens: all that are written now, and of what has ended the oldest, a few hundred at a time."""

from __future__ import annotations

import os
from pathlib import Path

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher.logs import spool
from resurge_launcher.logs.backlog import SpoolRules
from resurge_launcher.logs.route import Route
from resurge_launcher.logs.shipper import ENDED_OPEN_MAX, Shipper
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.rpc.endpoint import parse_endpoint

CYCLES = ENDED_OPEN_MAX + 44


def test_a_backlog_is_opened_from_its_oldest_on_and_the_living_at_once(tmp_path: Path):
    for cycle in range(CYCLES + 1):
        note = SpoolNote("job", "n0", 1, cycle + 1, cycle, 0, 1, incarnation=7)
        os.close(spool.open_for_worker(tmp_path, note))
        if cycle < CYCLES:
            spool.end(tmp_path, note)
    route = Route((), parse_endpoint("127.0.0.1:1"))
    shipper = Shipper(tmp_path, route, "job", "n0", "", SpoolRules())
    first = shipper._next_request()
    cycles = [opened.source.cycle for opened in first.open]
    assert cycles == [CYCLES, *range(ENDED_OPEN_MAX)]
    assert shipper._next_request() is None, "no more before some of them are over"
    over = [logs_pb2.SourceAck(number=opened.number, ended=True) for opened in first.open[1:41]]
    shipper._heard(logs_pb2.PushResponse(acks=over))
    more = shipper._next_request()
    assert [opened.source.cycle for opened in more.open] == list(range(ENDED_OPEN_MAX, ENDED_OPEN_MAX + 40))
