"""Counts the cycles without progress a second time, and holds the job to it.

Kept beside the oracle of the invariants: it hears of every look at the marker and of every durable fact. The rule is
written here anew, from the issue's own words, so that one mistake cannot be made twice by calling the same function.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from resurge_libs.core.progress import ProgressCheck, ProgressSource
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core import model as rm

if TYPE_CHECKING:
    from tests.sim.oracle import Oracle

COUNTED = "cycles in a row"
"""In the sentence of a stop for want of progress, and in that of no other."""
STRONGER = (Reason.NO_RESTART_LATCHED, Reason.SHUTDOWN_REQUESTED, Reason.SUCCEEDED)


class ProgressOracle:
    """What the markers said, and what must follow from it."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._started: dict[int, list[int | None]] = defaultdict(list)
        self._ended: dict[int, list[int | None]] = defaultdict(list)
        self._checked: dict[tuple[str, int], ProgressCheck] = {}
        self.forget()

    def forget(self) -> None:
        """A new attempt, or a journal that was lost: the count begins anew."""
        self.baseline: int | None = None
        self.count = 0
        self.skipped: list[str] = []

    def read(self, generation: int, at_start: bool, value: int | None) -> None:
        """A launcher looked at the marker."""
        (self._started if at_start else self._ended)[generation].append(value)

    def fact(self, fact: Any, live: rm.Job) -> None:
        """Something became durable. A journal that was lost leaves nothing to be held to but that it says why."""
        if self._oracle.journal_was_lost:
            return
        match fact:
            case rm.JobOpened() | rm.AttemptRaised():
                self.forget()
            case rm.ProgressBaselineRead(value, generation):
                if self.baseline is not None:
                    self._fail(f"a second baseline {value} after {self.baseline}")
                if value not in self._started[int(generation)]:
                    self._fail(f"nobody read {value} before generation {generation} started")
                self.baseline = value
            case rm.ProgressChecked(incident, round, check):
                self._check(incident, round, check, live)
            case rm.VerdictLatched(incident, round, verdict):
                self._judged(incident, round, verdict, live)
            case _:
                pass

    def _check(self, incident: str, round: int, check: ProgressCheck, live: rm.Job) -> None:
        if (incident, round) in self._checked:
            self._fail(f"incident {incident} round {round} was checked twice")
        self._checked[incident, round] = check
        if (check.baseline, check.without_progress) != (self.baseline, self.count):
            known = f"{check.without_progress} since {check.baseline}"
            self._fail(f"{incident}/{round} is judged by {known}, and it is {self.count} since {self.baseline}")
        if check.value is None:
            self.skipped.append(check.skipped)
            if not check.skipped:
                self._fail(f"{incident}/{round} is skipped and says not why")
            return
        if check.rules.source is ProgressSource.MARKER:
            generation = int(live.generation)
            if check.value not in self._ended[generation]:
                self._fail(f"nobody read {check.value} at the end of generation {generation}")
        before = self.baseline or 0
        if check.value == 0 and before == 0:
            pass
        elif check.value >= before + check.rules.min_iterations:
            self.count = 0
        else:
            self.count += 1
        self.baseline = check.value

    def _judged(self, incident: str, round: int, verdict: Verdict, live: rm.Job) -> None:
        assert live.spec is not None
        rules = live.spec.progress
        counted = verdict.because.code is Reason.NO_PROGRESS and COUNTED in verdict.because.sentence
        if not rules.is_tracked:
            if counted:
                self._fail(f"{incident}/{round} stops a job that tracks nothing")
            return
        check = self._checked.get((incident, round))
        if check is None and verdict.because.code in STRONGER:
            return  # a stop of attribution waits for nothing
        if check is None:
            self._fail(f"{incident}/{round} was judged before its progress was")
            return
        is_over = check.value is not None and self.count >= rules.max_no_progress_cycles
        if counted and not is_over:
            self._fail(f"{incident}/{round} stops after {self.count} cycles of {rules.max_no_progress_cycles}")
        if is_over and not counted and verdict.because.code not in STRONGER:
            self._fail(f"{incident}/{round} goes on after {self.count} cycles without progress")
        if counted and (verdict.kind, verdict.exit_code) != (VerdictKind.STOP, live.spec.no_restart_exit_code):
            self._fail(f"{incident}/{round} is out of progress, and the verdict is {verdict}")

    def _fail(self, sentence: str) -> None:
        self._oracle.fail("P", sentence)
