"""The session of a worker: what a training script says to its launcher.

Decides when the SDK is armed: a page that is there, of this layout, and not another living process's. Otherwise, and in
a forked child, every call does nothing. Never raises into the training loop, never blocks or slows it: a beat is three
stores into the shared page. The fence alone may wait and raise, because writing without the right to do so is worse;
and the question whether to stop waits while ranks agree on the step.
Effects: the page's cells, and frames by the link.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from types import TracebackType
from typing import Any

from resurge import control, death_lock, errors, evidence, script_end
from resurge.control import UNASKED, WorkloadAction, WorkloadControlRequest
from resurge.environment import WorkerEnvironment, read_environment
from resurge.fencing import Fence, FenceLost, FenceState, judge
from resurge.frames import TEXT_LIMIT, ControlAnswer, Crashed, Event, Milestone, Spared, Speaker
from resurge.link import Link
from resurge.own_page import own_page
from resurge.page import Cell, PageWriter, cell_value
from resurge.phases import OpenPhases, PhaseScope
from resurge.settable_limits import SettableLimits, as_ns
from resurge.stopping import STOP_WAIT_S, StopQuestion

_log = logging.getLogger("resurge")
_monotonic_ns = time.monotonic_ns
_FENCE_LOOK_S = 0.01
_NO_PHASE: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
_NOT_A_NUMBER = (TypeError, ValueError, OverflowError, RuntimeError)

# Plain numbers: indexing by a member of an enum costs a beat as much again.
_BEAT_NS, _BEAT_STEP, _BEAT_COUNT = int(Cell.BEAT_NS), int(Cell.BEAT_STEP), int(Cell.BEAT_COUNT)
_BEAT_LIMIT_NS = int(Cell.BEAT_LIMIT_NS)
_COMMIT_NS, _COMMITTED_STEP = int(Cell.COMMIT_NS), int(Cell.COMMITTED_STEP)


class Session(SettableLimits):
    """One worker's side of the contract. Made by `resurge.session()`; there is one in a process."""

    def __init__(self, environment: WorkerEnvironment) -> None:
        self._environment = environment
        self._pid = os.getpid()
        self._page = own_page(environment.page, self._pid)
        # What "armed" means. A forked child loses it, and keeps the page to read its fence from.
        self._cells = self._page.cells if self._page is not None else None
        self._lock = threading.RLock()
        self._beat_count = 0
        self._steps_here = 0
        self._first_step_told = False
        self._told: set[str] = set()
        self._depth = 0
        self._is_quick_exit = False
        self._stop = StopQuestion()
        if self._page is None:
            return
        self._phases = OpenPhases(self._page, self.beat)
        self._link = Link(environment.socket, self._speaker())
        evidence.answer_probes(environment.page)
        self._page.set_stacks_signal(evidence.offer_stacks(environment.page))
        self._page.set_first_beat_limit(as_ns(environment.limits.first_beat_s))
        self._page.attached(self._pid, _monotonic_ns())
        death_lock.hold(environment.page)
        self.set_beat_limit(environment.beat_limit_s)

    @property
    def armed(self) -> bool:
        """True when a launcher looks at this worker's page."""
        return self._cells is not None

    def beat(self, step: int | None = None) -> None:
        """The worker is alive, at this step of training if one is given."""
        cells = self._cells
        if cells is None:
            return
        try:
            if step is not None:
                cells[_BEAT_STEP] = step + 1
            self._beat_count = count = self._beat_count + 1
            cells[_BEAT_COUNT] = count
            cells[_BEAT_NS] = _monotonic_ns()
            if count == 1:
                self._tell_short_limit(cells[_BEAT_LIMIT_NS])
        except _NOT_A_NUMBER as error:
            self._complain("beat", step, error)

    def watch_end(self) -> None:
        """Under a launcher, leave uncaught exceptions in the error file, and tell when the script is over."""
        if self._page is not None and self.armed:
            errors.install(self._environment.error_file, lambda: self._is_quick_exit and self.armed)
            script_end.tell(self._page, self._phases, self._link, self._speaker())

    def set_quick_exit(self, is_wanted: bool) -> None:
        """End right after an uncaught exception was told, without Python's tidying up and its atexit functions."""
        self._is_quick_exit = is_wanted

    def phase(self, name: str, limit: float | None = None) -> contextlib.AbstractContextManager[None]:
        """A stretch of work with a name; with a limit in seconds, that one holds inside instead of the beats'.

        Without a limit the one that the launcher was given for a section of this name, if any. Leaving it counts as a
        beat.
        """
        if self._cells is None:
            return _NO_PHASE
        if limit is None:
            limit = self.limits.section_s(str(name), self._steps_here)
        return self._scope(str(name), limit)

    def _scope(self, name: str, limit_s: float | None) -> PhaseScope:
        return PhaseScope(self._phases, name, as_ns(limit_s), self._tell_short_limit)

    def process_group_ready(self) -> None:
        """The process group of this worker works. The first call counts."""
        if self._cells is not None and self._page is not None and self._first("process_group_ready"):
            now_ns = _monotonic_ns()
            self._page.process_group_ready(now_ns)
            self._link.send(Milestone(self._speaker(), "process_group_ready", now_ns))

    def checkpoint_restored(self, step: int) -> None:
        """The state of training is that of this step; 0 when there was no checkpoint. The first call counts."""
        if self._cells is None or self._page is None:
            return
        try:
            restored_step = cell_value(int(step))
        except _NOT_A_NUMBER as error:
            self._complain("checkpoint_restored", step, error)
            return
        if self._first("checkpoint_restored"):
            now_ns = _monotonic_ns()
            self._page.checkpoint_restored(restored_step, now_ns)
            self._link.send(Milestone(self._speaker(), "checkpoint_restored", now_ns, restored_step))

    def step_committed(self, step: int) -> None:
        """The optimizer has done this step. It is a beat too; the first one ends a recovery."""
        cells = self._cells
        if cells is None:
            return
        try:
            cells[_COMMITTED_STEP] = cells[_BEAT_STEP] = step + 1
            self._steps_here += 1
            self._beat_count = count = self._beat_count + 1
            cells[_BEAT_COUNT] = count
            cells[_COMMIT_NS] = cells[_BEAT_NS] = now_ns = _monotonic_ns()
            if not self._first_step_told:
                self._tell_first_step(int(step), now_ns)
                self._tell_short_limit(cells[_BEAT_LIMIT_NS])
        except _NOT_A_NUMBER as error:
            self._complain("step_committed", step, error)

    def should_stop(self) -> bool:
        """Whether to save a checkpoint and leave the loop now: the job is to end, or this run of it.

        Ask on every rank after each committed step: all ranks get True at the same step, and from then on always.
        Leave by exit code 0. In the moment of agreement it may wait, for some milliseconds as a rule. Without a
        launcher it is always False.
        """
        cells = self._cells
        if cells is None:
            return False
        return self._stop.ask(cells, self._waiting_to_stop)

    def _waiting_to_stop(self) -> PhaseScope:
        return self._scope("resurge.should_stop", STOP_WAIT_S + 1.0)

    def event(self, name: str, **fields: str | int | float | bool) -> None:
        """Have something noted by the launcher; lost if the launcher does not listen."""
        if self._cells is not None:
            self._link.send(Event(self._speaker(), name, _monotonic_ns(), fields))

    def crashed(self, error: str, at_ns: int, kill_in_s: float) -> None:
        """The loop of this rank raised; the launcher ends its world too, that long after the instant."""
        if self._cells is not None:
            kill_in_ms = max(0, round(1000 * kill_in_s))
            self._link.send(Crashed(self._speaker(), error[:TEXT_LIMIT], kill_in_ms, at_ns))

    def spared(self) -> None:
        """The crash was delivered: nobody is to be ended for it."""
        if self._cells is not None:
            self._link.send(Spared(self._speaker()))

    def fence(self, wait: float | None = None, strict: bool = True) -> Fence:
        """May this worker write in the name of its generation now? Answered from the launcher's lease, without a call.

        HOLDS says for how many seconds. When the lease is over (the launcher has lost the control plane), waits up to
        `wait` seconds for it to come back (without it, as long as the launcher set); then raises FenceLost, or with
        strict=False answers UNKNOWN. Raises FenceLost at once when the generation is fenced. Without a launcher it
        HOLDS for ever.
        """
        if self._page is None:
            return _fence_without_page(self._environment.page, strict)
        answer = _judged(self._page)
        if answer.holds:
            return answer
        wait_s = self._environment.fence_wait_s if wait is None else wait
        with self.phase("resurge.fence", limit=wait_s + 1.0):
            until_ns = _monotonic_ns() + as_ns(wait_s)
            while not answer.holds and _monotonic_ns() < until_ns:
                time.sleep(_FENCE_LOOK_S)
                answer = _judged(self._page)
        if answer.holds or not strict:
            return answer
        raise FenceLost("LEASE_OVER", f"the launcher's lease is over and did not come back within {wait_s:g} s")

    def stop_restarting(self, reason: str, wait: float = control.WAIT_S) -> ControlAnswer:
        """Ask that the job ends and is not restarted; then leave, by raising what is wrong.

        Every launcher ends with 0 if no rank had failed before, else with 1. Waits up to `wait` seconds for the answer.
        """
        return self._ask(WorkloadAction.ShutdownWorkload, reason, wait)

    def exclude_this_node(self, reason: str, wait: float = control.WAIT_S) -> ControlAnswer:
        """Ask that training goes on without this node; then leave, by raising what is wrong.

        Not carried out where too few nodes would be left. Waits up to `wait` seconds for the answer.
        """
        return self._ask(WorkloadAction.ExcludeThisNode, reason, wait)

    def send_workload_control_request(self, request: WorkloadControlRequest) -> ControlAnswer:
        """As `stop_restarting` and `exclude_this_node`, by one request; Continue asks for nothing."""
        return self._ask(request.action, request.description, control.WAIT_S)

    def _ask(self, action: WorkloadAction, reason: str, wait_s: float) -> ControlAnswer:
        if self._cells is None:
            return self._ask_directly(action, reason, wait_s)
        with self.phase("resurge.control", limit=wait_s + 1.0):
            answer = control.ask(self._environment.socket, self._speaker(), action, reason, wait_s)
        _log.warning("resurge: asked for %s (%s): %s", action.value, reason, answer.sentence)
        return answer

    def _ask_directly(self, action: WorkloadAction, reason: str, wait_s: float) -> ControlAnswer:
        told = self._environment
        if told.page or not told.endpoint or os.getpid() != self._pid:
            return UNASKED
        from resurge import direct  # only where there is no launcher, and the services are: it imports gRPC

        with direct.Services(direct.Where.of(told)) as services:
            return services.ask(action, reason, wait_s)

    def close(self) -> None:
        """Training is done: no beat is due any more."""
        if self._page is not None and self._cells is not None:
            self._page.closed(_monotonic_ns())

    def __enter__(self) -> Session:
        self._depth += 1
        if self._depth == 1 and self._page is not None and self._cells is not None:
            self._page.closed(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        # A worker that leaves by an exception may still hang while it dies: its limits stay.
        if self._depth == 0 and kind is None:
            self.close()

    def disarm(self) -> None:
        """Do nothing from now on. What happens in a forked child: the page and the link are its parent's."""
        if self._cells is not None:
            self._cells = None
            self._phases.disarm()
            self._link.close()

    def _speaker(self) -> Speaker:
        told = self._environment
        return Speaker(self._pid, told.rank, told.generation, told.traceparent)

    def _first(self, name: str) -> bool:
        with self._lock:
            if name in self._told:
                return False
            self._told.add(name)
            return True

    def _tell_first_step(self, step: int, now_ns: int) -> None:
        if self._page is not None and self._first("first_step"):
            self._page.first_committed(step, now_ns)
            self._link.send(Milestone(self._speaker(), "first_step", now_ns, step))
        self._first_step_told = True

    def _complain(self, call: str, value: Any, error: Exception) -> None:
        if self._first(f"complaint about {call}"):
            _log.warning("resurge: %s(%r) is ignored, a step is a whole number from 0: %s", call, value, error)


_current: Session | None = None
_current_lock = threading.RLock()
"""Taken again by a signal's handler that asks for the session while the first one is made."""


def session(beat_limit: float | None = None, quick_exit: bool | None = None) -> Session:
    """The session of this process, made at the first call; later calls give the same one.

    `beat_limit`: beats further apart than this, in seconds, mean that the worker hangs. Without it, what the launcher
    set applies. `quick_exit`: under a launcher, end right after an uncaught exception has been told, without Python's
    tidying up and without atexit functions; peers are helped that much sooner.
    The result may be used with or without `with`; the outermost `with` closes it.
    """
    global _current
    with _current_lock:
        if _current is None:
            made = Session(read_environment())
            if _current is None:
                _current = made
                made.watch_end()
        current = _current
    if beat_limit is not None:
        current.set_beat_limit(beat_limit)
    if quick_exit is not None:
        current.set_quick_exit(quick_exit)
    return current


def fence(wait: float | None = None, strict: bool = True) -> Fence:
    """`session().fence(...)`: may this worker write in the name of its generation now? May raise FenceLost."""
    return session().fence(wait, strict)


def send_workload_control_request(request: WorkloadControlRequest) -> ControlAnswer:
    """`session().send_workload_control_request(...)`: ask to stop restarting, or to go on without this node."""
    return session().send_workload_control_request(request)


def _judged(page: PageWriter) -> Fence:
    cells = page.cells
    return judge(fenced=bool(cells[Cell.FENCED]), lease_until_ns=cells[Cell.LEASE_UNTIL_NS], now_ns=_monotonic_ns())


def _fence_without_page(told_path: str, strict: bool) -> Fence:
    if not told_path:
        return Fence(FenceState.HOLDS, math.inf)
    if strict:
        raise FenceLost("NO_PAGE", "a launcher is there, but this process has no page to read its lease from")
    return Fence(FenceState.UNKNOWN, 0.0)


def _after_fork_in_child() -> None:
    global _current_lock
    _current_lock = threading.RLock()
    if _current is not None:
        _current.disarm()


os.register_at_fork(after_in_child=_after_fork_in_child)
