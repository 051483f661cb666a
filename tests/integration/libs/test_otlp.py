"""OTLP export against a real collector's interface; an absent collector delays nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from resurge_libs.core.ids import IncidentId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.trace_ids import root_span_id_of, trace_id_of
from resurge_libs.obs.names import SpanName
from resurge_libs.obs.recovery_spans import RecoverySpan, records_of
from resurge_libs.obs.sinks import make_sinks

INCIDENT = IncidentId("i-7")
SPANS = records_of(
    INCIDENT,
    RecoverySpan(SpanName.RECOVERY, Wall(100.0), Wall(104.0), service="rendezvous"),
    [RecoverySpan(SpanName.SPAWN, Wall(101.0), Wall(102.0), NodeId("n1"), service="launcher")],
)


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self):
        self.spans = {}

    def Export(self, request, context):
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.update({span.name: span for span in scope.spans})
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector(monkeypatch):
    server, servicer = grpc.server(futures.ThreadPoolExecutor(1)), Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    yield servicer, f"http://127.0.0.1:{port}"
    server.stop(0)


def test_a_collector_gets_the_trace_with_its_derived_ids(collector):
    servicer, endpoint = collector
    sinks = make_sinks(None, endpoint)
    sinks.export(SPANS)
    sinks.close(limit_s=20.0)
    root, spawn = servicer.spans["recovery"], servicer.spans["spawn"]
    assert root.trace_id == spawn.trace_id == trace_id_of(INCIDENT)
    assert root.span_id == spawn.parent_span_id == root_span_id_of(INCIDENT)
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (100_000_000_000, 104_000_000_000)


PROGRAM = """
from tests.integration.libs.test_otlp import SPANS
from resurge_libs.obs.sinks import make_sinks
import time
sinks = make_sinks(None, "http://127.0.0.1:1")
began = time.monotonic()
sinks.export(SPANS)
exported = time.monotonic()
sinks.close()
print(exported - began, time.monotonic() - exported, time.time())
"""


@pytest.mark.users_row(71)
def test_an_absent_collector_delays_neither_the_caller_nor_the_exit(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    ended = time.time()
    export_s, close_s, closed_at = map(float, run.stdout.split())
    assert export_s < 0.2
    assert close_s < 1.5
    assert ended - closed_at < 2.0
