"""The relay as a module of a host: launchers' streams below, one stream to the root above. Decides nothing.

Downwards it is the rendezvous contract, so a launcher cannot tell the difference. Leases are judged by the root alone:
a relay passes beats on. One that dies leaves its launchers silent at the root, with their leases and their workers;
they come back here, or to another relay, or to the root itself, and nobody has to be told.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.core.refusals import BadRequest, RpcProblem
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_libs.hosting.root import root_of
from resurge_libs.obs import log
from resurge_libs.rpc.passing import Passing
from resurge_rendezvous.attach import FIRST, NEVER_BEGAN
from resurge_rendezvous.relay.settings import RelaySettings
from resurge_rendezvous.relay.uplink import Uplink
from resurge_rendezvous.streams import LauncherStream

NAME = "relay"
HELLO_LIMIT_S = 10.0
_SERVICE = rendezvous_pb2.DESCRIPTOR.services_by_name["RendezvousService"]
FIELD = "--root"
WANTED = "give the address of rendezvous: host:port or unix:/path"


class RelayModule:
    """A relay in a host."""

    service_names = (str(_SERVICE.full_name),)

    def __init__(self, settings: RelaySettings, ports: ModulePorts) -> None:
        self._ports = ports
        self._uplink = Uplink(root_of(settings.root, FIELD, WANTED, ports.token), ports.limits, ports.token, settings)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the rendezvous contract: streams of launchers are gathered, other calls are passed on."""
        passing = Passing(self._uplink.root_channel)
        handlers: dict[str, Any] = {
            "Attach": grpc.stream_stream_rpc_method_handler(
                self._attach,
                request_deserializer=rendezvous_pb2.AttachRequest.FromString,
                response_serializer=rendezvous_pb2.AttachResponse.SerializeToString,
            )
        }
        for method in _SERVICE.methods:
            path = f"/{_SERVICE.full_name}/{method.name}"
            if not method.client_streaming:
                handlers[method.name] = passing.handler(path, method.server_streaming)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))

    async def start(self) -> None:
        """Begin to look for the root."""
        self._uplink.start(f"{socket.gethostname()}:{os.getpid()}")

    async def stop(self) -> None:
        """Let the launchers go: they come back elsewhere."""
        await self._uplink.stop()

    async def _attach(self, requests: AsyncIterator[Any], context: Any) -> None:
        child = _Child(self._uplink, self._ports.limits.server_ping_timeout_s)
        context.add_done_callback(lambda _context: child.close())
        reader = asyncio.get_running_loop().create_task(child.read(requests))
        try:
            while (desired := await child.stream.next()) is not None:
                await context.write(rendezvous_pb2.AttachResponse(desired=desired))
        finally:
            reader.cancel()
            child.close()


class _Child:
    """One launcher's stream at this relay. Whatever ends it ends what goes down."""

    def __init__(self, uplink: Uplink, silence_limit_s: float) -> None:
        self._uplink, self._silence_limit_s = uplink, silence_limit_s
        self._loop = asyncio.get_running_loop()
        self._link = 0
        self._heard_at = self._loop.time()
        self.stream = LauncherStream()

    async def read(self, messages: AsyncIterator[Any]) -> None:
        too_late = self._loop.call_later(HELLO_LIMIT_S, self._never_introduced)
        try:
            async for message in messages:
                self._heard_at = self._loop.time()
                if not self._link:
                    too_late.cancel()
                    self._open(message.observed)
                self._uplink.say(self._link, message.observed)
            self.stream.end(None if self._link else BadRequest.of(FIRST, NEVER_BEGAN))
        except RpcProblem as problem:
            self.stream.end(problem)
        except Exception as error:  # the root of this task: what cannot be read at all costs its own stream only
            log.event("message_unreadable", link=self._link, error=repr(error))
            self.stream.end(BadRequest.of("message", "could not be read: it is malformed or of another release"))
        finally:
            too_late.cancel()

    def _open(self, first: attach_pb2.Observed) -> None:
        if not first.HasField("hello"):
            raise BadRequest.of(FIRST, "is missing; the first message of a stream introduces the launcher")
        self._link = self._uplink.open(self.stream)

    def _never_introduced(self) -> None:
        self.stream.end(BadRequest.of(FIRST, f"did not come within {HELLO_LIMIT_S:g} s"))

    def close(self) -> None:
        # our own ping gives a peer up only after this long; an end before it is the word of the peer's kernel
        silent_s = asyncio.get_running_loop().time() - self._heard_at
        self._uplink.go(self._link, by_peer=silent_s < self._silence_limit_s)


def build(settings: RelaySettings, ports: ModulePorts) -> Module:
    """A relay. Raises UsageError when the root is not named, or not rightly."""
    return RelayModule(settings, ports)


TARGET = Target(NAME, RelaySettings, build, keeps_state=False, stands_alone=True)
