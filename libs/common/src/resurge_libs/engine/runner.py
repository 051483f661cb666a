"""Runs one pure machine under asyncio. Decides nothing: it orders what others decide.

The order that must hold, for each event: step (pure), append the facts to the journal, and only when they are
durable: replies and effects, in the order of the steps. Steps are pipelined: the next event is stepped while the
journal writes, one batch per turn of the loop. A step without facts waits behind earlier ones, so that no reply
reveals a decision that could still be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from resurge_libs.core import codec
from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.machine import Machine, Step
from resurge_libs.core.refusals import InternalFault, Overloaded, RpcProblem
from resurge_libs.engine.crowds import Crowds, RationedDigest, Turns, next_group
from resurge_libs.engine.outlet import Asked, Outgoing, Outlet, Waiting, all_of, settle
from resurge_libs.engine.ports import Clock, Effects, Entry, Journal, JournalFailed, Snapshot
from resurge_libs.engine.replay import fact_record

S = TypeVar("S")
_log = logging.getLogger(__name__)

MAX_EVENTS_PER_TURN = 256
"""After so many events the loop gets a turn, so that a flood cannot starve connections."""
SHORTEST_REARM_S = 0.001
"""A machine whose deadline stays in the past ticks at this rate at most."""
PULSE_S = 0.25
"""With a deadline ahead, the engine looks at the clock so often, to notice a pause of its process."""
AFTER_PAUSE_S = 0.05
"""After a pause, what arrived meanwhile gets so long to reach the inbox before expiry is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How one engine runs its machine. The event factories come from the machine's own package."""

    tick: Callable[[], Any]
    """Makes the event that says: a deadline passed."""
    paused: Callable[[float], Any] | None = None
    """Makes the event that says: this process did not run for so many seconds."""
    crowds: Crowds | None = None
    """With it, events that wait together are stepped together: one step, one journal entry."""
    late_tick_s: float = 0.5
    snapshot_every: int = 1000
    max_pending: int = 100_000
    rules_version: int = 1
    settings_digest: bytes = b""
    on_step: Callable[[Any, Step[Any]], None] | None = None
    """Called for each step after it is durable, before its actions: publish and log here."""
    on_rejected: Callable[[Any, BaseException], None] | None = None
    """Called once for each event on which `step` raised something other than a refusal."""
    on_failed: Callable[[JournalFailed], None] | None = None
    """Called once when the journal failed: the process should exit with a named error."""


