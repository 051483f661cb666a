"""Makes the house's asyncio gRPC servers: options, refusals, token, health, reflection, Unix socket rights."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio

from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.auth import TokenInterceptor, require_token
from resurge_libs.rpc.endpoint import Endpoint, EndpointProblem, EndpointTaken
from resurge_libs.rpc.interceptors import RefusalInterceptor
from resurge_libs.rpc.options import server_options

UNIX_PROBE_LIMIT_S = 1.0


def make_server(
    limits: TimeLimits,
    token: str | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    open_methods: Sequence[str] = (),
) -> grpc.aio.Server:
    """A server with all options of the house; add servicers, then `listen`, then `await server.start()`.

    `open_methods` are answered without the token.
    """
    guards: list[grpc.aio.ServerInterceptor] = [TokenInterceptor(token, open_methods)] if token else []
    return grpc.aio.server(interceptors=[*guards, RefusalInterceptor(), *interceptors], options=server_options(limits))


def listen(server: grpc.aio.Server, endpoint: Endpoint, token: str | None = None) -> Endpoint:
    """Bind the endpoint and return it with the port that was given for port 0.

    Raises TokenProblem, EndpointTaken when another process listens there, EndpointProblem when it cannot be bound.
    """
    require_token(endpoint, token)
    if endpoint.is_unix:
        return _listen_unix(server, endpoint)
    try:
        port = server.add_insecure_port(endpoint.target)
    except RuntimeError as error:
        raise EndpointTaken(f"cannot listen on {endpoint}: another process does, or it is not of this host") from error
    if port == 0:
        raise EndpointTaken(f"cannot listen on {endpoint}: another process does, or it is not of this host")
    return replace(endpoint, port=port)


async def add_health_and_reflection(server: grpc.aio.Server, service_names: Sequence[str]) -> Any:
    """Add the standard health and reflection services; all named services are SERVING at once. Returns the servicer."""
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection

    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *service_names):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*service_names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return servicer


def _listen_unix(server: grpc.aio.Server, endpoint: Endpoint) -> Endpoint:
    _refuse_taken(endpoint)
    before = os.umask(0o177)  # no moment in which another user could connect
    try:
        server.add_insecure_port(endpoint.target)
    except RuntimeError as error:
        raise EndpointProblem(f"cannot listen on {endpoint}: {_why_not(endpoint.path)}") from error
    finally:
        os.umask(before)
    os.chmod(endpoint.path, stat.S_IRUSR | stat.S_IWUSR)
    return endpoint


def _refuse_taken(endpoint: Endpoint) -> None:
    """gRPC replaces an existing socket file, a live one too: ask first whether somebody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(UNIX_PROBE_LIMIT_S)
        try:
            probe.connect(endpoint.path)
        except TimeoutError:
            pass
        except OSError:
            return
    raise EndpointTaken(f"cannot listen on {endpoint}: another process does; stop it or give another path")


def _why_not(path: str) -> str:
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        return f"the directory {directory} does not exist"
    if not os.access(directory, os.W_OK):
        return f"the directory {directory} is not writable"
    return "the path cannot be bound"
