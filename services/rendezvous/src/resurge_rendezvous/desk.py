"""What the calls of rendezvous share: the engine behind typed refusals, the streams, the waits. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import RpcProblem, Unready
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.engine.ports import Clock, Entropy, Ids, JournalFailed
from resurge_libs.engine.runner import Engine
from resurge_libs.obs import log
from resurge_rendezvous.attention import Attention
from resurge_rendezvous.core.model import Hello, RdzvState, Stamp
from resurge_rendezvous.settings import RendezvousSettings
from resurge_rendezvous.streams import DownStream, KeyWaits, Watchers

STOPPING = Because(Reason.SERVICE_STOPPING, "rendezvous is stopping; it comes back with all it has decided")


CROWD = 8
"""Launchers that are let in at the same moment; more than so many are told in one line."""


class Answered:
    """Waits for an event to be durable, without a task of its own: called once, with None or what went wrong."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[BaseException | None], None]) -> None:
        self._then: Callable[[BaseException | None], None] | None = then

    def done(self) -> bool:
        """Whether it was called."""
        return self._then is None

    def set_result(self, value: Any) -> None:
        """It is durable."""
        self._call(None)

    def set_exception(self, error: BaseException) -> None:
        """It never will be."""
        self._call(_unready(error) if isinstance(error, JournalFailed) else error)

    def _call(self, error: BaseException | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(error)


class Desk:
    """One rendezvous in one event loop, as its calls see it."""

    def __init__(
        self, settings: RendezvousSettings, limits: TimeLimits, clock: Clock, entropy: Entropy, ids: Ids
    ) -> None:
        self.settings, self.limits, self.clock, self.ids = settings, limits, clock, ids
        self._entropy = entropy
        self.attention = Attention()
        self.job_id = ""
        self.streams: dict[str, DownStream] = {}
        self.direct = 0
        """Launchers with a stream of their own to this process."""
        self.waits = KeyWaits()
        self.watchers: Watchers[rendezvous_pb2.Job] = Watchers()
        self._engine: Engine[RdzvState] | None = None
        self._unready: Because | None = None
        self._fenced = Generation(0)
        self._attached: list[tuple[Hello, str]] = []

    def open(self, engine: Engine[RdzvState]) -> None:
        """Calls are taken from now on."""
        self._engine = engine

    def close(self, why: Because = STOPPING) -> None:
        """No call is taken from now on; streams and waits end with the reason. The first reason stays."""
        if self._unready is not None:
            return
        self._unready = why
        for stream in tuple(self.streams.values()):
            stream.end(Unready(why))
        self.watchers.close()
        self.waits.wake_all()

    def add_stream(self, name: str, stream: DownStream) -> None:
        """A launcher can be told from now on."""
        self.streams[name] = stream
        self.direct += stream.is_direct

    def drop_stream(self, name: str) -> None:
        """It cannot be told any more."""
        stream = self.streams.pop(name, None)
        if stream is not None:
            self.direct -= stream.is_direct

    def stamp(self) -> Stamp:
        """What the next event brings of the world."""
        late_s = self.attention.late_s(self.clock.monotonic())
        return Stamp(Wall(self.clock.wall()), self.ids.new("inc"), self._entropy.jitter(), late_s)

    @property
    def engine(self) -> Engine[RdzvState]:
        """The engine, once open."""
        assert self._engine is not None, "the module starts before the server takes calls"
        return self._engine

    @property
    def published(self) -> RdzvState:
        """The last durable state."""
        return self.engine.published

    def check_ready(self) -> None:
        """Raise Unready once this service decides no more."""
        if self._unready is not None:
            raise Unready(self._unready)

    def post(self, event: Any, answered: Answered | None = None) -> None:
        """Put an event into the inbox; `answered` hears when it is durable. Raises Unready or Overloaded."""
        self.check_ready()
        try:
            self.engine.post(event, answered)
        except JournalFailed as failure:
            raise _unready(failure) from None

    def post_if_ready(self, event: Any) -> None:
        """As `post`, for news that nobody waits for: dropped when nothing is decided any more."""
        with suppress(RpcProblem):
            self.post(event)

    async def ask(self, event: Any) -> Any:
        """The reply to an event, once it is durable. Raises what the core refused, or Unready."""
        self.check_ready()
        try:
            return await self.engine.ask(event)
        except JournalFailed as failure:
            raise _unready(failure) from None

    def note_attached(self, hello: Hello, stream: str) -> None:
        """Tell people who was let in; a crowd in one line."""
        if not self._attached:
            asyncio.get_running_loop().call_soon(self._tell_attached)
        self._attached.append((hello, stream))

    @staticmethod
    def note_refused(hello: Hello, problem: RpcProblem) -> None:
        """Tell people who was not."""
        log.event("launcher_refused", node=hello.node, incarnation=hello.incarnation, sentence=str(problem))

    def _tell_attached(self) -> None:
        attached, self._attached = self._attached, []
        if len(attached) > CROWD:
            log.event("launchers_attached", launchers=len(attached), nodes=[hello.node for hello, _ in attached])
            return
        for hello, stream in attached:
            log.event(
                "launcher_attached",
                job=hello.spec.job_id,
                node=hello.node,
                incarnation=hello.incarnation,
                generation=hello.highest_generation,
                host=hello.host,
                pid=hello.pid,
                stream=stream,
            )

    def wake_if_fenced(self) -> None:
        """Wake every wait when another generation holds: what waits under an older token is to be refused."""
        fenced = self.published.durable.fenced
        if fenced != self._fenced:
            self._fenced = fenced
            self.waits.wake_all()

    @staticmethod
    @asynccontextmanager
    async def within(limit_s: float) -> AsyncIterator[asyncio.Timeout]:
        """A block that is left quietly when its time is over."""
        try:
            async with asyncio.timeout(limit_s) as limit:
                yield limit
        except TimeoutError:
            if not limit.expired():
                raise


def _unready(failure: JournalFailed) -> Unready:
    return Unready(Because(Reason.JOURNAL_FAILED, str(failure)))
