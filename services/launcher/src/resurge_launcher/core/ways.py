"""Which way a launcher goes to rendezvous next: through one of the relays named, or to rendezvous itself. Pure.

It stays on a way as long as that answers. One that does not is left for the next, and after the last relay comes
rendezvous itself. A relay that says Unready has lost rendezvous too: going around it would help nobody, so it is asked
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from resurge_libs.core.refusals import RpcProblem, Unready
from resurge_libs.core.values import replace

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Ways(Generic[E]):
    """All ways in their order, and the one that is tried now."""

    all: tuple[E, ...]
    at: int = 0

    @classmethod
    def through(cls, relays: Sequence[E], root: E) -> Ways[E]:
        """The relays in the order given (by chance, so that they share the launchers among them), then the root."""
        return cls((*relays, root))

    @property
    def now(self) -> E:
        """The way to try."""
        return self.all[self.at]

    def failed(self, problem: RpcProblem | None) -> Ways[E]:
        """The ways after a stream ended with a problem; None: it said nothing for too long."""
        if isinstance(problem, Unready):
            return self
        return replace(self, at=(self.at + 1) % len(self.all))
