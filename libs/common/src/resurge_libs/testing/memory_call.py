"""One call over the memory channel: what the stub's caller holds, and what the servicer gets as its context."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any, NoReturn

import grpc
import grpc.aio
from grpc.aio import EOF, AioRpcError, Metadata

WINDOW_MESSAGES = 64
"""Messages under way in each direction, as flow control would allow."""
LOCALLY_CANCELLED = "Locally cancelled by application!"
_END: Any = object()


def rpc_error(code: grpc.StatusCode, details: str, trailing: Any = ()) -> AioRpcError:
    """The error that a stub raises."""
    return AioRpcError(code, Metadata(), Metadata(*trailing), details=details)


class CallContext:
    """The servicer's context."""

    def __init__(self, call: MemoryCall) -> None:
        self._call = call
        self._trailing: tuple[Any, ...] = ()
        self._callbacks: list[Any] = []
        self.serializer: Any = None
        self.deserializer: Any = None
        self._code, self._details = grpc.StatusCode.UNKNOWN, ""

    def set_code(self, code: grpc.StatusCode) -> None:
        """The status of a servicer that raises hereafter."""
        self._code = code

    def set_details(self, details: str) -> None:
        """The message of that status."""
        self._details = details

    def raised(self, error: Exception) -> AioRpcError:
        """The status of what the servicer raised."""
        return rpc_error(self._code, self._details or f"Unexpected {type(error)}: {error}", self._trailing)

    def invocation_metadata(self) -> tuple[Any, ...]:
        """What the caller sent beside the request."""
        return self._call.metadata

    def time_remaining(self) -> float | None:
        """Seconds of the caller's deadline that are left; None without one."""
        return self._call.time_remaining()

    def peer(self) -> str:
        """Where the caller is."""
        return "memory:"

    def cancelled(self) -> bool:
        """Whether the caller went away."""
        return self._call.cancelled()

    def done(self) -> bool:
        """Whether the call is over."""
        return self._call.done()

    def set_trailing_metadata(self, trailing: Any) -> None:
        """Send metadata with the status."""
        self._trailing = tuple(trailing)

    async def send_initial_metadata(self, metadata: Any) -> None:
        """Accepted and dropped."""

    def add_done_callback(self, callback: Any) -> None:
        """Call back when the call is over."""
        self._callbacks.append(callback)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        """End the call with this status."""
        self._call.aborted = rpc_error(code, details, trailing_metadata or self._trailing)
        raise grpc.aio.AbortError("Locally aborted.")

    async def read(self) -> Any:
        """The next request of a stream; EOF after the last."""
        data = await self._call.next_request()
        return EOF if data is None else self.deserializer(data)

    async def write(self, message: Any) -> None:
        """Send one response of a stream."""
        await self._call.answer(self.serializer(message))

    def finish(self) -> None:
        """Run the callbacks."""
        for callback in self._callbacks:
            callback(self)


