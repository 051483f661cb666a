"""Clients of NVIDIA's extension send to a leaf: what it took is in the file, though the root was killed meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.core.refusals import BadRequest, Unimplemented
from resurge_libs.rpc.errors import problem_of
from resurge_libs.testing.wait import wait_until
from tests.fakes.host import HostProcess

LIMIT_S = 60.0
LINES, AT_ONCE = 3_000, 10


@pytest.fixture
def servers(tmp_path):
    words = ("--applog-prefix", str(tmp_path / "logs" / "app.log"), "--sync-interval-s", "0.1", "--job-id", "job")
    with HostProcess(tmp_path / "root", module="resurge_log_aggregator", more=words) as root:
        more = ("--log-root", root.endpoint, "--job-id", "job")
        with HostProcess(tmp_path / "leaf", module="resurge_log_aggregator.leaf", more=more) as leaf:
            leaf.wait_event("log_root_found")
            yield root, leaf


def test_a_root_that_is_killed_and_started_again_costs_no_line_and_doubles_none(tmp_path, servers):
    root, leaf = servers
    app = tmp_path / "logs" / "app_cycle0.log"
    text = [b"%d: line %d\n" % (number // 7 % 2, number) for number in range(LINES)]

    def chunks():
        for at in range(0, LINES, AT_ONCE):
            if at in (LINES // 3, 2 * LINES // 3):
                wait_until(lambda: app.exists() and app.stat().st_size > 0, LIMIT_S, "the first lines")
                root.kill()
            yield pb.LogChunk(node_id="n0", data=b"".join(text[at : at + AT_ONCE]), file_path=str(app))
            if at in (LINES // 3 + 20 * AT_ONCE, 2 * LINES // 3 + 20 * AT_ONCE):
                root.start()

    with grpc.insecure_channel(leaf.endpoint) as channel:
        stub = log_aggregation_pb2_grpc.LogAggregationServiceStub(channel)
        told = stub.StreamLogs(chunks(), timeout=LIMIT_S)
        assert (told.status, told.bytes_received) == ("OK", len(b"".join(text)))
        assert app.read_bytes() == b"".join(text), "durable when it is answered, in the order in which it came"


def test_what_the_root_refuses_is_refused_and_what_a_broken_stream_left_reaches_it(tmp_path, servers):
    _, leaf = servers
    app, other = tmp_path / "logs" / "app_cycle3.log", tmp_path / "logs" / "other.log"
    with grpc.insecure_channel(leaf.endpoint) as channel:
        stub = log_aggregation_pb2_grpc.LogAggregationServiceStub(channel)
        health = stub.HealthCheck(pb.HealthRequest(), timeout=LIMIT_S)
        assert health.healthy and health.connected_clients == 0
        outside = [
            pb.LogChunk(node_id="n0", data=b"0: kept\n", file_path=str(other)),
            pb.LogChunk(node_id="n0", data=b"x\n", file_path=str(tmp_path / "outside.log")),
        ]
        with pytest.raises(grpc.RpcError) as caught:
            stub.StreamLogs(iter(outside), timeout=LIMIT_S)
        refused = problem_of(caught.value)
        assert isinstance(refused, BadRequest) and "outside the allowed roots" in str(refused), refused
        wait_until(lambda: other.exists() and other.read_bytes() == b"0: kept\n", LIMIT_S, "what came before")
        assert not (tmp_path / "outside.log").exists()

        def breaks_off():
            yield pb.LogChunk(node_id="n0", data=b"0: first\n0: second without an end", file_path=str(app))
            wait_until(lambda: app.exists() and b"first" in app.read_bytes(), LIMIT_S, "the first line")
            raise RuntimeError("the client dies")

        with pytest.raises(grpc.RpcError):
            stub.StreamLogs(breaks_off(), timeout=LIMIT_S)
    whole = b"0: first\n0: second without an end\n"
    wait_until(lambda: app.read_bytes() == whole, LIMIT_S, "the last line, with an end")
    leaf.terminate()
    assert "client_lines_lost" not in leaf.log()


class OlderRoot(logs_pb2_grpc.LogAggregatorServiceServicer):
    """Knows nothing of files by path: one that is opened ends the stream of all nodes."""

    def __init__(self) -> None:
        self.streams, self.opened = 0, []

    def Push(self, request_iterator, context):
        self.streams += 1
        yield logs_pb2.PushResponse(window=1 << 20)
        for request in request_iterator:
            self.opened += request.open


def test_a_file_by_path_is_not_offered_to_an_older_root_and_its_client_hears_why(tmp_path):
    older, server = OlderRoot(), grpc.server(ThreadPoolExecutor(4))
    logs_pb2_grpc.add_LogAggregatorServiceServicer_to_server(older, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    more = ("--log-root", f"127.0.0.1:{port}", "--job-id", "job")
    try:
        with HostProcess(tmp_path / "leaf", module="resurge_log_aggregator.leaf", more=more) as leaf:
            leaf.wait_event("log_root_found")
            with grpc.insecure_channel(leaf.endpoint) as channel:
                stub = log_aggregation_pb2_grpc.LogAggregationServiceStub(channel)
                with pytest.raises(grpc.RpcError) as caught:
                    stub.StreamLogs(
                        iter([pb.LogChunk(node_id="n0", data=b"0: a\n", file_path="/logs/a")]), timeout=LIMIT_S
                    )
            refused = problem_of(caught.value)
            assert isinstance(refused, Unimplemented) and "is of an older release than the leaf" in str(refused), (
                refused
            )
            assert older.streams == 1 and not older.opened
    finally:
        server.stop(None).wait()
