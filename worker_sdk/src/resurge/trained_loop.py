"""A training loop that a framework runs, as its callbacks tell of it: what a step, a checkpoint and an end mean here.

`resurge.lightning` and `resurge.transformers` turn their framework's hooks into these calls. Decides which sections are
open, when a step counts as committed, when ranks ask whether to stop, and what is a crash: an error before the loop has
said that it is complete. Effects: the session, guards, the crash guard.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from resurge.crashing import CrashGuard
from resurge.guards.aborted import CollectiveAborted
from resurge.guards.deadlines import Deadline, deadline
from resurge.guards.groups import Abortable
from resurge.limits import STEP, WARMUP
from resurge.sections import CHECKPOINTING, EVALUATION, SECTIONS, SETUP, Sections
from resurge.worker_session import Session, session

if TYPE_CHECKING:
    from resurge.inprocess.wrapper import Call

_log = logging.getLogger("resurge")


class LoopEnd(Enum):
    """How a training loop ended."""

    COMPLETED = "completed"
    """It has done all its steps: leave with exit code 0, there is nothing to start again."""
    STOPPED = "stopped"
    """It was told to stop and has saved: leave with exit code 0, the job goes on elsewhere or later."""
    FAILED = "failed"
    """An error has left it."""


@dataclass(frozen=True)
class Protection:
    """What a callback watches, and by which limits. Without a launcher only guards and the crash guard work.

    Raises ValueError for a section that there is not, and for a limit that is no positive number of seconds.
    """

    sections: Mapping[str, float] = field(default_factory=dict)
    """Limits in seconds: setup, step, evaluation (of one batch), checkpointing (600), and warmup for the first steps.

    They come before the launcher's `--ft-rank-section-timeouts`. A section without one is left to the limit of beats.
    """
    out_of_section_s: float | None = None
    """Limit of the time between sections, as in loading data; None: as the launcher was told, else none."""
    learn: bool = False
    """Learn limits at each checkpoint and save them with it: the longest times of all ranks, times a factor."""
    deadlines: Mapping[str, float] = field(default_factory=dict)
    """Seconds after which a guard aborts `groups` inside a step, an evaluation batch, or a checkpoint; none without."""
    groups: Callable[[], Iterable[Abortable | None]] | None = None
    """Gives what to abort, once training begins; None: torch's default group, where its backend can abort."""
    crash_guard: bool = True
    """Whether an error that leaves the loop of one rank ends the others too; see `resurge.crash_guard`."""
    save_on_stop: bool = True
    """Whether to save a checkpoint when the loop is told to stop."""
    call: Call | None = None
    """Of a function that restarts in place: checkpoints are atomic then, and a crash is the wrapper's matter."""

    def __post_init__(self) -> None:
        """Check what was given."""
        _check("sections", self.sections, (*SECTIONS, WARMUP))
        _check("deadlines", self.deadlines, (STEP, EVALUATION, CHECKPOINTING))
        if self.out_of_section_s is not None:
            _check("out_of_section_s", {"": self.out_of_section_s}, ("",))


