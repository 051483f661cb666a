"""The launcher that keeps log server and leaves ends them when every rank's lines are there, or its time is up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import grpc.aio
import pytest

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_launcher.logs import servers
from resurge_launcher.settings import LogPlan, LogWay
from resurge_libs.rpc.endpoint import parse_endpoint

LIMIT_S = 20.0


class Root(logs_pb2_grpc.LogAggregatorServiceServicer):
    """A log server whose file is complete once `sealed` is set; `has_file`: whether anybody printed at all."""

    def __init__(self, has_file: bool = True) -> None:
        self.has_file, self.sealed, self.is_waited_for = has_file, asyncio.Event(), asyncio.Event()

    async def GetLog(self, request, context):
        if not self.has_file:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such log is here")
        if request.wait:
            self.is_waited_for.set()
            await self.sealed.wait()
        return logs_pb2.GetLogResponse(log=logs_pb2.Log(sealed=self.sealed.is_set()))


class Kept:
    """A server that is kept alive; notes when it is told to end."""

    def __init__(self, plan, *_more) -> None:
        self.plan = plan
        ended.append(self)
        self.is_told = False

    async def stop(self, end_it: bool, limit_s: float) -> bool:
        self.is_told = True
        return True


ended: list[Kept] = []


@pytest.fixture
async def root(tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "ControlPlane", Kept)
    ended.clear()
    server, answers = grpc.aio.server(), Root()
    logs_pb2_grpc.add_LogAggregatorServiceServicer_to_server(answers, server)
    answers.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield answers
    await server.stop(0)


def servers_of(root: Root, tmp_path, **more) -> servers.LogServers:
    settings = SimpleNamespace(
        job_id="job", node_id="n0", job_token="", state_dir=tmp_path, control_environ={}, config_path=None
    )
    end, leaf = parse_endpoint(f"127.0.0.1:{root.port}"), parse_endpoint("127.0.0.1:1")
    plan = LogPlan(LogWay.SERVER, tmp_path / "app.log", tmp_path / "spool", None, end, (leaf,), serve_here=True, **more)
    return servers.LogServers(settings, plan)


async def test_neither_leaves_nor_root_are_told_to_end_before_every_rank_is_in_the_file(root, tmp_path):
    stopping = asyncio.create_task(servers_of(root, tmp_path).stop(LIMIT_S))
    async with asyncio.timeout(LIMIT_S):
        await root.is_waited_for.wait()
        assert len(ended) == 2 and not any(one.is_told for one in ended)
        root.sealed.set()
        assert await stopping
    assert all(one.is_told for one in ended)


def test_what_servers_say_goes_where_it_was_asked_for(root, tmp_path):
    servers_of(root, tmp_path)
    names = ["log-server/control-plane.log", "log-leaf-0/control-plane.log"]
    assert [one.plan.log_path for one in ended] == [tmp_path / name for name in names]
    ended.clear()
    servers_of(root, tmp_path, servers_log_prefix=tmp_path / "grpc.v1")
    assert [one.plan.log_path.name for one in ended] == ["grpc.v1_root.log", "grpc.v1_leaf_0.log"]


async def test_ranks_that_never_come_are_waited_for_up_to_the_limit(root, tmp_path):
    loop = asyncio.get_running_loop()
    began = loop.time()
    await servers_of(root, tmp_path).stop(0.3)
    assert root.is_waited_for.is_set() and all(one.is_told for one in ended)
    assert 0.3 <= loop.time() - began < LIMIT_S


@pytest.mark.parametrize("why", ["nobody printed", "own lines cannot come"])
async def test_nothing_is_waited_for_where_nothing_can_come(root, tmp_path, why):
    root.has_file = why != "nobody printed"
    async with asyncio.timeout(LIMIT_S):
        await servers_of(root, tmp_path).stop(10 * LIMIT_S, waits=why == "nobody printed")
    assert not root.is_waited_for.is_set() and all(one.is_told for one in ended)
