"""Clients of NVIDIA's extension send their lines to the real log server, over their own contract."""

from __future__ import annotations

import time

import grpc
import pytest

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.core.refusals import BadRequest, Unauthenticated
from resurge_libs.rpc.errors import problem_of
from tests.endurance.job import free_port
from tests.fakes.host import HostProcess

LIMIT_S = 20.0


def served(tmp_path, *more: str, **also) -> HostProcess:
    words = ("--applog-prefix", str(tmp_path / "logs" / "app.log"), "--sync-interval-s", "0.1", *more)
    return HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=words, **also)


def send(host: HostProcess, *chunks: tuple[str, bytes, object]) -> pb.StreamResponse:
    with grpc.insecure_channel(host.endpoint) as channel:
        stub = log_aggregation_pb2_grpc.LogAggregationServiceStub(channel)
        told = (pb.LogChunk(node_id=node, data=data, file_path=str(path)) for node, data, path in chunks)
        return stub.StreamLogs(told, timeout=LIMIT_S)


def refusal(host: HostProcess, path: object):
    with pytest.raises(grpc.RpcError) as caught:
        send(host, ("n0", b"x\n", path))
    return problem_of(caught.value)


def test_their_lines_stand_in_the_files_of_the_cycles_and_are_found_by_rank(tmp_path):
    app = tmp_path / "logs" / "app_cycle0.log"
    with served(tmp_path) as host:
        first = b" 0: a\n 0: b\n"
        mixed = b" 1: c\n10: d\n10: e\n 1: f\nno rank\n 1: half"
        told = send(host, ("n0", first, app), ("n1", mixed, app), ("n1", b" a line\n", app), ("n1", b" 1: torn", app))
        assert (told.status, told.bytes_received) == ("OK", len(first) + len(mixed) + 16)
        assert app.read_bytes() == first + mixed + b" a line\n 1: torn\n", "durable when it is answered"
        with grpc.insecure_channel(host.endpoint) as channel:
            stub = logs_pb2_grpc.LogAggregatorServiceStub(channel)
            request = logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, ranks=[10])
            assert b"".join(part.text for part in stub.Tail(request, timeout=LIMIT_S)) == b"10: d\n10: e\n"
            health = log_aggregation_pb2_grpc.LogAggregationServiceStub(channel).HealthCheck(pb.HealthRequest())
            assert health.healthy and health.connected_clients == 0
        host.kill()
        host.start()
        send(host, ("n0", b" 0: g\n", app))
    assert app.read_bytes().endswith(b" 1: torn\n 0: g\n"), "a second stream stands behind the first"


def test_a_stream_that_breaks_leaves_what_came_before(tmp_path):
    app = tmp_path / "logs" / "app_cycle3.log"
    with served(tmp_path) as host, grpc.insecure_channel(host.endpoint) as channel:

        def chunks():
            yield pb.LogChunk(node_id="n0", data=b"0: first\n0: second without an end", file_path=str(app))
            until = time.monotonic() + LIMIT_S
            while not (app.exists() and b"first" in app.read_bytes()) and time.monotonic() < until:
                pass
            raise RuntimeError("the client dies")

        with pytest.raises(grpc.RpcError):
            log_aggregation_pb2_grpc.LogAggregationServiceStub(channel).StreamLogs(chunks(), timeout=LIMIT_S)
        told = send(host, ("n0", b"0: third\n", app))
        assert told.status == "OK"
    assert app.read_bytes() == b"0: first\n0: second without an end\n0: third\n"


def test_paths_are_confined_to_the_folders_that_are_allowed(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "outside")
    with served(tmp_path, "--nvrx-roots", str(tmp_path / "more")) as host:
        for path, said in (
            ("", "not an absolute path"),
            ("app.log", "not an absolute path"),
            (tmp_path / "outside" / "x.log", "outside the allowed roots"),
            (tmp_path / "logs" / ".." / "outside" / "x.log", "outside the allowed roots"),
            (tmp_path / "logs" / "link" / "x.log", "outside the allowed roots"),
            (tmp_path / "logs" / ".app_cycle0.log.index", "hidden file"),
        ):
            refused = refusal(host, path)
            assert isinstance(refused, BadRequest) and said in str(refused), (path, refused)
        assert not list((tmp_path / "outside").iterdir())
        send(host, ("n0", b"one\n", tmp_path / "more" / "launcher.log"), ("n1", b"two\n", tmp_path / "logs" / "b.log"))
        with grpc.insecure_channel(host.endpoint) as channel:
            stub = logs_pb2_grpc.LogAggregatorServiceStub(channel)
            listed = stub.ListLogs(logs_pb2.ListLogsRequest(), timeout=LIMIT_S).logs
            assert {(log.kind, log.lines) for log in listed} == {(logs_pb2.LOG_KIND_OTHER, 1)}
    assert (tmp_path / "more" / "launcher.log").read_bytes() == b"one\n"
    assert (tmp_path / "logs" / "b.log").read_bytes() == b"two\n"


def test_where_a_token_is_needed_they_come_in_only_when_that_is_allowed(tmp_path):
    app, env = tmp_path / "logs" / "app_cycle0.log", {"RESURGE_JOB_TOKEN": "secret"}
    with served(tmp_path, env=env, listen=f"127.0.0.1:{free_port()}") as host:
        assert isinstance(refusal(host, app), Unauthenticated)
    with served(tmp_path, "--nvrx-without-token", env=env, listen=f"127.0.0.1:{free_port()}") as host:
        assert send(host, ("n0", b"0: a\n", app)).status == "OK"
        with grpc.insecure_channel(host.endpoint) as channel, pytest.raises(grpc.RpcError) as caught:
            logs_pb2_grpc.LogAggregatorServiceStub(channel).ListLogs(logs_pb2.ListLogsRequest(), timeout=LIMIT_S)
        assert isinstance(problem_of(caught.value), Unauthenticated)
