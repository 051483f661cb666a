"""The wrapper of a training function: join, run, and after a fault leave, tidy up, check, and join again.

Decides what becomes of this rank's error: an `Exception` breaks the iteration for all and is restarted from; what is
none, and `RestartAbort`, end this process, and the launcher restarts all. After a failed health check the others go on
without it. Ranks are given by a pure function from who is left. Effects: the environment's RANK and WORLD_SIZE, process
groups, the line.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from resurge import environment
from resurge.environment import WorkerEnvironment, read_environment
from resurge.guards.bounds import teardown_within
from resurge.guards.groups import Abortable
from resurge.inprocess.assignment import Assign, Order, shift_ranks
from resurge.inprocess.interrupting import Attempt, RankShouldRestart
from resurge.inprocess.line import Line, LineLost
from resurge.inprocess.stores import Meeting
from resurge.muster import INTERRUPT, OVER, REFUSED, START, Answer
from resurge.worker_session import session

TEARDOWN_S = 5.0
"""Of the groups of one iteration."""
ARRIVAL_LOOK_S = 0.002
NOBODY_RUNS = "the assignment of ranks has nobody run: too few are left for it"
_log = logging.getLogger("resurge")
R = TypeVar("R")


class RestartAbort(Exception):
    """Raised by the function: do not restart from this in place."""


@dataclass
class Call:
    """One call of the function, as its argument `call` where it has one."""

    iteration: int
    rank: int
    world_size: int
    initial_rank: int
    _attempt: Attempt
    _meeting: Meeting | None = None
    _group: Any = field(default=None, repr=False)

    def init_process_group(self, backend: str = "gloo", timeout_s: float = 600.0) -> Any:
        """Make the default process group of this iteration, fresh, and abort it when the iteration is interrupted.

        Gives the guard's group: `GlooGroup` or `TorchGroup`. No rank serves its store.
        """
        import torch.distributed as distributed

        from resurge.guards.torch_groups import abortable, open_gloo

        rank, size = self.rank, self.world_size
        # made before the group, so that it is not cut with it
        store = self._meeting.store(self.iteration, size, timeout_s) if self._meeting is not None else None

        def make() -> None:
            limit = timedelta(seconds=timeout_s)
            if store is None:
                distributed.init_process_group(backend, timeout=limit)
                return
            _arrive(store, rank, size, timeout_s)
            distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)

        if backend == "gloo":
            self._group = open_gloo(make)
        else:
            make()
            self._group = abortable(distributed.group.WORLD)
        self.add(self._group)
        return self._group

    def add(self, group: Abortable) -> None:
        """Abort this too when the iteration is interrupted."""
        self._attempt.add(group)

    def atomic(self) -> contextlib.AbstractContextManager[None]:
        """For what must be done whole, as putting a checkpoint in place: no restart interrupts it."""
        return self._attempt.atomic()


@dataclass(frozen=True)
class Wrapper:
    """How a function is restarted in place; a decorator."""

    min_world_size: int = 1
    """With fewer left the launcher restarts."""
    active_world_size: int | None = None
    """So many ranks run the function; the others are in reserve. None: all."""
    assign: Assign = shift_ranks
    max_iterations: int | None = None
    finalize: Callable[[], object] | None = None
    """After the function was left, before the health check: lets go of what it held."""
    health_check: Callable[[], object] | None = None
    """Raises where this rank can go on no more."""
    limit_s: float = 15.0
    """From a fault to the next start; then the launcher restarts."""
    replace_limit_s: float = 10.0
    """So long, within `limit_s`, the next start waits for a fresh process in the place of a lost rank, where the
    launcher keeps a fork server; then the others go on without it. 0: always without."""

    def __call__(self, function: Callable[..., R]) -> Callable[..., R | None]:
        """The function, restarted in place; None on a rank that ends in reserve."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> R | None:
            return _Run(self, functools.partial(function, *args, **kwargs), _takes_call(function)).run()

        return run


