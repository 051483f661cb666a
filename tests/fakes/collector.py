"""An OTLP collector that keeps what it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass
class FakeCollector(trace_service_pb2_grpc.TraceServiceServicer):
    """Serves on a free port once started."""

    spans: list[Any] = field(default_factory=list)

    async def start(self) -> str:
        """Serve; the returned endpoint is a URL, as OTEL_EXPORTER_OTLP_ENDPOINT wants it."""
        self._server = grpc.aio.server()
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        """Stop serving at once."""
        await self._server.stop(None)

    async def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.aio.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Keep the spans."""
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()
