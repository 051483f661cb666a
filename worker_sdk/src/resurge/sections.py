"""The sections of a loop that a framework runs: their limits, the time between them, and what is learned of it.

A section with a limit is a phase with that limit, which holds instead of the beats'; one without is left to the beats.
Decides which limit a section has when it opens: one that was learned, else one that was given. Effects: the session's
phases, and its deadline outside of sections.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from resurge.learned_limits import LongestTimes, SectionTimeouts, learned_sections
from resurge.limits import STEP, WARMUP, limit_of
from resurge.settable_limits import as_ns
from resurge.worker_session import Session

SETUP, EVALUATION, CHECKPOINTING = "setup", "evaluation", "checkpointing"
SECTIONS = (SETUP, STEP, EVALUATION, CHECKPOINTING)
"""What a framework's loop consists of; launchers wait for an open phase whose name begins with checkpoint."""
DEFAULT_CHECKPOINT_LIMIT_S = 600.0
"""While a checkpoint is written no beat comes, so that it has a limit of its own in any case."""
LEARNED_FLOOR_S = 10.0
"""No limit that is learned is shorter: a step of milliseconds is no reason to end a job for a pause of one second."""
_LEARNED = "sections"
_NS_PER_S = 1_000_000_000


class Sections:
    """One worker's sections. Without a launcher they open and close, and nobody looks."""

    def __init__(self, own: Session, given_s: Mapping[str, float], out_of_section_s: float | None = None) -> None:
        told = own.limits
        limits_s: dict[str, float | None] = {CHECKPOINTING: DEFAULT_CHECKPOINT_LIMIT_S}
        limits_s |= {name: told.sections_s[name] for name in (*SECTIONS, WARMUP) if name in told.sections_s}
        limits_s |= given_s
        outside_s = told.out_of_section_s if out_of_section_s is None else out_of_section_s
        self.limits = SectionTimeouts(limits_s, outside_s)
        self._session = own
        self._times = LongestTimes()
        self._open: dict[str, tuple[int, contextlib.AbstractContextManager[None]]] = {}
        self._steps = 0
        self._outside_since_ns = 0

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the sections that are open, the outermost first."""
        return tuple(self._open)

    def begin(self, name: str) -> None:
        """Open a section; one that is open already is closed before."""
        self.end(name)
        now_ns = time.monotonic_ns()
        if not self._open and self._outside_since_ns:
            self._times.outside((now_ns - self._outside_since_ns) / _NS_PER_S)
        limit_s = limit_of(self.limits.section, name, self._steps, self._session.limits.warmup_steps)
        self._steps += name == STEP
        self._session.set_section_deadline(0)
        scope = self._session.phase(name, limit=limit_s or 0)
        scope.__enter__()
        self._open[name] = (now_ns, scope)

    def end(self, name: str) -> None:
        """Close a section, if it is open; from the last one on the limit outside of sections runs."""
        if name not in self._open:
            return
        opened_ns, scope = self._open.pop(name)
        scope.__exit__(None, None, None)
        now_ns = time.monotonic_ns()
        self._times.section(name, (now_ns - opened_ns) / _NS_PER_S)
        if not self._open:
            self._outside_since_ns = now_ns
            self._watch_outside()

    def end_all(self) -> None:
        """Close what is open; no limit runs outside of sections any more."""
        for name in reversed(self.open):
            self.end(name)
        self._session.set_section_deadline(0)
        self._outside_since_ns = 0

    def learn(self) -> None:
        """Learn limits: the longest times that any rank has seen, times the launcher's safety factor.

        To be called by all ranks at the same point: where there is a process group, they exchange their times.
        """
        times = self._times.of_all_ranks()
        seen = tuple(name for name in SECTIONS if times.get(name) is not None)
        was_outside = times.longest_outside_s is not None
        learned = learned_sections(times, self._session.limits.safety_factor, self.limits, seen, was_outside)
        if learned is not None:
            self.limits = _floored(learned)

    def state_dict(self) -> dict[str, Any]:
        """What was learned, as plain values, for a checkpoint; empty where nothing was."""
        has_learned = self.limits.calculated_sections or self.limits.is_out_of_section_calculated
        return {_LEARNED: self.limits.as_dict()} if has_learned else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` gave; limits of sections that it does not know stay."""
        if _LEARNED not in state:
            return
        learned = SectionTimeouts.of(state[_LEARNED])
        names = learned.calculated_sections
        limits_s = {**self.limits.section, **{name: learned.section[name] for name in names}}
        outside_s = learned.out_of_section if learned.is_out_of_section_calculated else self.limits.out_of_section
        self.limits = replace(learned, section=limits_s, out_of_section=outside_s)

    def _watch_outside(self) -> None:
        """Not before the first step: what comes before it takes its time."""
        outside_ns = as_ns(self.limits.out_of_section)
        if outside_ns and self._steps:
            self._session.set_section_deadline(self._outside_since_ns + outside_ns)


def _floored(learned: SectionTimeouts) -> SectionTimeouts:
    names = learned.calculated_sections
    limits_s = {
        name: max(limit_s or 0.0, LEARNED_FLOOR_S) if name in names else limit_s
        for name, limit_s in learned.section.items()
    }
    outside_s = learned.out_of_section
    if learned.is_out_of_section_calculated and outside_s is not None:
        outside_s = max(outside_s, LEARNED_FLOOR_S)
    return replace(learned, section=limits_s, out_of_section=outside_s)