class MemoryCall:
    """The caller's side; awaitable for unary answers, an async iterator for streams."""

    def __init__(self, channel: Any, method: str, deserialize: Any, serialize: Any) -> None:
        self._channel, self.method = channel, method
        self._deserialize, self._serialize = deserialize, serialize
        self._requests: asyncio.Queue[Any] = asyncio.Queue(WINDOW_MESSAGES)
        self._answers: asyncio.Queue[Any] = asyncio.Queue(WINDOW_MESSAGES)
        self._status: asyncio.Future[AioRpcError | None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        self._deadline: float | None = None
        self.metadata: tuple[Any, ...] = ()
        self.context: CallContext | None = None
        self.aborted: AioRpcError | None = None

    def start(
        self, request: Any, timeout: float | None, metadata: tuple[Any, ...], serve: Coroutine[Any, Any, None]
    ) -> None:
        """Begin: feed the requests, run the server's side, watch the deadline."""
        loop = asyncio.get_running_loop()
        self.metadata = metadata
        if timeout is not None:
            self._deadline = loop.time() + timeout
            late = rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            handle = loop.call_later(timeout, self._end, late)
            self._status.add_done_callback(lambda _: handle.cancel())
        self._channel.opened(self)
        if request is not None and (inspect.isasyncgen(request) or hasattr(request, "__aiter__")):
            self._tasks.append(loop.create_task(self._feed(request)))
        elif request is not None and hasattr(request, "__iter__") and not hasattr(request, "SerializeToString"):
            self._tasks.append(loop.create_task(self._feed(_async(request))))
        elif request is not None:
            self._requests.put_nowait(self._serialize(request))
            self._requests.put_nowait(_END)
        self._tasks.append(loop.create_task(self._run(serve)))

    async def _feed(self, requests: AsyncIterator[Any]) -> None:
        async for request in requests:
            await self._requests.put(self._serialize(request))
        await self._requests.put(_END)

    async def _run(self, serve: Coroutine[Any, Any, None]) -> None:
        try:
            await serve
        except AioRpcError as error:
            self._end(error)
        except grpc.aio.AbortError:
            self._end(self.aborted)
        except Exception as error:  # the root of the server's side: grpc answers UNKNOWN
            self._end((self.context or CallContext(self)).raised(error))
        else:
            self._end(None)

    def _end(self, error: AioRpcError | None) -> None:
        if self._status.done():
            return
        self._status.set_result(error)
        self._channel.closed(self)
        current = asyncio.current_task() if _in_task() else None
        for task in self._tasks:
            if task is not current:
                task.cancel()
        if self.context is not None:
            self.context.finish()

    # the server's side

    async def next_request(self) -> Any:
        """The bytes of the next request; None after the last."""
        data = await self._requests.get()
        if data is _END:
            self._requests.put_nowait(_END)
            return None
        return data

    async def answer(self, data: bytes) -> None:
        """Send the bytes of one response."""
        await self._answers.put(data)

    def time_remaining(self) -> float | None:
        """Seconds left of the deadline."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def break_now(self) -> None:
        """End as a lost connection does."""
        self._end(rpc_error(grpc.StatusCode.UNAVAILABLE, "memory channel: connection lost"))

    # the caller's side

    def __await__(self) -> Generator[Any, None, Any]:
        return self._unary().__await__()

    async def _unary(self) -> Any:
        answer = await self.read()
        if answer is EOF:
            raise rpc_error(grpc.StatusCode.INTERNAL, "memory channel: no answer and no error")
        return answer

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            answer = await self.read()
            if answer is EOF:
                return
            yield answer

    async def read(self) -> Any:
        """The next response; EOF after the last. Raises the call's error."""
        while self._answers.empty():
            if self._status.done():
                return self._ended()
            getter = asyncio.ensure_future(self._answers.get())
            await asyncio.wait({getter, self._status}, return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                return self._deserialize(getter.result())
            getter.cancel()
        return self._deserialize(self._answers.get_nowait())

    def _ended(self) -> Any:
        error = self._status.result()
        if error is None:
            return EOF
        if error.code() is grpc.StatusCode.CANCELLED and error.details() == LOCALLY_CANCELLED:
            raise asyncio.CancelledError  # as grpc does for a call that its own side gave up
        raise error

    async def write(self, request: Any) -> None:
        """Send one request of a stream. Raises the call's error when it is over."""
        if self._status.done():
            raise self._status.result() or asyncio.InvalidStateError("the call is over")
        await self._requests.put(self._serialize(request))

    async def done_writing(self) -> None:
        """Say that no request follows."""
        await self._requests.put(_END)

    def cancel(self) -> bool:
        """Give the call up; the servicer is cancelled."""
        if self._status.done():
            return False
        self._end(rpc_error(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED))
        return True

    def cancelled(self) -> bool:
        """Whether it was given up."""
        error = self._status.result() if self._status.done() else None
        return error is not None and error.code() is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        """Whether the call is over."""
        return self._status.done()

    def add_done_callback(self, callback: Any) -> None:
        """Call back when the call is over."""
        self._status.add_done_callback(lambda _: callback(self))

    async def code(self) -> grpc.StatusCode:
        """The status code, when the call is over."""
        error = await asyncio.shield(self._status)
        return grpc.StatusCode.OK if error is None else error.code()

    async def details(self) -> str:
        """The status message, when the call is over."""
        error = await asyncio.shield(self._status)
        return "" if error is None else error.details() or ""

    async def initial_metadata(self) -> Metadata:
        """Always empty."""
        return Metadata()

    async def trailing_metadata(self) -> Metadata:
        """What came with the status."""
        error = await asyncio.shield(self._status)
        return Metadata() if error is None else error.trailing_metadata()

    async def wait_for_connection(self) -> None:
        """Connected at once, unless the channel is unreachable."""
        if self._channel.unreachable:
            raise rpc_error(grpc.StatusCode.UNAVAILABLE, "memory channel: unreachable")


async def _async(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _in_task() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
