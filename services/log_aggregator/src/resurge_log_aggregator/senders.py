"""Who sends now, and the pace that all of them keep. Decides nothing: see `core.pace`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from resurge_libs.core.refusals import RpcProblem
from resurge_log_aggregator.core.model import SourceKey, SourceState
from resurge_log_aggregator.core.pace import GATHER_LEAST_S, gather_s


class Listener(Protocol):
    """A sender's stream, as far as those speak to it who take its blocks."""

    def ack(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        """The source is so far."""

    def trouble(self, sentence: str) -> None:
        """Why acknowledgements are late; empty: they are not."""

    def refuse(self, problem: RpcProblem) -> None:
        """Its stream ends with this refusal."""

    def paced(self, gather_s: float, at_once: bool) -> None:
        """So long are lines to gather; it may be told with the next answer unless `at_once`."""


class Senders:
    """The streams of all senders, each with the sources that it opened."""

    def __init__(self) -> None:
        self._of: dict[Listener, set[SourceKey]] = {}
        self._gather_s = GATHER_LEAST_S

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Listener]:
        return iter(tuple(self._of))

    def add(self, listener: Listener) -> None:
        """One has come."""
        self._of[listener] = set()
        if not self._told_all():
            listener.paced(self._gather_s, at_once=True)

    def opened(self, listener: Listener, key: SourceKey) -> bool:
        """It sends this source; False where it has gone meanwhile."""
        keys = self._of.get(listener)
        if keys is None:
            return False
        keys.add(key)
        return True

    def remove(self, listener: Listener) -> set[SourceKey]:
        """One has gone; what it had opened."""
        keys = self._of.pop(listener, set())
        self._told_all()
        return keys

    def _told_all(self) -> bool:
        """Tell everybody a pace that has changed: a slower one at once. Whether it has."""
        before, self._gather_s = self._gather_s, gather_s(len(self._of))
        if self._gather_s == before:
            return False
        for listener in self._of:
            listener.paced(self._gather_s, at_once=self._gather_s > before)
        return True
