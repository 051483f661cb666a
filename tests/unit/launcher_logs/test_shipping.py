"""The launcher's keeper of the sender: a sender that cannot be started now is started later."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from resurge_launcher.logs import shipping
from resurge_launcher.settings import LogPlan, LogWay
from resurge_libs.testing.wait import wait_until

FAILURES = 4


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
    settings = SimpleNamespace(
        job_id="job", node_id="n0", environ={}, job_token="", state_dir=tmp_path, control_environ={}, config_path=None
    )
    shipping_here = shipping.LogShipping(settings, LogPlan(LogWay.DIRECT, tmp_path / "app.log", tmp_path / "spool"), 1)
    shipping_here.start()
    async with asyncio.timeout(20):
        await asyncio.to_thread(wait_until, lambda: shipping_here.pids, 20, "a sender")
        await shipping_here.stop()
    told = capsys.readouterr().err
    assert tries > FAILURES and told.count("sender_not_started") == 1 and "temporarily unavailable" in told
    assert not (tmp_path / "spool").exists(), "its log goes with the empty spool"