class _Run:
    """One run of a wrapped function, over all its iterations."""

    def __init__(self, plan: Wrapper, function: Callable[..., Any], takes_call: bool) -> None:
        self._plan, self._function, self._takes_call = plan, function, takes_call
        self._told: WorkerEnvironment = read_environment()
        self._order = Order(range(self._told.world_size))
        self._attempt: Attempt | None = None

    def run(self) -> Any:
        """Until an iteration is over; without a launcher there is one."""
        if not session().armed or not self._told.socket:
            return self._alone()
        try:
            line = Line(self._told, self._interrupt)
        except OSError as error:
            _log.warning("resurge: no restart in place, the launcher cannot be reached: %s", error)
            return self._alone()
        try:
            return self._iterate(line)
        finally:
            line.close()

    def _alone(self) -> Any:
        attempt = Attempt(0)
        return self._call(Call(0, self._told.rank, self._told.world_size, self._told.rank, attempt))

    def _iterate(self, line: Line) -> Any:
        iteration, last_error = 0, None
        while True:
            answer = self._joined(line, iteration)
            if answer.kind == REFUSED:
                _log.warning("resurge: no restart in place: %s", answer.sentence)
                return self._alone()
            iteration = answer.iteration  # one that takes a lost one's place comes to a later one than the first
            before = Order(range(self._told.world_size)) if answer.is_anew else self._order
            self._order = self._placed(before, answer.members)
            if not self._order.active:
                line.abort(iteration, NOBODY_RUNS)
                raise RestartAbort(NOBODY_RUNS)
            is_over, result, last_error = self._once(line, iteration, answer.number)
            self._let_go(last_error, is_over)
            if is_over:
                return result
            self._ready_again()
            iteration += 1
            if self._plan.max_iterations is not None and iteration >= self._plan.max_iterations:
                raise last_error or RestartAbort(f"{iteration} iterations have failed")

    def _placed(self, before: Order, members: Sequence[int]) -> Order:
        """The order of the members, and how many of them run: all that may, where the assignment does not say."""
        most = self._plan.active_world_size or 0
        order = self._plan.assign(before, members, most)
        if isinstance(order, Order) and order.active is not None:
            return order
        return Order(order, min(most or len(order), len(order)))

    def _joined(self, line: Line, iteration: int) -> Answer:
        """The launcher's answer; one that closes the line at the first word knows nothing of restarts in place."""
        try:
            with session().resting():
                line.join(iteration, self._plan.min_world_size, self._plan.limit_s, self._plan.replace_limit_s)
                return line.answer_to(iteration or None, (START, REFUSED))
        except LineLost as error:
            if iteration:
                raise
            return Answer(REFUSED, iteration, f"{error} (is it older than this SDK?)")

    def _once(self, line: Line, iteration: int, number: int) -> tuple[bool, Any, Exception | None]:
        """Whether it is over, what the function gave, and its error."""
        active = self._order.active or 0
        rank, me = self._order.index(self._told.rank), self._told.rank
        result, error = None, None
        if rank < active:
            environment.write_place(rank, active)
            attempt = self._attempt = Attempt(iteration)
            result, error = self._guarded(Call(iteration, rank, active, me, attempt, self._meeting(number)), line)
            if isinstance(error, RestartAbort):
                line.abort(iteration, _sentence(error))
                raise error
            if not attempt.sentence and error is None:
                line.done(iteration, active)
            elif not attempt.sentence:
                line.broken(iteration, _sentence(error))
        else:
            line.reserve(iteration)
        with session().resting():
            answer = line.answer_to(iteration, (OVER, INTERRUPT))
        if answer.kind == OVER:
            return True, result, None
        _log.warning("resurge: iteration %d of rank %d ends: %s", iteration, me, answer.sentence)
        return False, None, error

    def _guarded(self, call: Call, line: Line) -> tuple[Any, Exception | None]:
        attempt = call._attempt
        result: Any = None
        error: Exception | None = None
        try:
            try:
                early = line.heard(call.iteration, INTERRUPT)
                if early is not None:  # heard while there was no attempt to interrupt
                    attempt.interrupt(call.iteration, early.sentence)
                else:
                    result = self._call(call)
            except Exception as raised:  # task root: the function's own error, or what an abort made of it
                error = raised
            finally:
                attempt.left()
        except RankShouldRestart:  # raised into the function, or into the lines above in the last moment
            pass
        except BaseException as raised:  # as SystemExit: this process is to end
            with contextlib.suppress(LineLost):
                line.abort(call.iteration, _sentence(raised))
            raise
        return result, error

    def _call(self, call: Call) -> Any:
        return self._function(call=call) if self._takes_call else self._function()

    def _interrupt(self, iteration: int, sentence: str) -> None:
        attempt = self._attempt
        if attempt is not None:
            attempt.interrupt(iteration, sentence)

    def _meeting(self, number: int) -> Meeting:
        return Meeting(self._told, os.path.join(os.path.dirname(self._told.page), "inprocess"), number)

    def _let_go(self, error: Exception | None, is_over: bool) -> None:
        """Of the groups that the iteration has made: they end with it."""
        if error is not None:
            error.__traceback__ = None  # its frames hold the group
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            if not is_over:
                attempt.settle()
            for group in attempt.groups:
                group.abort()
            attempt.groups.clear()
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            teardown_within(distributed.destroy_process_group, TEARDOWN_S, "the groups of an iteration")

    def _ready_again(self) -> None:
        """Raises what the plan's own hooks raise: then this rank is gone on without."""
        if self._plan.finalize is not None:
            self._plan.finalize()
        gc.collect()
        if self._plan.health_check is not None:
            self._plan.health_check()


def _arrive(store: Any, rank: int, size: int, limit_s: float) -> None:
    """Wait until all ranks are about to connect: here an interrupt gets through, in torch's own wait none does."""
    until_s = time.monotonic() + limit_s
    store.set(f"arrived-{rank}", "")
    for each in range(size):
        while not store.check([f"arrived-{each}"]):
            if time.monotonic() > until_s:
                raise TimeoutError(f"rank {each} has not come to init_process_group within {limit_s:g} s")
            time.sleep(ARRIVAL_LOOK_S)


def _sentence(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"


def _takes_call(function: Callable[..., Any]) -> bool:
    import inspect

    return "call" in inspect.signature(function).parameters


__all__ = ["Call", "LineLost", "RestartAbort", "Wrapper"]
