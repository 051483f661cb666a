"""RPC to event to reply. Decides nothing: outside input is checked by `wire`, everything else by the core.

A reply that shows a decision leaves only after the decision is durable: writes are answered by the engine, reads see
the last durable state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from resurge_api.rendezvous.v1 import drain_pb2, relay_pb2, rendezvous_pb2_grpc
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.core.ids import IncidentId, JobId, NodeId, RequestId
from resurge_libs.core.refusals import BadRequest, WrongJob
from resurge_libs.rpc.errors import because_to_proto
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations
from resurge_rendezvous import wire, wire_asked, wire_machines, wire_out
from resurge_rendezvous.attach import LauncherSession
from resurge_rendezvous.attach_many import RelaySession
from resurge_rendezvous.core.limits import KEY_BYTES_MAX, VALUE_BYTES_MAX
from resurge_rendezvous.core.model import (
    Added,
    Deleted,
    DrainAsked,
    ExcludeAsked,
    JobView,
    OrderTaken,
    ReadmitAsked,
    RecommendationMade,
    ShutdownAsked,
    StoreAddAsked,
    StoreCompareAndSetAsked,
    StoreDeleteAsked,
    StorePutAsked,
    Swapped,
)
from resurge_rendezvous.core.store import read
from resurge_rendezvous.core.views import job_view, node_view, recoveries_view, recovery_view
from resurge_rendezvous.desk import Desk

MAX_WAIT_S = 600.0
WAIT_RESERVE_S = 0.1
"""Kept back of a waiter's deadline, so that "not yet" reaches it in time."""
MAX_LIST_BYTES = 3 * 1024 * 1024
"""Above this, a list of recoveries leaves out the spans of the oldest; GetRecovery has them."""


