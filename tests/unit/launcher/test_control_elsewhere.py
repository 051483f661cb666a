"""A launcher that meets a control plane which is not of its own state directory uses it, and says so."""

from __future__ import annotations

import asyncio
import io
import socket
from pathlib import Path

from resurge_launcher.control_plane import ControlPlan, ControlPlane
from resurge_libs.obs import log
from resurge_libs.rpc.endpoint import Endpoint


def test_a_state_directory_that_is_not_used_is_named(tmp_path: Path):
    path, said, calls = str(tmp_path / "c.sock"), io.StringIO(), []
    log.configure(stream=said)

    async def meet() -> None:
        plan = ControlPlan("job", Endpoint(path=path), tmp_path / "mine", {})
        plane = ControlPlane(plan, lambda: calls.append("answered"), calls.append)
        await asyncio.wait_for(plane.start(), 20)
        assert plane.pids == set(), "no second one is started"
        await plane.stop(end_it=False)

    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen()
            asyncio.run(meet())
    finally:
        log.configure()
    assert calls == ["answered"]
    assert f"started elsewhere: nothing is kept in {tmp_path / 'mine'}" in said.getvalue()
