"""RPC to book and back. Decides nothing: outside input is checked by `wire`, blocks are placed by the core."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio

from resurge_api.logs.v1 import logs_pb2 as pb
from resurge_api.logs.v1 import logs_pb2_grpc
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Unready
from resurge_log_aggregator import wire
from resurge_log_aggregator.book import Book
from resurge_log_aggregator.core.model import LogKey, LogKind
from resurge_log_aggregator.index import NotAnIndex
from resurge_log_aggregator.push import PushStream
from resurge_log_aggregator.reading import LogReader, Wanted

WAIT_MAX_S = 600.0
LATER_AFTER_S = 3.0
"""A follower leaves a file that nobody has ended when there is a later one and so long nothing new was in it."""
WAIT_RESERVE_S = 0.1
"""Kept back of a waiter's deadline, so that "not yet" reaches it in time."""


class LogAggregatorServicer(logs_pb2_grpc.LogAggregatorServiceServicer):
    """The contract's calls, one method each."""

    def __init__(self, book: Book, window_bytes: int, key_of: Callable[[str], LogKey] | None = None) -> None:
        self._book, self._window_bytes, self._key_of = book, window_bytes, key_of

    async def Push(
        self, request_iterator: AsyncIterator[pb.PushRequest], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.PushResponse]:
        async for answer in PushStream(self._book, self._window_bytes, self._key_of).answers(request_iterator):
            yield answer

    async def Tail(self, request: pb.TailRequest, context: grpc.aio.ServicerContext) -> AsyncIterator[pb.TailResponse]:
        wire.check_job(request.job_id, self._book.job)
        kind = wire.kind_of(request.kind)
        wanted = Wanted(frozenset(request.ranks), frozenset(request.nodes), request.since.ToNanoseconds() / 1e9)
        names_one = request.HasField("cycle") or kind is LogKind.LAUNCHER
        chosen, last, skip = request, request.last, 0
        if request.HasField("after"):
            chosen, last, skip = wire.of_place(request), 0, request.after.blocks
        if request.follow:
            yield pb.TailResponse()  # it is listened to: from here on a follower comes back after a break
        done: LogKey | None = None
        while True:
            key = await self._next_log(chosen, kind, done)
            if key is None:
                return
            async for told in self._lines(key, wanted, (last, skip), request.follow, names_one):
                yield told
            if not request.follow or names_one:
                return
            done, last, skip = key, 0, 0

    async def _next_log(self, request: pb.TailRequest, kind: LogKind, done: LogKey | None) -> LogKey | None:
        """The file to read next: the one named, the last one, or the one after `done`, waited for where it may come."""
        while True:
            changed = self._book.changed(None)
            if done is None:
                key = self._named(request, kind)
                if key is not None:
                    return key
                if not request.follow:
                    raise BadRequest.of("cycle", f"no such log is here; there are: {self._known()}")
            else:
                later = self._later(done)
                if later:
                    return later[0]
            await changed.wait()

    async def _lines(
        self, key: LogKey, wanted: Wanted, last_skip: tuple[int, int], follow: bool, names_one: bool
    ) -> AsyncIterator[pb.TailResponse]:
        last, skip = last_skip
        loop = asyncio.get_running_loop()
        reader, path = await self._reader(key, wanted, skip)
        try:
            if last:
                for part in await loop.run_in_executor(None, functools.partial(reader.last, last)):
                    yield wire.part_to_proto(key, path, part)
            if follow:  # what was passed over stays so, also over a broken stream
                yield wire.place_to_proto(key, path, reader.blocks, reader.position)
            quiet_since, is_late = loop.time(), False
            while True:
                changed = self._book.changed(key if names_one else None)
                parts = await loop.run_in_executor(None, reader.more)
                for part in parts:
                    yield wire.part_to_proto(key, path, part)
                if parts:
                    quiet_since, is_late = loop.time(), False
                    continue
                if is_late:
                    return
                if not follow:
                    return
                if self._is_over(key):
                    yield wire.place_to_proto(key, path, reader.blocks, reader.position, sealed=True)
                    return
                if names_one or not self._later(key):
                    await changed.wait()
                    quiet_since = loop.time()
                    continue
                # a node of this cycle may be gone for good: its end would never come
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), max(0.0, quiet_since + LATER_AFTER_S - loop.time()))
                if loop.time() >= quiet_since + LATER_AFTER_S:
                    is_late = True
        finally:
            reader.close()

    async def _reader(self, key: LogKey, wanted: Wanted, skip: int) -> tuple[LogReader, str]:
        state = self._book.state(key)
        assert state is not None, "a log that was chosen is open"
        loop = asyncio.get_running_loop()
        try:
            reader = await loop.run_in_executor(None, LogReader, Path(state[1]), self._book.job, key, wanted, skip)
        except (OSError, NotAnIndex) as error:
            raise Unready(Because(Reason.LOG_NOT_WRITTEN, f"{state[1]} cannot be read: {error}")) from None
        return reader, state[1]

    def _later(self, done: LogKey) -> list[LogKey]:
        return [key for key in self._book.logs() if key.kind is done.kind and key > done]

    def _is_over(self, key: LogKey) -> bool:
        state = self._book.state(key)
        return state is None or state[0].is_sealed

    def _named(self, request: pb.TailRequest | pb.GetLogRequest, kind: LogKind) -> LogKey | None:
        known = [key for key in self._book.logs() if key.kind is kind]
        if request.HasField("attempt"):
            known = [key for key in known if key.attempt == request.attempt or kind is LogKind.LAUNCHER]
        if request.HasField("cycle") and kind is not LogKind.LAUNCHER:
            known = [key for key in known if key.cycle == request.cycle]
        return known[-1] if known else None

    def _known(self) -> str:
        names = [f"attempt {k.attempt} cycle {k.cycle}" for k in self._book.logs() if k.kind is LogKind.APPLICATION]
        return ", ".join(names[-8:]) or "none"

    async def GetLog(self, request: pb.GetLogRequest, context: grpc.aio.ServicerContext) -> pb.GetLogResponse:
        wire.check_job(request.job_id, self._book.job)
        kind = wire.kind_of(request.kind)
        loop = asyncio.get_running_loop()
        left_s = context.time_remaining()
        give_up_at = loop.time() + (min(WAIT_MAX_S, left_s - WAIT_RESERVE_S) if left_s is not None else WAIT_MAX_S)
        while True:
            changed = self._book.changed(None)
            key = self._named(request, kind)
            found = self._book.state(key) if key is not None else None
            wait_s = give_up_at - loop.time()
            if found is not None and (found[0].is_sealed or not request.wait or wait_s <= 0):
                state, path, size = found
                sources = [wire.source_state_to_proto(source) for source in state.sources]
                return pb.GetLogResponse(log=wire.log_to_proto(state, path, size), sources=sources)
            if not request.wait or wait_s <= 0:
                raise BadRequest.of("cycle", f"no such log is here; there are: {self._known()}")
            try:
                await asyncio.wait_for(changed.wait(), wait_s)
            except TimeoutError:
                continue

    async def ListLogs(self, request: pb.ListLogsRequest, context: grpc.aio.ServicerContext) -> pb.ListLogsResponse:
        wire.check_job(request.job_id, self._book.job)
        found = [state for key in self._book.logs() if (state := self._book.state(key)) is not None]
        return pb.ListLogsResponse(logs=[wire.log_to_proto(*state) for state in found])
