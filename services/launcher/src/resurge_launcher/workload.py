"""Carries what a worker asks for to rendezvous: one call for each wish, made again until there is an answer.

Decides nothing: rendezvous does, durably, and tells every launcher by its stream. A wish outlives the worker that had
it, and a control plane that is started again; it ends with the launcher, or at `CARRY_LIMIT_S`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

from resurge.frames import Control, ControlAnswer
from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_launcher.stream import Where
from resurge_launcher.wire import Times
from resurge_libs.core.ids import Attempt
from resurge_libs.core.instant import Instant
from resurge_libs.core.refusals import Overloaded, RpcProblem, Unready, Unsure
from resurge_libs.obs import log
from resurge_libs.rpc.auth import TokenProblem
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.retry import call

CARRY_LIMIT_S = 120.0
TRY_LIMIT_S = 2.0
PAUSE_S = 0.1
NS = 1_000_000_000
MOST_AT_ONCE = 256

_ACTIONS = {
    "exclude_this_node": rendezvous_pb2.CONTROL_ACTION_EXCLUDE_THIS_NODE,
    "shutdown_workload": rendezvous_pb2.CONTROL_ACTION_SHUTDOWN_WORKLOAD,
}


class ControlCourier:
    """One launcher's way for its workers' wishes; `attempt` gives the present one."""

    def __init__(self, where: Where, times: Times, job_id: str, node_id: str, attempt: Callable[[], Attempt]) -> None:
        self._where, self._times = where, times
        self._job_id, self._node_id, self._attempt = job_id, node_id, attempt
        self._tasks: set[asyncio.Task[ControlAnswer]] = set()

    async def carry(self, wish: Control) -> ControlAnswer:
        """What came of a wish. It is carried on if whoever waits for this goes away."""
        if len(self._tasks) >= MOST_AT_ONCE:
            return ControlAnswer(False, False, f"{MOST_AT_ONCE} wishes of this node wait for an answer already")
        task = asyncio.get_running_loop().create_task(self._carried(wish))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Give up what has no answer yet."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carried(self, wish: Control) -> ControlAnswer:
        rank, action = wish.speaker.rank, wish.action
        log.event("control_asked", action=action, rank=rank, generation=wish.speaker.generation, sentence=wish.reason)
        answer = await self._asked(self._request(wish))
        log.event("control_answered", action=action, carried_out=answer.carried_out, sentence=answer.sentence)
        return answer

    def _request(self, wish: Control) -> rendezvous_pb2.ReportControlRequestRequest:
        request = rendezvous_pb2.ReportControlRequestRequest(
            request_id=str(uuid.uuid4()),
            node_id=self._node_id,
            rank=wish.speaker.rank,
            action=_ACTIONS[wish.action],
            reason=wish.reason,
            at=self._times.stamp(Instant(min(wish.at_ns / NS, time.monotonic()))),
        )
        request.token.job_id = self._job_id
        request.token.attempt, request.token.generation = self._attempt(), wish.speaker.generation
        return request

    async def _asked(self, request: rendezvous_pb2.ReportControlRequestRequest) -> ControlAnswer:
        until = time.monotonic() + CARRY_LIMIT_S
        try:
            channel = open_channel(self._where.endpoint, self._where.limits, self._where.token)
        except TokenProblem as problem:
            return ControlAnswer(False, False, str(problem))
        try:
            method = rendezvous_pb2_grpc.RendezvousServiceStub(channel).ReportControlRequest
            return await self._until_answered(method, request, until)
        finally:
            await channel.close()

    async def _until_answered(self, method: Any, request: Any, until: float) -> ControlAnswer:
        while True:
            try:
                response = await call(method, request, TRY_LIMIT_S, call_metadata(self._where.token))
                because = response.because
                return ControlAnswer(True, response.carried_out, because.sentence or because.code)
            except (Unsure, Unready, Overloaded) as problem:
                if time.monotonic() >= until:
                    return ControlAnswer(False, False, f"no answer within {CARRY_LIMIT_S:g} s: {problem}")
                await asyncio.sleep(problem.retry_after_s if isinstance(problem, Overloaded) else PAUSE_S)
            except RpcProblem as refused:
                return ControlAnswer(True, False, f"refused: {refused}")
