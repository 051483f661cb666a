"""Who spends the processor time of the scale bench: the service, all relays together, the launchers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fakes.host import cpu_s


@dataclass(frozen=True)
class Spent:
    """Processor seconds, user and system."""

    service_s: float = 0.0
    relays_s: float = 0.0
    launchers_s: float = 0.0

    def since(self, before: Spent) -> Spent:
        """What came to it."""
        return Spent(
            self.service_s - before.service_s,
            self.relays_s - before.relays_s,
            self.launchers_s - before.launchers_s,
        )

    def per(self, took_s: float) -> Spent:
        """Of each second of so many."""
        return Spent(self.service_s / took_s, self.relays_s / took_s, self.launchers_s / took_s)

    def rounded(self) -> dict[str, float]:
        """For the report."""
        return {
            "service": round(self.service_s, 3),
            "relays": round(self.relays_s, 3),
            "launchers": round(self.launchers_s, 3),
        }

    def __str__(self) -> str:
        relays = f", relays {self.relays_s:.2f}" if self.relays_s else ""
        return f"{self.service_s:.2f} s (beside it{relays} launchers {self.launchers_s:.2f})".replace("it,", "it:", 1)


@dataclass(frozen=True)
class Processes:
    """Whose time is counted, by process id."""

    service: int
    relays: Sequence[int]
    launchers: Sequence[int]

    def spent(self) -> Spent:
        """All they have used so far."""
        return Spent(cpu_s(self.service), sum(map(cpu_s, self.relays)), sum(map(cpu_s, self.launchers)))


def median_of(several: Sequence[Spent]) -> Spent | None:
    """By the service's own."""
    return sorted(several, key=lambda spent: spent.service_s)[len(several) // 2] if several else None
