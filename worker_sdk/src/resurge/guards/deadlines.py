"""A deadline around a block that may block in native code: past it, the groups are aborted from another thread.

Decides the outcome of each guard once: the block's end, a stand-down, an order or the deadline, whichever is first to
take it out of the set of the armed. The end of a block in time, as of almost every step of a training, takes no lock.
`fired` is set before the first abort, because an aborted collective may return as if all were well; it is the flag, not
an exception, that tells. Effects: the process's timer; threads for the aborts (abort_work.py).
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar, cast

from resurge.guards.abort_work import AbortWork
from resurge.guards.aborted import CollectiveAborted
from resurge.guards.groups import Abortable
from resurge.guards.listening import Ear
from resurge.guards.timer import TIMER
from resurge.orders import Order

JOIN_LIMIT_S = 5.0
"""How long leaving a guard that fired waits for its own aborts."""
_log = logging.getLogger("resurge")
_monotonic = time.monotonic
P = ParamSpec("P")
R = TypeVar("R")


class Outcome(Enum):
    """How a guard ended."""

    NOT_ARMED = "not_armed"
    """There was no limit, or nothing to abort."""
    OPEN = "open"
    """It has not ended."""
    COMPLETED = "completed"
    """The block ended first, well or by an error of its own."""
    STOOD_DOWN = "stood_down"
    """It was told that the wait ends by itself."""
    ABORTED = "aborted"
    """The deadline passed first."""
    ORDERED = "ordered"
    """An order of the launcher came first: a rank has died, or the guard of another one has fired."""
    LATE_STAND_DOWN = "late_stand_down"
    """The deadline passed, and then it was told."""


ARMED: set[Deadline] = TIMER.armed
"""The guards that are armed and undecided: who takes one out decides its outcome, and that can be one alone."""
_DECIDED: set[Deadline] = set()
"""Those that are entered still, but whose outcome another thread has decided."""
_DECIDING = threading.RLock()
"""Held to decide an outcome, except by the end of the block, which needs no lock but where another was first."""
# In a training step all of this is cold, and each look into another object costs: hence the plain names.
_NOT_ARMED, _OPEN, _COMPLETED = Outcome.NOT_ARMED, Outcome.OPEN, Outcome.COMPLETED
_DEBUG = logging.DEBUG
_is_said = _log.isEnabledFor


class Deadline:
    """The guard of one block; made by `deadline`. For one use: a guard that has ended does not arm again."""

    __slots__ = (
        "__weakref__",
        "_entered_until_s",
        "_fans_out",
        "_fired",
        "_groups",
        "_order",
        "_outcome",
        "_phase",
        "_raises",
        "_timeout_s",
        "_was_told",
        "_work",
        "due_s",
    )
    due_s: float
    """From the entry on: when it is due, of time.monotonic()."""
    error_type: ClassVar[type[CollectiveAborted]] = CollectiveAborted
    needs_groups: ClassVar[bool] = False
    obeys: ClassVar[bool] = True
    """Whether the launcher's orders and `stand_down_all` are for it; a controller of its own may want both itself."""
    says_first: ClassVar[bool] = False
    """Whether it is said that the guard fired before the first abort, and not beside it."""

    def __init__(
        self,
        groups: Abortable | Iterable[Abortable | None] | None,
        timeout_s: float | None,
        phase: str,
        raise_: bool,
        fan_out: bool,
    ) -> None:
        one: Any = groups
        is_one = callable(getattr(one, "abort", None))
        self._groups: tuple[Abortable, ...] = (one,) if is_one else _as_groups(groups)
        self._timeout_s = limit_s = timeout_s or 0.0
        self._phase = phase
        self._raises = raise_
        self._fans_out = fan_out
        self._fired = self._was_told = False
        self._entered_until_s = 0.0
        self._outcome = _OPEN if limit_s > 0 and (self._groups or not self.needs_groups) else _NOT_ARMED
        if limit_s > 0 and not is_one:
            _check(self._groups)

    @property
    def armed(self) -> bool:
        """Whether there is a positive limit and what it needs; the same for the guard's whole life."""
        return self._outcome is not _NOT_ARMED

    @property
    def fired(self) -> bool:
        """Whether the deadline passed first; set before the first abort, readable after the block."""
        return self._fired

    @property
    def partial(self) -> bool:
        """Whether what the block received is suspect: a mix of old and new."""
        return self._fired

    @property
    def outcome(self) -> Outcome:
        """How it ended, or OPEN."""
        return self._outcome

    @property
    def phase(self) -> str:
        """The name of what is guarded."""
        return self._phase

    def stand_down(self) -> None:
        """The wait ends by itself (its peer is known to be dead): abort nothing. Late, it changes the outcome only.

        Where a group says that a death does not end all of its waits, the deadline is brought nearer instead.
        """
        grace_s = self._grace_s()
        with _DECIDING:
            self._was_told = True
            if self._outcome is Outcome.ABORTED:
                self._outcome = Outcome.LATE_STAND_DOWN
            elif grace_s <= 0 and self._outcome is not _NOT_ARMED and (not self._entered_until_s or self._take()):
                self._outcome = Outcome.STOOD_DOWN
        # without a grace it is due at no other time: one that is just being entered is taken out by its entry
        is_nearer = grace_s > 0 and self._outcome is _OPEN and self._entered_until_s
        if is_nearer and (at_s := _monotonic() + grace_s) < self.due_s:
            self.due_s = at_s
            TIMER.sooner(at_s)

    def covers(self, group: Abortable) -> bool:
        """Whether this group would be aborted."""
        return any(own is group for own in self._groups)

    def __enter__(self) -> Self:
        if self._outcome is _NOT_ARMED:
            self._say_not_armed("no groups were passed" if self._timeout_s > 0 else "no deadline is configured")
            return self
        if self._entered_until_s:
            raise RuntimeError("a guard is entered once; make another one for the next block")
        groups = self._groups
        if not EAR.begun and groups and self.obeys:
            EAR.begin()
        if _is_said(_DEBUG):
            _log.debug("resurge: guard of %s armed: %s s, %d groups", self._name(), self._timeout_s, len(groups))
        self.due_s = self._entered_until_s = at_s = _monotonic() + self._timeout_s
        try:
            for group in groups:
                if (enter := getattr(group, "enter_guard", None)) is not None:
                    enter(at_s)
            # with that the clock runs; whoever stands down in this instant finds it, or is found below
            ARMED.add(self)
            if at_s < TIMER.wakes_at_s:
                TIMER.sooner(at_s)
            if self._was_told:
                self.stand_down()
        except BaseException:
            ARMED.discard(self)
            _DECIDED.discard(self)
            self._leave_groups()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outcome is _NOT_ARMED:
            return
        try:
            try:
                ARMED.remove(self)
            except KeyError:
                self._leave_decided()
            else:
                self._outcome = Outcome.STOOD_DOWN if self._was_told else _COMPLETED
            if self._fired:
                self._work.wait(JOIN_LIMIT_S)
        finally:  # whatever a signal's handler raises in between: the groups must not be held to this deadline for good
            # _leave_groups, written out: the call would cost a training step more than the rest of it
            for group in self._groups:
                if (leave := getattr(group, "leave_guard", None)) is not None:
                    leave(self._entered_until_s)
            self._groups = ()
        if self._fired:
            self._raise(error)

    def _raise(self, error: BaseException | None) -> None:
        """What a guard that fired says at its end."""
        if error is None and self._raises:
            raise self.error_type(self._why())
        if isinstance(error, Exception) and not isinstance(error, self.error_type):
            raise self.error_type(f"{self._why()}; {type(error).__name__} is a consequence of that: {error}") from error

    def _why(self) -> str:
        if self._order:
            return f"{self._name()} was aborted by order: {self._order}"
        return f"{self._name()} passed its deadline of {self._timeout_s:g} s and was aborted"

    def _take(self) -> bool:
        """Whether the outcome is the caller's to decide, who holds the lock; not before it is entered."""
        if self in _DECIDED:
            return False
        # first there, then here: it is never missing in both
        _DECIDED.add(self)
        try:
            ARMED.remove(self)
        except KeyError:
            _DECIDED.discard(self)
            return False
        return True

    def _leave_decided(self) -> None:
        """The end of a block whose outcome was decided: wait until it is written down."""
        with _DECIDING:
            _DECIDED.discard(self)
            if self._outcome is _OPEN:
                # of the parent of this process, before it forked
                self._outcome = _COMPLETED

    def _grace_s(self) -> float:
        return max((getattr(group, "stand_down_grace_s", 0.0) for group in self._groups), default=0.0)

    def _leave_groups(self) -> None:
        for group in self._groups:
            if (leave := getattr(group, "leave_guard", None)) is not None:
                leave(self._entered_until_s)

    def is_meant(self, phase: str) -> bool:
        """Whether an order for this phase, empty for all, is for this guard."""
        return self.obeys and bool(self._groups) and phase in ("", self._phase)

    def order(self, sentence: str) -> bool:
        """Abort now, because somebody knows that the wait is in vain; False where it has ended already."""
        return self._fire(Outcome.ORDERED, sentence)

    def expire(self) -> None:
        """On the timer's thread: short, nothing here may block."""
        groups = self._groups
        if self._fire(Outcome.ABORTED) and self._fans_out and groups:
            EAR.tell_fired(self._phase)

    def _fire(self, outcome: Outcome, order: str = "") -> bool:
        groups = self._groups
        work = AbortWork(functools.partial(self._say_fired, len(groups)), groups, self.says_first)
        with _DECIDING:
            # one that was stood down before it was entered is decided, though it stands among the armed for a moment
            if self._outcome is not _OPEN or not self._take():
                return False
            self._fired = True
            self._outcome = outcome
            self._order = order
            self._work = work
        work.start()
        return True

    def _name(self) -> str:
        return self._phase or "the guarded block"

    def _say_not_armed(self, why: str) -> None:
        _log.debug("resurge: guard of %s not armed: %s", self._name(), why)

    def _say_fired(self, groups: int) -> None:
        _log.error("resurge: %s, %d groups", self._why(), groups)


