"""The shared pages of one generation's workers: made before they start, read while they run, removed after.

Kept in shared memory where the machine has it, else beside the launcher's socket. Decides nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from resurge.page import LauncherCells, PageReader, PageView, page_path
from resurge_launcher import page_owner
from resurge_launcher.core.model import Milestone, MilestoneKind, PageReading
from resurge_launcher.page_owner import PageHome
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant

SHARED_MEMORY = Path("/dev/shm")
PAGES_NAME = "resurge-pages"
"""In a run directory, which may be any directory of the user's."""
NS = 1_000_000_000


def page_homes(run_dir: Path, shared_memory: Path = SHARED_MEMORY) -> tuple[Path, Path]:
    """Where the pages of a launcher with this run directory may be: the first that can be written."""
    name = f"{_prefix()}{hashlib.sha256(str(run_dir).encode()).hexdigest()[:16]}"
    return shared_memory / name, run_dir / PAGES_NAME


def page_home(run_dir: Path, shared_memory: Path = SHARED_MEMORY) -> PageHome:
    """The directory of this launcher's pages, made empty and private; an older launcher's pages go."""
    for home in page_homes(run_dir, shared_memory):
        with contextlib.suppress(OSError):
            return page_owner.taken(home)
    raise OSError(f"no directory for shared pages: neither {shared_memory} nor {run_dir} can be written")


def remove_pages(run_dir: Path, shared_memory: Path = SHARED_MEMORY) -> None:
    """Leave nothing of this launcher's pages, which it has let go; its workers are gone."""
    for home in page_homes(run_dir, shared_memory):
        with contextlib.suppress(OSError):
            page_owner.remove(home)


def sweep_pages(shared_memory: Path = SHARED_MEMORY) -> int:
    """Remove what launchers of this user left there that were killed, whatever their run directory; how many."""
    return page_owner.sweep(shared_memory, _prefix())


def _prefix() -> str:
    return f"resurge-{os.getuid()}-"


class PageBook:
    """The pages of one generation on this node, by local rank."""

    def __init__(self, home: Path, generation: Generation) -> None:
        self.generation = generation
        self._directory = home / str(generation)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._pages: dict[int, tuple[Rank, LauncherCells, PageReader]] = {}
        self._paths: dict[int, str] = {}
        self._lease_until_ns = 0

    def create(self, rank: Rank, local_rank: int) -> str:
        """A fresh page with the lease as it is; its path is for the worker's environment. Raises OSError."""
        path = page_path(self._directory, rank)
        before = self._pages.pop(local_rank, None)
        if before is not None:  # of a worker that has ended, and that another takes the place of
            before[1].close()
            before[2].close()
            path.unlink(missing_ok=True)
        self._paths[local_rank] = str(path)
        cells = LauncherCells.create(path, generation=self.generation)
        cells.set_lease(self._lease_until_ns)
        self._pages[local_rank] = (rank, cells, PageReader(path))
        return str(path)

    def stacks_signal_of(self, local_rank: int) -> int:
        """The signal at which a worker writes its stacks; 0 for none."""
        return self._pages[local_rank][2].read().stacks_signal

    def path_of(self, local_rank: int) -> str:
        """Where the page of a worker is."""
        return self._paths[local_rank]

    def write_lease(self, until: Instant | None) -> None:
        """The node's lease holds until then; None: there is none."""
        self._lease_until_ns = round(until * NS) if until is not None else 0
        for _, cells, _ in self._pages.values():
            cells.set_lease(self._lease_until_ns)

    def fence(self) -> None:
        """No worker of this generation may commit any more."""
        for _, cells, _ in self._pages.values():
            cells.set_fenced()

    def ends(self) -> None:
        """This generation ends after a fault."""
        for _, cells, _ in self._pages.values():
            cells.set_ends()

    def write_stop(self, held: int | None, decided: int | None) -> None:
        """Hold the workers at a step, or tell them to stop at one; 0 for at once."""
        for _, cells, _ in self._pages.values():
            if held is not None:
                cells.hold_at(held)
            if decided is not None:
                cells.stop_at(decided)

    def read(self) -> tuple[PageReading, ...]:
        """What all pages say now."""
        return tuple(reading_of(local, rank, reader.read()) for local, (rank, _, reader) in self._pages.items())

    def close(self) -> None:
        """Unmap and remove them."""
        for _, cells, reader in self._pages.values():
            cells.close()
            reader.close()
        self._pages.clear()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._directory)


def reading_of(local_rank: int, rank: Rank, view: PageView) -> PageReading:
    """A page's facts in the core's words."""
    moments = (
        (MilestoneKind.WORKER_STARTED, view.started_ns, None),
        (MilestoneKind.PROCESS_GROUP_READY, view.process_group_ready_ns, None),
        (MilestoneKind.CHECKPOINT_RESTORED, view.checkpoint_restored_ns, view.checkpoint_restored_step),
        (MilestoneKind.FIRST_STEP, view.first_commit_ns, view.first_commit_step),
    )
    hung_at_ns = view.hung_at_ns
    return PageReading(
        local_rank=local_rank,
        last_beat_at=_instant(view.beat_ns),
        step=view.committed_step if view.beat_step is None else view.beat_step,
        hung_at=None if hung_at_ns is None else Instant(hung_at_ns / NS),
        committed_step=view.committed_step,
        open_phase=view.phase.name if view.phase is not None else "",
        milestones=tuple(Milestone(rank, kind, Instant(ns / NS), step) for kind, ns, step in moments if ns),
        asks_stop=view.stop_asked_count > 0,
        asked_step=view.stop_asked_step,
        waits_to_stop=view.stop_waits,
        told_to_stop=view.stop_told_ns > 0,
        moves=view.moves,
    )


def _instant(ns: int) -> Instant | None:
    return Instant(ns / NS) if ns else None
