"""Ranks that are told to stop are told so after one and the same step, or somebody had to decide alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from resurge_rendezvous.core import model as rm


class StopOracle:
    """What ranks were told about stopping, by generation."""

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail
        self.steps: dict[int, dict[int, int]] = {}
        """After which step each rank was told to stop."""
        self.uncommon: set[int] = set()
        """Generations of which somebody was out of reach, or that report no steps: their ranks may stop apart."""

    def decided(self, generation: int, step: int, alone: bool) -> None:
        """A launcher tells its ranks where to stop."""
        if alone or step == 0:
            self.uncommon.add(generation)

    def agreed(self, fact: Any) -> None:
        """Rendezvous has decided where."""
        if isinstance(fact, rm.StopAgreed) and "did not agree" in fact.because.sentence:
            self.uncommon.add(int(fact.generation))

    def told(self, generation: int, rank: int, step: int) -> None:
        """A rank was told to stop after a step."""
        of = self.steps.setdefault(generation, {})
        of[rank] = step
        if len(set(of.values())) > 1 and generation not in self.uncommon:
            self._fail("stop", f"ranks of g{generation} stop at different steps: {of}")