def deadline(
    timeout_s: float | None,
    groups: Abortable | Iterable[Abortable | None] | None = None,
    phase: str = "",
    raise_: bool = True,
    fan_out: bool = True,
) -> Deadline:
    """A guard for `with`: when the block takes longer than `timeout_s` seconds, its groups are aborted.

    None, zero and negative limits mean no guard at all. Leaving a guard that fired raises CollectiveAborted, with the
    block's own error as its cause; with `raise_=False` a block that returned quietly is told by `fired` alone. Without
    groups nothing can be released; the guard then tells at its end that it was late.

    Under a launcher the groups are aborted as well when a rank has died, and when the guard of another rank, with the
    same `phase`, has fired; an infinite limit waits for that alone. `fan_out=False`: the firing is told to nobody.
    """
    return Deadline(groups, timeout_s, phase, raise_, fan_out)


def bounded(
    timeout_s: float | None, groups: Abortable | Iterable[Abortable | None] | None = None, phase: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: every call of the function, plain or async, runs under a deadline of its own."""
    members = _as_groups(groups)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = phase or getattr(function, "__qualname__", "call")

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with deadline(timeout_s, members, name):
                return function(*args, **kwargs)

        @functools.wraps(function)
        async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            with deadline(timeout_s, members, name):
                return await cast(Any, function(*args, **kwargs))

        return cast(Callable[P, R], run_async) if inspect.iscoroutinefunction(function) else run

    return decorate


def stand_down_all(group: Abortable | None = None) -> int:
    """Stand down every armed guard made by `deadline`, or those that cover this group; gives their number."""
    entered = ARMED.copy() | _DECIDED.copy()
    armed = [guard for guard in entered if guard.obeys and (group is None or guard.covers(group))]
    for guard in armed:
        guard.stand_down()
    return len(armed)


def obey(order: Order) -> int:
    """Abort the groups of every armed guard that an order means, unless it comes too late; gives their number."""
    if order.until_ns and time.monotonic_ns() >= order.until_ns:
        _log.debug("resurge: an order came too late: %s", order.sentence)
        return 0
    return sum(guard.order(order.sentence) for guard in ARMED.copy() if guard.is_meant(order.phase))


EAR = Ear(obey)
"""Hears the launcher's orders for this process."""


def _as_groups(groups: Abortable | Iterable[Abortable | None] | None) -> tuple[Abortable, ...]:
    if groups is None:
        return ()
    if callable(getattr(groups, "abort", None)):
        return (cast(Abortable, groups),)
    return tuple(group for group in cast(Iterable[Abortable | None], groups) if group is not None)


def _check(groups: Iterable[object]) -> None:
    for group in groups:
        if not callable(getattr(group, "abort", None)):
            raise TypeError(f"a {type(group).__name__} cannot be guarded: a group needs a method abort()")


def _after_fork_in_child() -> None:
    # what the parent guards is the parent's: its timer and its threads did not come along
    cast(Any, _DECIDING)._at_fork_reinit()
    _DECIDED.clear()
    TIMER.forget()
    EAR.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