class Engine(Generic[S]):
    """Owns one machine's state in one event loop. All methods belong to that loop's thread."""

    def __init__(
        self, machine: Machine[S], state: S, journal: Journal, effects: Effects, clock: Clock, options: EngineOptions
    ) -> None:
        self._machine, self._journal, self._clock, self._options = machine, journal, clock, options
        self._outlet = Outlet(effects, options.on_step, state)
        self._state = state
        self._seq = 0
        self._inbox: deque[Asked] = deque()
        self._batch: list[Entry] = []
        self._snapshot: Snapshot | None = None
        self._outgoing: list[Outgoing] = []
        self._in_flight: deque[tuple[Future[None], list[Outgoing]]] = deque()
        self._digests = RationedDigest(clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: Instant | None = None
        self._not_before: Instant | None = None
        self._turns = Turns(self._turn, clock, options.crowds)
        self._failure: JournalFailed | None = None
        self._stopped = False

    @property
    def state(self) -> S:
        """The state after the last step; its facts may not be durable yet, so never show it to others."""
        return self._state

    @property
    def published(self) -> S:
        """The state after the last durable step: what others may see."""
        return cast(S, self._outlet.published)

    @property
    def failure(self) -> JournalFailed | None:
        """Why the engine stopped deciding, if it did."""
        return self._failure

    def start(self, last_seq: int = 0, recorded_rules_version: int | None = None) -> None:
        """Begin in the running loop, numbering entries after `last_seq`.

        A journal that was last written under other rules gets a snapshot at once, so that those are not replayed again.
        """
        self._loop = asyncio.get_running_loop()
        self._seq = last_seq
        if last_seq > 0 and recorded_rules_version not in (None, self._options.rules_version):
            durable = cast(Any, self._state).durable
            version = self._options.rules_version
            self._journal.snapshot(Snapshot(last_seq, codec.encode(durable), self._digests.of(durable), version))
        self._plan_turn()

    def post(self, event: Any, reply: Waiting | None = None) -> None:
        """Put an event into the inbox, with who waits for the answer. Raises JournalFailed once the engine stopped
        deciding, Overloaded when full."""
        self._put(Asked(event, reply))

    def ask(self, event: Any) -> asyncio.Future[Any]:
        """Put an event into the inbox; the future gets the step's Reply once it is durable.

        Its result is None for a step that replies nothing. It raises what `step` raised as a refusal, InternalFault
        when `step` failed, and JournalFailed when the decision could not be made durable.
        """
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(Asked(event, reply))
        return reply

    async def stop(self) -> None:
        """Step what is in the inbox, wait until it is durable and its effects have run, then stop."""
        while (self._inbox or self._in_flight or self._outgoing) and self._failure is None:
            self._turn()
            if self._in_flight:
                await asyncio.wait([asyncio.wrap_future(future) for future, _ in self._in_flight])
            await asyncio.sleep(0)
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # one turn: late clock, inbox, tick, journal

    def _put(self, asked: Asked) -> None:
        if self._failure is not None:
            raise self._failure
        if self._stopped:
            raise InternalFault("the engine has stopped")
        if len(self._inbox) >= self._options.max_pending:
            raise Overloaded(what="events")
        self._inbox.append(asked)
        self._plan_turn(asked.event)

    def _plan_turn(self, event: Any = None) -> None:
        if self._loop is not None:
            self._turns.plan(self._loop, event, len(self._inbox), len(self._in_flight))

    def _turn(self) -> None:
        now = self._clock.monotonic()
        self._turns.begun(now)
        if self._failure is not None or self._stopped:
            return
        self._notice_pause(now)
        left = min(MAX_EVENTS_PER_TURN, len(self._inbox))
        while left > 0:
            left -= self._apply_next(left, now)
        if self._inbox:
            self._plan_turn()  # expiry is judged only when the inbox is empty
        else:
            self._tick_if_due(now)
        self._flush()
        self._arm(now)

    def _notice_pause(self, now: Instant) -> None:
        if self._timer_due is None:
            return
        late_s = now - self._timer_due
        if late_s <= self._options.late_tick_s:
            return
        self._timer_due = None
        self._not_before = Instant(now + AFTER_PAUSE_S)
        if self._options.paused is not None:
            self._apply(Asked(self._options.paused(late_s), None), now)

    def _tick_if_due(self, now: Instant) -> None:
        deadline = self._machine.next_deadline(self._state)
        if deadline is None or deadline > now:
            return
        if self._not_before is not None and now < self._not_before:
            return
        self._not_before = None
        self._apply(Asked(self._options.tick(), None), now)

    def _arm(self, now: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_due = None
        deadline = self._machine.next_deadline(self._state)
        if deadline is None or self._loop is None or self._failure is not None:
            return
        wait_s = max(SHORTEST_REARM_S, min(deadline - now, PULSE_S))
        if self._not_before is not None:
            wait_s = max(wait_s, self._not_before - now)
        self._timer_due = Instant(now + wait_s)
        self._timer = self._loop.call_later(wait_s, self._turn)

    def _apply_next(self, most: int, now: Instant) -> int:
        """One event, or several that may be taken together; how many."""
        group = next_group(self._inbox, most, self._options.crowds)
        if len(group) == 1 or not self._apply_together(group, now):
            for asked in group:
                self._apply(asked, now)
        return len(group)

    def _apply_together(self, group: Sequence[Asked], now: Instant) -> bool:
        """Step several events as one; False where that failed, and each must be looked at alone."""
        assert self._options.crowds is not None, "without it events stay alone"
        event = self._options.crowds.of([one.event for one in group])
        try:
            step = self._machine.step(self._state, event, now)
            entry = _entry(event, step, self._seq + 1, self._clock.wall(), self._options)
        except Exception:  # the root of one crowd: which of its events it was shows when each is stepped alone
            return False
        self._keep(Asked(event, all_of([one.reply for one in group if one.reply is not None])), step, entry)
        return True

    def _apply(self, asked: Asked, now: Instant) -> None:
        try:
            step = self._machine.step(self._state, asked.event, now)
            entry = _entry(asked.event, step, self._seq + 1, self._clock.wall(), self._options)
        except RpcProblem as refusal:
            self._outgoing.append(Outgoing(asked, None, refusal))
            return
        except Exception as error:  # the root of one event: answered INTERNAL, not stored, so no restart meets it again
            self._rejected(asked, error)
            return
        self._keep(asked, step, entry)

    def _keep(self, asked: Asked, step: Step[S], entry: Entry | None) -> None:
        self._state = step.state
        if entry is not None:
            self._seq = entry.seq
            self._batch.append(entry)
            if entry.seq % self._options.snapshot_every == 0:
                self._snapshot = self._snapshot_of(step.state, entry)
        self._outgoing.append(Outgoing(asked, step))

    def _snapshot_of(self, state: Any, entry: Entry) -> Snapshot:
        durable = state.durable
        return Snapshot(entry.seq, codec.encode(durable), self._digests.of(durable), entry.rules_version)

    def _rejected(self, asked: Asked, error: Exception) -> None:
        self._outgoing.append(Outgoing(asked, None, InternalFault(f"{type(asked.event).__name__}: {error!r}")))
        if self._options.on_rejected is not None:
            self._options.on_rejected(asked.event, error)
        else:
            _log.error("event_rejected event=%s", type(asked.event).__name__, exc_info=error)

    # durability, then effects

    def _flush(self) -> None:
        if self._batch:
            self._batch[-1] = self._digests.on(self._batch[-1], cast(Any, self._state).durable)
            future = self._journal.append(tuple(self._batch))
            self._in_flight.append((future, self._outgoing))
            self._batch, self._outgoing = [], []
            if self._snapshot is not None:
                self._journal.snapshot(self._snapshot)
                self._snapshot = None
            if not future.done():
                future.add_done_callback(self._durable_from_thread)
                return
        if self._in_flight:
            self._in_flight[-1][1].extend(self._outgoing)
            self._outgoing = []
            self._durable()
        else:
            ready, self._outgoing = self._outgoing, []
            self._outlet.run(ready)

    def _durable_from_thread(self, future: Future[None]) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._durable)

    def _durable(self) -> None:
        while self._in_flight and self._in_flight[0][0].done():
            future, ready = self._in_flight[0]
            error = future.exception()
            if error is not None:
                self._fail(error)
                return
            self._in_flight.popleft()
            self._outlet.run(ready)

    def _fail(self, error: BaseException) -> None:
        failure = error if isinstance(error, JournalFailed) else JournalFailed(f"the journal failed: {error!r}")
        self._failure = failure
        waiting = [item.asked for _, ready in self._in_flight for item in ready]
        waiting += [item.asked for item in self._outgoing] + list(self._inbox)
        self._in_flight.clear()
        self._outgoing, self._batch = [], []
        self._inbox.clear()
        for asked in waiting:
            settle(asked.reply, error=failure)
        if self._timer is not None:
            self._timer.cancel()
        if self._options.on_failed is not None:
            self._options.on_failed(failure)
        else:
            _log.critical("journal_failed reason=%s", failure)


def _entry(event: Any, step: Step[Any], seq: int, at: Wall, options: EngineOptions) -> Entry | None:
    """What the journal remembers of a step; None for one without facts."""
    if not step.facts:
        return None
    return Entry(
        seq=seq,
        at=at,
        event=type(event).__name__,
        because=step.reason,
        facts=tuple(fact_record(fact) for fact in step.facts),
        state_digest=b"",
        rules_version=options.rules_version,
        settings_digest=options.settings_digest,
    )
