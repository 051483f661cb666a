"""What the demo sees of the ranks: their shared pages, read beside the launchers that own them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from resurge.page import PageError, PageReader, PageView
from resurge_launcher.pages import page_homes


@dataclass(frozen=True, slots=True)
class Rank:
    """One worker as its page shows it."""

    node: str
    rank: int
    view: PageView

    @property
    def pid(self) -> int:
        """Process id."""
        return self.view.pid

    @property
    def place(self) -> str:
        """As recovery records name it."""
        return f"{self.node} rank {self.rank}"

    @property
    def step(self) -> int:
        """Last committed step; 0 before the first."""
        return self.view.committed_step or 0


@dataclass(frozen=True, slots=True)
class Crew:
    """The ranks of the newest generation that any page knows."""

    generation: int
    ranks: tuple[Rank, ...]

    @property
    def pids(self) -> frozenset[int]:
        """Their processes."""
        return frozenset(rank.pid for rank in self.ranks)

    @property
    def nodes(self) -> frozenset[str]:
        """Where they run."""
        return frozenset(rank.node for rank in self.ranks)

    @property
    def step(self) -> int:
        """The step that all of them have committed."""
        return min((rank.step for rank in self.ranks), default=0)

    def trains(self, world_size: int) -> bool:
        """Every rank has committed a step."""
        return len(self.ranks) == world_size and all(rank.view.first_commit_ns for rank in self.ranks)

    def of(self, node: str) -> tuple[Rank, ...]:
        """The ranks on one node."""
        return tuple(rank for rank in self.ranks if rank.node == node)


def crew(run_dirs: Mapping[str, Path]) -> Crew:
    """Read all pages of the launchers with these run directories now; one that is being made or removed is left out."""
    seen = [rank for node, run_dir in run_dirs.items() for page in _pages(run_dir) if (rank := _rank(node, page))]
    newest = max((rank.view.generation for rank in seen), default=0)
    return Crew(newest, tuple(sorted((r for r in seen if r.view.generation == newest), key=lambda r: r.rank)))


def _pages(run_dir: Path) -> Iterator[Path]:
    # os.walk passes over a folder that goes away meanwhile
    for home in page_homes(run_dir):
        for folder, _, names in os.walk(home):
            yield from (Path(folder, name) for name in names if name.endswith(".page"))


def _rank(node: str, page: Path) -> Rank | None:
    number = re.search(r"(\d+)$", page.stem)
    try:
        reader = PageReader(page)
    except (OSError, PageError):
        return None
    view = reader.read()
    reader.close()
    return Rank(node, int(number.group(1)), view) if number and view.pid else None
