"""Writing that nobody waits for: newest only, bounded, said once, and no matter how a place hangs."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_libs.obs import background, log
from resurge_libs.obs.background import MAX_WAITING, BackgroundWriter, Outage
from resurge_libs.testing import wait_until


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


@pytest.fixture
def outage() -> Outage:
    return Outage("the report", Path("/somewhere/report.json"), "Make room.")


def test_newer_work_replaces_what_was_not_begun(outage: Outage):
    held, done = threading.Event(), []
    writer = BackgroundWriter("test", outage)
    writer.put("first", lambda: held.wait(5) and None)
    for number in range(100):
        writer.put("job", lambda number=number: done.append(number))
    held.set()
    assert writer.close(5)
    assert done in ([99], [0, 99])


def test_a_place_that_fails_is_said_once_with_path_and_remedy_and_once_when_it_is_back(
    outage: Outage, said: io.StringIO
):
    broken = True

    def work() -> None:
        if broken:
            raise OSError(28, "No space left on device")
        outage.written()

    writer = BackgroundWriter("test", outage)
    for number in range(20):
        writer.put(str(number), work)
    wait_until(lambda: writer.is_idle)
    broken = False
    writer.put("again", work)
    assert writer.close(5)
    lines = [line for line in said.getvalue().splitlines() if "record_not_written" in line]
    assert len(lines) == 1
    assert all(word in lines[0] for word in ("/somewhere/report.json", "No space left on device", "Make room."))
    assert said.getvalue().count("record_written_again") == 1 and "lost=20" in said.getvalue()


def test_work_that_raises_anything_does_not_end_the_thread(outage: Outage, said: io.StringIO):
    done = threading.Event()
    writer = BackgroundWriter("test", outage)
    writer.put("bad", lambda: 1 // 0 and None)
    writer.put("good", done.set)
    assert done.wait(5) and writer.close(5)
    assert "ZeroDivisionError" in said.getvalue()


def test_a_place_that_hangs_holds_nobody_up_and_is_said_once(
    outage: Outage, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(background, "STALL_LIMIT_S", 0.01)
    for_ever = threading.Event()
    writer = BackgroundWriter("test", outage)
    began = time.monotonic()
    writer.put("hangs", lambda: for_ever.wait() and None)
    wait_until(lambda: writer._busy_since is not None and time.monotonic() - writer._busy_since > 0.02)
    for number in range(2 * MAX_WAITING):
        writer.put(str(number), lambda: None)
    assert len(writer._waiting) <= MAX_WAITING
    assert not writer.close(0.05)
    assert time.monotonic() - began < 5
    assert said.getvalue().count("record_not_written") == 1 and "no answer for" in said.getvalue()
    for_ever.set()


def test_urgent_work_comes_first_and_waits_for_no_share(outage: Outage):
    held, done = threading.Event(), []
    writer = BackgroundWriter("test", outage, share=0.05)
    writer.put("first", lambda: held.wait(5) and None)
    writer.put("slow", lambda: done.append("slow"))
    writer.put("now", lambda: done.append("now"), urgent=True)
    held.set()
    assert writer.close(5)
    assert done == ["now", "slow"]