class RendezvousServicer(rendezvous_pb2_grpc.RendezvousServiceServicer):
    """The contract's calls, one method each."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # --- launchers ----------------------------------------------------------------------------------------------------

    async def Attach(
        self, request_iterator: AsyncIterator[pb.AttachRequest], context: grpc.aio.ServicerContext
    ) -> None:
        session = LauncherSession(self._desk)
        session.open(request_iterator, context)
        try:
            while (desired := await session.stream.next()) is not None:
                await context.write(pb.AttachResponse(desired=desired))
        finally:
            session.close()

    async def AttachMany(
        self, request_iterator: AsyncIterator[relay_pb2.AttachManyRequest], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[relay_pb2.AttachManyResponse]:
        session = RelaySession(self._desk)
        async with session.introduced(request_iterator, context):
            while (told := await session.next()) is not None:
                yield told

    # --- observers ----------------------------------------------------------------------------------------------------

    async def GetJob(self, request: pb.GetJobRequest, context: grpc.aio.ServicerContext) -> pb.GetJobResponse:
        return pb.GetJobResponse(job=wire_out.job_to_proto(self._view(request.job_id)))

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchJobResponse]:
        first = wire_out.job_to_proto(self._view(request.job_id))
        async for job in self._desk.watchers.watch(first):
            yield pb.WatchJobResponse(job=job)

    async def ListNodes(self, request: pb.ListNodesRequest, context: grpc.aio.ServicerContext) -> pb.ListNodesResponse:
        nodes = self._view(request.job_id).nodes
        return pb.ListNodesResponse(nodes=[wire_machines.node_to_proto(node) for node in nodes])

    async def GetRecovery(
        self, request: pb.GetRecoveryRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetRecoveryResponse:
        self._check_job(request.job_id)
        record = recovery_view(self._desk.published, IncidentId(request.incident_id))
        if record is not None:
            return pb.GetRecoveryResponse(recovery=wire_out.recovery_to_proto(record))
        raise BadRequest.of(
            "incident_id",
            f"{request.incident_id[: wire.MAX_NAME_BYTES]!r} is no recovery known here; ListRecoveries names them",
        )

    async def ListRecoveries(
        self, request: pb.ListRecoveriesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListRecoveriesResponse:
        self._check_job(request.job_id)
        found = [wire_out.recovery_to_proto(record) for record in recoveries_view(self._desk.published)]
        size = sum(recovery.ByteSize() for recovery in found)
        for recovery in found:
            if size <= MAX_LIST_BYTES:
                break
            size -= recovery.ByteSize()
            recovery.ClearField("spans")
            size += recovery.ByteSize()
        return pb.ListRecoveriesResponse(recoveries=found, earlier=self._desk.published.durable.records_forgotten)

    async def GetVerdict(
        self, request: pb.GetVerdictRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetVerdictResponse:
        decision = self._view(request.job_id).decision
        if decision is None:
            return pb.GetVerdictResponse()
        return pb.GetVerdictResponse(decision=wire_out.decision_to_proto(decision))

    # --- operators ----------------------------------------------------------------------------------------------------

    async def ExcludeNode(
        self, request: pb.ExcludeNodeRequest, context: grpc.aio.ServicerContext
    ) -> pb.ExcludeNodeResponse:
        wrong = self._checked_order(request, "node_id", "reason", "by")
        lasts_s = wire.lasts_of(request.lasts, wrong, "lasts") if request.HasField("lasts") else None
        wrong.check()
        order = ExcludeAsked(
            self._desk.stamp(),
            RequestId(request.request_id),
            NodeId(request.node_id),
            request.reason,
            lasts_s,
            request.by,
        )
        taken: OrderTaken = await self._desk.ask(order)
        return pb.ExcludeNodeResponse(node=self._node(request.node_id), warning=taken.warning)

    async def ReadmitNode(
        self, request: pb.ReadmitNodeRequest, context: grpc.aio.ServicerContext
    ) -> pb.ReadmitNodeResponse:
        self._checked_order(request, "node_id", "by").check()
        request_id = RequestId(request.request_id)
        await self._desk.ask(ReadmitAsked(self._desk.stamp(), request_id, NodeId(request.node_id), request.by))
        return pb.ReadmitNodeResponse(node=self._node(request.node_id))

    async def RequestShutdown(
        self, request: pb.RequestShutdownRequest, context: grpc.aio.ServicerContext
    ) -> pb.RequestShutdownResponse:
        self._checked_order(request, "reason").check()
        await self._desk.ask(ShutdownAsked(self._desk.stamp(), RequestId(request.request_id), request.reason))
        decision = self._view("").decision
        if decision is None:
            return pb.RequestShutdownResponse()
        return pb.RequestShutdownResponse(decision=wire_out.decision_to_proto(decision))

    # --- attribution and workers -------------------------------------------------------------------------------------

    async def RecordRecommendation(
        self, request: pb.RecordRecommendationRequest, context: grpc.aio.ServicerContext
    ) -> pb.RecordRecommendationResponse:
        request_id, said = wire_asked.recommendation_in(request)
        self._check_job(request.recommendation.token.job_id)
        taken = await self._desk.ask(RecommendationMade(self._desk.stamp(), request_id, said))
        return wire_asked.advice_to_proto(taken)

    async def ReportControlRequest(
        self, request: pb.ReportControlRequestRequest, context: grpc.aio.ServicerContext
    ) -> pb.ReportControlRequestResponse:
        taken = await self._desk.ask(wire_asked.control_in(request, self._desk.stamp()))
        return wire_asked.control_to_proto(taken)

    async def Drain(
        self, request: drain_pb2.DrainRequest, context: grpc.aio.ServicerContext
    ) -> drain_pb2.DrainResponse:
        wrong = self._checked_order(request, "reason", *(("node_id",) if request.node_id else ()))
        grace_s = wire.lasts_of(request.grace, wrong, "grace") if request.HasField("grace") else None
        wrong.check()
        node = NodeId(request.node_id) if request.node_id else None
        stamp, name = self._desk.stamp(), RequestId(request.request_id)
        await self._desk.ask(DrainAsked(stamp, name, node, request.reason, grace_s))
        return drain_pb2.DrainResponse(because=because_to_proto(self._view("").because))

    # --- the fenced store ---------------------------------------------------------------------------------------------

    async def Put(self, request: pb.PutRequest, context: grpc.aio.ServicerContext) -> pb.PutResponse:
        token, key = self._checked_key(request, request.value)
        await self._desk.ask(
            StorePutAsked(self._desk.stamp(), RequestId(request.request_id), token, key, request.value)
        )
        return pb.PutResponse()

    async def Get(self, request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.GetResponse:
        token, key = self._checked_key(request)
        value = read(self._desk.published.durable, token, key)
        return pb.GetResponse(found=value is not None, value=value or b"")

    async def Wait(self, request: pb.WaitRequest, context: grpc.aio.ServicerContext) -> pb.WaitResponse:
        token, key = self._checked_key(request)
        left_s = context.time_remaining()
        limit_s = MAX_WAIT_S if left_s is None else min(MAX_WAIT_S, max(0.0, left_s - WAIT_RESERVE_S))
        with self._desk.waits.waiting(key) as woken:
            async with Desk.within(limit_s) as limit:
                while True:
                    value = read(self._desk.published.durable, token, key)
                    if value is not None:
                        return pb.WaitResponse(found=True, value=value)
                    self._desk.check_ready()
                    await woken.wait()
                    woken.clear()
            assert limit.expired()
        return pb.WaitResponse(found=False)

    async def CompareAndSet(
        self, request: pb.CompareAndSetRequest, context: grpc.aio.ServicerContext
    ) -> pb.CompareAndSetResponse:
        token, key = self._checked_key(request, request.value, request.expected)
        expected = request.expected if request.HasField("expected") else None
        answer: Swapped = await self._desk.ask(
            StoreCompareAndSetAsked(
                self._desk.stamp(), RequestId(request.request_id), token, key, expected, request.value
            )
        )
        return pb.CompareAndSetResponse(written=answer.written, value=answer.value or b"")

    async def Add(self, request: pb.AddRequest, context: grpc.aio.ServicerContext) -> pb.AddResponse:
        token, key = self._checked_key(request)
        answer: Added = await self._desk.ask(
            StoreAddAsked(self._desk.stamp(), RequestId(request.request_id), token, key, request.delta)
        )
        return pb.AddResponse(value=answer.value)

    async def Delete(self, request: pb.DeleteRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
        token, key = self._checked_key(request)
        answer: Deleted = await self._desk.ask(
            StoreDeleteAsked(self._desk.stamp(), RequestId(request.request_id), token, key)
        )
        return pb.DeleteResponse(existed=answer.existed)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _view(self, job_id: str) -> JobView:
        self._check_job(job_id)
        return job_view(self._desk.published)

    def _check_job(self, job_id: str) -> None:
        spec = self._desk.published.durable.spec
        if job_id and (spec is None or job_id != spec.job_id):
            served = JobId("") if spec is None else spec.job_id
            raise WrongJob(JobId(job_id[: wire.MAX_NAME_BYTES]), served)

    def _node(self, node_id: str) -> pb.Node | None:
        published = self._desk.published
        entry = published.durable.nodes.get(NodeId(node_id))
        return None if entry is None else wire_machines.node_to_proto(node_view(published, entry))

    def _checked_order(self, request: Any, *names: str) -> Violations:
        wrong = Violations()
        wrong.name("request_id", request.request_id, wire.MAX_NAME_BYTES)
        wrong.text("job_id", request.job_id, wire.MAX_NAME_BYTES)
        for name in names:
            if name == "reason":
                wrong.text(name, request.reason, MAX_SENTENCE_CHARACTERS)
            elif name == "by":
                wrong.text(name, request.by, wire.MAX_NAME_BYTES)
            else:
                wrong.name(name, getattr(request, name), wire.MAX_NAME_BYTES)
        if not wrong.found:
            self._check_job(request.job_id)
        return wrong

    def _checked_key(self, request: Any, *values: bytes) -> tuple[Any, str]:
        wrong = Violations()
        if "request_id" in request.DESCRIPTOR.fields_by_name:
            wrong.name("request_id", request.request_id, wire.MAX_NAME_BYTES)
        wrong.name("key", request.key, KEY_BYTES_MAX)
        for value in values:
            if len(value) > VALUE_BYTES_MAX:
                wrong.add("value", f"has {len(value)} bytes; at most {VALUE_BYTES_MAX} are allowed")
        token = wire.token_of(request, wrong)
        wrong.check()
        self._check_job(token.job)
        return token, request.key