class TrainedLoop:
    """One loop; may begin anew after its end. Every call is made on the thread that trains."""

    def __init__(self, protection: Protection) -> None:
        self.end: LoopEnd | None = None
        """None while it runs, and before."""
        self.sections: Sections | None = None
        """None before the loop begins, and after its end."""
        self.is_told = False
        """Whether it was told to stop."""
        self._protection = protection
        self._session: Session | None = None
        self._crash: CrashGuard | None = None
        self._guard: Deadline | None = None
        self._groups: tuple[Abortable, ...] | None = None
        self._atomic = contextlib.ExitStack()
        self._step = 0
        self._learned: Mapping[str, Any] = {}

    def begin(self) -> None:
        """Setting up begins; a loop that has begun already goes on."""
        if self._session is not None:
            return
        self.end, self.is_told, self._groups = None, False, None
        own = self._session = session().__enter__()
        self.sections = Sections(own, self._protection.sections, self._protection.out_of_section_s)
        self.sections.load_state_dict(self._learned)
        if self._protection.crash_guard and self._protection.call is None:
            self._crash = CrashGuard(own).__enter__()
        self.sections.begin(SETUP)

    def restored(self, step: int) -> None:
        """Training is about to go on from this step, 0 for the first; its process group is ready."""
        self.begin()
        assert self._session is not None and self.sections is not None, "begun above"
        self._leave(None)
        for name in (STEP, EVALUATION, CHECKPOINTING):
            self.sections.end(name)
        self._step = step
        self._session.process_group_ready()
        self._session.checkpoint_restored(step)

    def step_begins(self) -> None:
        """A batch is there."""
        self._enter(STEP, closing=(SETUP, EVALUATION, CHECKPOINTING))

    def part_ends(self) -> None:
        """A part of a step is done whose gradients are kept for the next one: a beat."""
        if self._session is not None:
            self._session.beat()

    def step_ends(self, step: int) -> bool:
        """The batch is done, and so many steps are; whether to save and stop now. May raise CollectiveAborted."""
        own = self._session
        if own is None or self.sections is None:
            return False
        self._leave(None)
        self.sections.end(STEP)
        if step <= self._step:
            own.beat()
            return False
        self._step = step
        own.step_committed(step)
        self.is_told = self.is_told or own.should_stop()
        return self.is_told

    def evaluation_begins(self) -> None:
        """Of one batch."""
        self._enter(EVALUATION, closing=(STEP, CHECKPOINTING))

    def evaluation_ends(self) -> None:
        """May raise CollectiveAborted."""
        self._end(EVALUATION)

    def checkpoint_begins(self) -> None:
        """Before anything is written. Raises FenceLost where this rank may not write any more."""
        if self._session is None or self.sections is None or CHECKPOINTING in self.sections.open:
            return
        self._session.fence()
        if self._protection.call is not None:
            self._atomic.enter_context(self._protection.call.atomic())
        self._enter(CHECKPOINTING)
        if self._protection.learn:
            self.sections.learn()
            self._learned = self.sections.state_dict()

    def checkpoint_ends(self) -> None:
        """It is written. May raise CollectiveAborted."""
        try:
            self._end(CHECKPOINTING)
        finally:
            self._atomic.close()

    def completed(self) -> None:
        """The loop has come to its own end: what is raised from now on kills nobody."""
        own = self._session
        if own is None:
            return
        if self._crash is not None:
            self._crash.completed()
            self._crash.__exit__(None, None, None)
        self._let_go()
        own.__exit__(None, None, None)
        self.end = LoopEnd.STOPPED if self.is_told else LoopEnd.COMPLETED

    def failed(self, error: BaseException) -> CollectiveAborted | None:
        """An error leaves the loop; gives the one that a guard makes of it, whose cause it is, if one had fired.

        The limit of the beats stays, for a process that hangs while it dies.
        """
        own, crash = self._session, self._crash
        if own is None:
            return None
        aborted = self._leave(error)
        self._let_go()
        cause = aborted or error
        own.__exit__(type(cause), cause, cause.__traceback__)
        self.end = LoopEnd.FAILED
        if crash is not None:
            crash.__exit__(type(cause), cause, cause.__traceback__)
        return aborted

    def state_dict(self) -> dict[str, Any]:
        """The limits that were learned."""
        return dict(self._learned)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take them up, before the loop begins or after."""
        self._learned = dict(state)
        if self.sections is not None:
            self.sections.load_state_dict(state)

    def _enter(self, name: str, closing: tuple[str, ...] = ()) -> None:
        if self.sections is None:
            return
        self._leave(None)
        for other in closing:
            self.sections.end(other)
        if CHECKPOINTING in closing:
            self._atomic.close()
        self.sections.begin(name)
        limit_s = self._protection.deadlines.get(name)
        if limit_s is not None:
            self._guard = deadline(limit_s, self._members(), phase=name).__enter__()

    def _end(self, name: str) -> None:
        if self.sections is not None and name in self.sections.open:
            self._leave(None)
            self.sections.end(name)

    def _leave(self, error: BaseException | None) -> CollectiveAborted | None:
        """Leave the guard that is armed; without an error raises CollectiveAborted where it has fired."""
        guard, self._guard = self._guard, None
        if guard is None:
            return None
        try:
            guard.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except CollectiveAborted as aborted:
            if error is None:
                raise
            return aborted
        return None

    def _let_go(self) -> None:
        self._leave_quietly()
        self._atomic.close()
        if self.sections is not None:
            self.sections.end_all()
        self._session = self._crash = self.sections = None

    def _leave_quietly(self) -> None:
        with contextlib.suppress(CollectiveAborted):  # the loop is over, and nobody uses what the block received
            self._leave(None)

    def _members(self) -> tuple[Abortable, ...]:
        if self._groups is None:
            given = self._protection.groups
            found = given() if given is not None else (_default_group(),)
            self._groups = tuple(group for group in found if group is not None)
        return self._groups


def _default_group() -> Abortable | None:
    """Torch's default group; None where there is none, or where it cannot abort."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    from resurge.guards.torch_groups import abortable

    try:
        return abortable(distributed.group.WORLD)
    except ValueError as error:
        _log.warning("resurge: deadlines of this loop abort nothing: %s, and give it as Protection(groups=…)", error)
        return None


def _check(field_name: str, limits_s: Mapping[str, float], known: tuple[str, ...]) -> None:
    for name, limit_s in limits_s.items():
        if name not in known:
            raise ValueError(f"Protection({field_name}): there is no section {name!r}; known are {', '.join(known)}")
        if not isinstance(limit_s, int | float) or not math.isfinite(limit_s) or limit_s <= 0:
            what = f"{field_name}, {name}" if name else field_name
            raise ValueError(f"Protection({what}): {limit_s!r} is no positive number of seconds; leave it out for none")
