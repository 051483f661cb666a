"""When a sender sends: a few lines wait for others as long as they are told, last words and full blocks never."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher.logs import shipper as shipper_module
from resurge_launcher.logs import spool
from resurge_launcher.logs.backlog import BLOCK_BYTES, SpoolRules
from resurge_launcher.logs.gathering import GATHER_MAX_S, Gathering
from resurge_launcher.logs.route import Route
from resurge_launcher.logs.shipper import Shipper
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.rpc.endpoint import parse_endpoint

NOTE = SpoolNote("job", "n0", 1, 1, 0, 0, 1, incarnation=7)
GATHER_S = 0.4


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Sending:
    """A sender whose one source is answered, and that was told to gather."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock = folder, clock
        self.out = spool.open_for_worker(folder, NOTE)
        self.shipper = Shipper(folder, Route((), parse_endpoint("127.0.0.1:1")), "job", "n0", "", SpoolRules())
        opened = self.shipper._next_request()
        assert opened is not None
        told = logs_pb2.PushResponse(acks=[logs_pb2.SourceAck(number=opened.open[0].number, next=0)])
        told.gather.FromNanoseconds(round(GATHER_S * 1e9))
        self.shipper._heard(told)

    def printed(self, text: bytes, at_once: bool = False) -> bytes | None:
        """What goes once a worker has printed this; None where it waits."""
        os.write(self.out, text)
        request = self.shipper._next_request(at_once)
        return None if request is None else b"".join(block.text for block in request.blocks)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shipper_module.time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def sending(tmp_path: Path, clock: Clock):
    sending = Sending(tmp_path, clock)
    yield sending
    os.close(sending.out)


def test_the_first_line_goes_at_once_and_those_after_it_together(sending: Sending, clock: Clock):
    assert sending.printed(b"one\n") == b"0: one\n"
    assert sending.printed(b"two\n") is None
    clock.now += GATHER_S - 0.01
    assert sending.printed(b"three\n") is None
    clock.now += 0.02
    assert sending.printed(b"four\n") == b"0: two\n0: three\n0: four\n"
    clock.now += GATHER_S
    assert sending.printed(b"after a pause\n") == b"0: after a pause\n"


def test_last_words_do_not_wait(sending: Sending):
    assert sending.printed(b"one\n") is not None
    assert sending.printed(b"somebody is dying\n", at_once=True) == b"0: somebody is dying\n"
    assert sending.printed(b"more\n") is None
    spool.end(sending.folder, NOTE)
    assert sending.printed(b"no line end") == b"0: more\n0: no line end\n"


def test_a_full_block_does_not_wait(sending: Sending):
    assert sending.printed(b"one\n") is not None
    assert sending.printed(b"x" * 1_000 + b"\n") is None
    assert sending.printed((b"x" * 999 + b"\n") * (BLOCK_BYTES // 1_000 + 1)) is not None


def test_a_new_stream_begins_at_its_own_pace_and_no_log_server_makes_a_line_wait_for_long():
    gathering = Gathering()
    gathering.sent(1.0)
    assert gathering.wait_s(1.0, 10) == 0, "until it has been told"
    gathering.told(60.0)
    assert gathering.wait_s(1.0, 10) == GATHER_MAX_S
    gathering.told(-1.0)
    assert gathering.wait_s(1.0, 10) == 0
