"""What leaves an engine once a step is durable: observers, effects and replies, in the order of the steps.

Decides nothing. A broken observer or effect is logged and keeps nothing else from leaving.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from resurge_libs.core.machine import Reply, Step
from resurge_libs.engine.ports import Effects

_log = logging.getLogger(__name__)


class Waiting(Protocol):
    """Who waits for the answer to an event: a future, or whatever acts like one."""

    def done(self) -> bool:
        """Whether it waits no more."""
        ...

    def set_result(self, value: Any, /) -> None:
        """The step's reply, once it is durable."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Why there is none."""
        ...


class Asked:
    """An event, and who waits for its answer."""

    __slots__ = ("event", "reply")

    def __init__(self, event: Any, reply: Waiting | None) -> None:
        self.event, self.reply = event, reply


class Outgoing:
    """What leaves once all earlier steps are durable: the effects of a step, or a refusal."""

    __slots__ = ("asked", "error", "step")

    def __init__(self, asked: Asked, step: Step[Any] | None, error: BaseException | None = None) -> None:
        self.asked, self.step, self.error = asked, step, error


class Outlet:
    """Lets steps out; remembers the state after the last of them."""

    def __init__(self, effects: Effects, on_step: Callable[[Any, Step[Any]], None] | None, state: Any) -> None:
        self._effects, self._on_step = effects, on_step
        self.published = state

    def run(self, ready: Sequence[Outgoing]) -> None:
        """Let these out, in order."""
        for item in ready:
            if item.step is None:
                settle(item.asked.reply, error=item.error)
                continue
            self.published = item.step.state
            self._tell(item.asked.event, item.step)
            for action in item.step.actions:
                if isinstance(action, Reply):
                    settle(item.asked.reply, action.value)
                else:
                    self._carry_out(action)
            settle(item.asked.reply)

    def _tell(self, event: Any, step: Step[Any]) -> None:
        if self._on_step is None:
            return
        try:
            self._on_step(event, step)
        except Exception:  # the root of one observer: those who asked still get their answers
            _log.exception("observer_failed event=%s", type(event).__name__)

    def _carry_out(self, action: Any) -> None:
        try:
            self._effects.run(action)
        except Exception:  # the root of one effect: a broken one must not keep the others from running
            _log.exception("effect_failed action=%s", type(action).__name__)


class _All:
    """Several who wait for the same."""

    def __init__(self, waiting: Sequence[Waiting]) -> None:
        self._waiting = waiting

    def done(self) -> bool:
        return False

    def set_result(self, value: Any) -> None:
        for one in self._waiting:
            settle(one, value)

    def set_exception(self, error: BaseException) -> None:
        for one in self._waiting:
            settle(one, error=error)


def all_of(waiting: Sequence[Waiting]) -> Waiting | None:
    """One who waits for all of them; None for nobody."""
    return _All(waiting) if waiting else None


def settle(reply: Waiting | None, value: Any = None, error: BaseException | None = None) -> None:
    """Answer who waits, if anybody still does."""
    if reply is None or reply.done():
        return
    if error is not None:
        reply.set_exception(error)
    else:
        reply.set_result(value)
