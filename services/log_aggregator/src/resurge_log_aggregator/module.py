"""The log aggregator as a module of a host. Binds settings, book and servicer together; decides nothing."""

from __future__ import annotations

import grpc.aio

from resurge_api.compat import log_aggregation_pb2, log_aggregation_pb2_grpc
from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_log_aggregator.book import Book, Places
from resurge_log_aggregator.nvrx import NvrxServicer, Targets
from resurge_log_aggregator.servicer import LogAggregatorServicer
from resurge_log_aggregator.settings import MIB, LogSettings

NAME = "log_aggregator"
DISK_LIMIT_S = 4.0
"""For the disk, once no sender is there any more."""
SERVICE = logs_pb2.DESCRIPTOR.services_by_name["LogAggregatorService"].full_name

NVRX_SERVICE = log_aggregation_pb2.DESCRIPTOR.services_by_name["LogAggregationService"].full_name

NVRX_METHODS = tuple(f"/{NVRX_SERVICE}/{name}" for name in ("StreamLogs", "HealthCheck"))


class LogAggregatorModule:
    """The log aggregator in a host; all it keeps lies in the files and their indexes."""

    service_names = (SERVICE, NVRX_SERVICE)

    def __init__(self, settings: LogSettings, ports: ModulePorts) -> None:
        self._settings = settings
        places = Places(settings.prefix(), settings.launcher_path())
        self._targets = Targets(places, settings.roots())
        self.book = Book(places, settings.rules(), ports.job_id)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the servicer."""
        servicer = LogAggregatorServicer(self.book, self._settings.window_mib * MIB, self._targets.key_of)
        logs_pb2_grpc.add_LogAggregatorServiceServicer_to_server(servicer, server)
        of_others = NvrxServicer(self.book, self._targets)
        log_aggregation_pb2_grpc.add_LogAggregationServiceServicer_to_server(of_others, server)

    async def start(self) -> None:
        """Begin to write, and take up the files of an earlier run."""
        self.book.start()
        await self.book.open_known()

    async def stop(self) -> None:
        """Take what senders still have, then make durable what came; what cannot be is named."""
        await self.book.drain(self._settings.stop_limit_s)
        await self.book.stop(DISK_LIMIT_S)


def build(settings: LogSettings, ports: ModulePorts) -> Module:
    """The log aggregator with these settings. Raises UsageProblem for a path that cannot be."""
    return LogAggregatorModule(settings, ports)


TARGET = Target(
    NAME,
    LogSettings,
    build,
    keeps_state=False,
    longer_stop_s=lambda settings: float(settings.stop_limit_s),
    open_methods=lambda settings: NVRX_METHODS if settings.nvrx_without_token else (),
)
