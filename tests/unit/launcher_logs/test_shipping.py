"""The launcher's keeper of the sender: a sender that cannot be started now is started later."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from types import SimpleNamespace

from resurge_launcher.core import happenings as h
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.effects import Effects
from resurge_launcher.logs import shipping, spool
from resurge_launcher.settings import LogPlan, LogWay
from resurge_libs.testing.wait import wait_until

FAILURES = 4
LIMIT_S = 20
SETTINGS = {"job_id": "job", "node_id": "n0", "environ": {}, "job_token": "", "control_environ": {}}


def shipping_of(tmp_path, **more) -> shipping.LogShipping:
    settings = SimpleNamespace(**SETTINGS, state_dir=tmp_path, config_path=None)
    plan = LogPlan(LogWay.DIRECT, tmp_path / "app.log", tmp_path / "spool", **more)
    return shipping.LogShipping(settings, plan, 1)


async def test_a_sender_that_cannot_be_started_is_tried_again_and_said_so_once(tmp_path, monkeypatch, capsys):
    tries = 0
    real = shipping.subprocess.Popen

    def popen(*words, **more):
        nonlocal tries
        tries += 1
        if tries <= FAILURES:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(*words, **more)

    monkeypatch.setattr(shipping.subprocess, "Popen", popen)
    monkeypatch.setattr(shipping, "AGAIN_S", 0.01)
    shipping_here = shipping_of(tmp_path)
    shipping_here.start()
    async with asyncio.timeout(20):
        await asyncio.to_thread(wait_until, lambda: shipping_here.pids, 20, "a sender")
        await shipping_here.stop()
    told = capsys.readouterr().err
    assert tries > FAILURES and told.count("sender_not_started") == 1 and "temporarily unavailable" in told
    assert not (tmp_path / "spool").exists(), "its log goes with the empty spool"


async def test_a_sender_that_ends_at_once_is_started_less_and_less_often(tmp_path, monkeypatch):
    started: list[float] = []
    real = shipping.subprocess.Popen

    def popen(_words, **more):
        started.append(time.monotonic())
        return real(["false"], **more)

    monkeypatch.setattr(shipping.subprocess, "Popen", popen)
    monkeypatch.setattr(shipping, "AGAIN_S", 0.05)
    here = shipping_of(tmp_path, stop_limit_s=0.0)
    here.start()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.to_thread(wait_until, lambda: len(started) >= 5, LIMIT_S, "five senders")
        await here.stop()
    assert started[4] - started[3] >= 0.4


async def test_the_launchers_own_lines_wait_for_a_disk_that_hangs_and_the_launcher_does_not(tmp_path, monkeypatch):
    answers, opened_by = threading.Event(), []
    real = spool.open_for_worker

    def hanging(*words):
        opened_by.append(threading.current_thread())
        answers.wait(LIMIT_S)
        return real(*words)

    monkeypatch.setattr(spool, "open_for_worker", hanging)
    here = shipping_of(tmp_path, launcher_log=tmp_path / "launcher.log")
    copy = here.own_log()
    for number in range(1_000):
        copy.write(f"line {number}\n")
    answers.set()
    async with asyncio.timeout(LIMIT_S):
        await here._desk.ask(here._end_all, LIMIT_S)
    copy.write("after the end\n")
    await here._desk.ask(lambda: None, LIMIT_S)
    assert threading.main_thread() not in opened_by and len(opened_by) == 1
    written = (tmp_path / "spool" / "launcher-i1.out").read_text()
    assert written == "".join(f"line {number}\n" for number in range(1_000))
    assert spool.has_ended(tmp_path / "spool", next(spool.notes(tmp_path / "spool")))


async def test_own_lines_get_a_file_once_the_spool_can_be_written(tmp_path, capsys):
    (tmp_path / "spool").write_text("no folder")
    here = shipping_of(tmp_path, launcher_log=tmp_path / "launcher.log")
    copy = here.own_log()
    copy.write("first\n")
    async with asyncio.timeout(LIMIT_S):
        await here._desk.ask(lambda: None, LIMIT_S)
        (tmp_path / "spool").unlink()
        copy.write("second\n")
        await here._desk.ask(lambda: None, LIMIT_S)
    assert (tmp_path / "spool" / "launcher-i1.out").read_text() == "first\nsecond\n"
    assert "spool_not_written" in capsys.readouterr().err


async def test_a_start_that_is_called_off_leaves_no_source_without_an_end(tmp_path):
    here = shipping_of(tmp_path)
    prepared: asyncio.Future = asyncio.get_running_loop().create_future()
    posted = []
    hands = SimpleNamespace(
        shop=SimpleNamespace(logs=here, facts=SimpleNamespace(local_world_size=2)),
        files=SimpleNamespace(prepare=lambda run, then: prepared.set_result(then)),
        strays=SimpleNamespace(leave_to_others=lambda spared: None),
        warm=None,
        post=posted.append,
    )
    effects = Effects(hands)
    effects.run(h.SpawnWorkers(RunGoal(3, 1, 0, 0, 1, 0, 2, "localhost", 1)))
    async with asyncio.timeout(LIMIT_S):
        then = await prepared
        effects.run(h.SignalWorkers(3, 15))
        assert isinstance(posted[-1], h.SpawnFailed)
        of_next = here._places._unused[(4, 0)] = os.dup(1)
        then(SimpleNamespace(close=lambda: None))
        assert here._places._unused == {(4, 0): of_next}, "the next start's places are not its own"
        here.started()
        await here._desk.ask(lambda: None, LIMIT_S)
    found = list(spool.notes(tmp_path / "spool"))
    assert [note.rank for note in found] == [0, 1]
    assert all(spool.has_ended(tmp_path / "spool", note) for note in found)
