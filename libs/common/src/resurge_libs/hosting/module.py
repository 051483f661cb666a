"""What a service is to the process that hosts it. Declares; does nothing.

Every service package has a `module.py` with `NAME`, `build(settings, ports) -> Module` and `TARGET`, which binds them
together. A host adds each module to its server, starts them, and stops them in the reverse order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc.aio

from resurge_libs.config.settings import ServiceSettings
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs.sinks import SinkList, SpanSink
from resurge_libs.rpc.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class ModulePorts:
    """What a host gives to the services in it. The defaults are a host that listens to nothing."""

    limits: TimeLimits = field(default_factory=TimeLimits)
    state_dir: Path | None = None
    """A directory that this process alone uses; None for a host of services that keep nothing."""
    token: str | None = None
    """The job's shared secret, for calls to other services."""
    job_id: str = ""
    """The only job that may be served; empty for whichever comes first."""
    endpoint_of: Callable[[str], Endpoint | None] = lambda _service: None
    """The address book: where a service by this name is; None when nobody said."""
    spans: SpanSink = field(default_factory=lambda: SinkList(()))
    """Where finished spans go; takes them at once and never raises."""
    on_failed: Callable[[str], None] = lambda _sentence: None
    """The service can no longer decide, and why: the process is to end with exit code 1."""
    on_ended: Callable[[bool], None] = lambda _is_over: None
    """Whether the job is over and every launcher knows: a host that lives for this job may end."""


class Module(Protocol):
    """One service in a host."""

    @property
    def service_names(self) -> tuple[str, ...]:
        """The full gRPC names, for health and reflection."""
        ...

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the servicers; called once, before the server starts."""
        ...

    async def start(self) -> None:
        """Begin work in the running loop; called once, before the server takes calls."""
        ...

    async def stop(self) -> None:
        """End work: what was decided is durable afterwards. Called once, also after a failed start."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """One service that a host can run."""

    name: str
    settings: type[ServiceSettings]
    build: Callable[[Any, ModulePorts], Module]
    keeps_state: bool
    """Whether it needs a state directory."""
    calls: tuple[str, ...] = ()
    """The services it calls, by name; the address book may say where one is that this host does not know."""
    stands_alone: bool = False
    """It serves in place of another service: never part of `all`, and never beside others in one process."""
    longer_stop_s: Callable[[Any], float] = lambda _settings: 0.0
    """By its settings: how long its `stop` may take beyond what a host grants anyway."""
    open_methods: Callable[[Any], tuple[str, ...]] = lambda _settings: ()
    """By its settings: calls that are answered without the job's token, for callers that have none."""
