"""What a process of a job holds: memory, descriptors, threads, children, sockets, pages, files; and what may differ."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from resurge_libs.rpc.records import CYCLES_NAME, JOURNAL_NAME
from tests.demo.ranks import page_homes
from tests.endurance.job import SmallJob

MIB = 2**20


@dataclass(frozen=True)
class Tolerance:
    """How much one kind of holding may differ between an early and a late restart."""

    most: float
    """Added once, for what comes and goes."""
    per_restart: float = 0.0
    """What each restart leaves on purpose."""
    why: str = ""

    def allowed(self, restarts: int) -> float:
        """Growth that is no fault, over so many restarts."""
        return self.most + self.per_restart * restarts


# Kinds of holdings; a figure of one process or directory, compared between two settled moments.
TOLERANCES = {
    "private_mib": Tolerance(4.0, why="the allocator's own slack, and the newest records of recoveries"),
    "children_mib": Tolerance(8.0, why="workers, fork server and stores: their allocators' slack, and who is starting"),
    "descriptors": Tolerance(2, why="a probe or a reconnect that is open just now"),
    "threads": Tolerance(1, why="a pool makes its threads on demand"),
    "processes": Tolerance(0),
    "zombies": Tolerance(1, why="an orphan that is reaped in a moment"),
    "sockets": Tolerance(2, why="a connection that is being closed"),
    "shared_memory_files": Tolerance(0),
    "run_dir_files": Tolerance(0),
    "cycle_records": Tolerance(0, per_restart=1, why="the record of each cycle; the oldest go beyond 8 MiB"),
    "state_dir_files": Tolerance(0),
    "older_files": Tolerance(1, per_restart=0.01, why="a full file of records or spans is put aside; the oldest go"),
    "records_kib": Tolerance(64, per_restart=24, why="record and spans of each recovery: 24 MiB of them are kept"),
    "journal_kib": Tolerance(2_048, per_restart=24, why="entries, in steps of what SQLite writes ahead; up to 12 MiB"),
}


FULL = {
    "private_mib": Tolerance(1.0, why="the allocator's own slack"),
    "control private_mib": Tolerance(3.0, why="the same, and the whole state written down each thousand entries"),
    "journal_kib": Tolerance(2_048, why="entries and snapshots take the room of those that went, not always the same"),
}
"""Once the control plane remembers as much as it ever does."""
FULL_FROM = 640
"""Restarts. 128 recoveries stand in its state, 256 in what it has exported; and the journal holds 4 MiB behind its last
snapshot and one more thousand of entries, five of them per restart, from its third snapshot on."""


def tolerances(base_at: int, workers: int) -> dict[str, Tolerance]:
    """What may differ between restart `base_at` and a later one, by kind or by name, on nodes of so many workers."""
    full = FULL if base_at >= FULL_FROM else {}
    return {**TOLERANCES, "log_files": log_tolerance(workers), **full}


def tolerance_of(name: str, allowances: dict[str, Tolerance]) -> Tolerance:
    """Of `<process> <kind>`: its own, or that of its kind."""
    return allowances.get(name) or allowances[name.split()[-1]]


def holdings(job: SmallJob) -> dict[str, float]:
    """Each figure by `<process> <kind>`."""
    found: dict[str, float] = {}
    for name, process in job.processes.items():
        found |= {f"{name} {kind}": value for kind, value in _of_process(process.pid).items()}
    for name, run_dir in job.run_dirs.items():
        found[f"{name} run_dir_files"] = _files(run_dir)
        found[f"{name} shared_memory_files"] = sum(_files(home) for home in page_homes(run_dir) if home.exists())
        logs = job.folder / f"logs-{name}"
        found[f"{name} log_files"] = _files(logs)
    state = job.state_dir
    records = _files(state / CYCLES_NAME) if (state / CYCLES_NAME).exists() else 0
    found["cycle_records"] = records
    found |= _of_state_dir(state, records)
    return found


def _of_state_dir(state: Path, records: int) -> dict[str, float]:
    """Without the log that SQLite writes ahead: it is bounded by itself, and shrinks when it likes."""
    sizes = {file.name: file.stat().st_size / 1024 for file in state.iterdir() if file.is_file()}
    older = [name for name in sizes if name.rpartition(".")[2].isdigit()]
    return {
        "state_dir_files": _files(state) - records - len(older),
        "older_files": len(older),
        "records_kib": sum(size for name, size in sizes.items() if ".jsonl" in name),
        "journal_kib": sizes.get(JOURNAL_NAME, 0.0),
    }


def log_tolerance(workers: int) -> Tolerance:
    """Output of workers is kept: a folder for each cycle, in it one for each worker with its two streams."""
    return Tolerance(0, per_restart=1 + 3 * workers, why="the output of each worker of each cycle")


def _of_process(pid: int) -> dict[str, float]:
    process = psutil.Process(pid)
    children = process.children(recursive=True)
    return {
        "private_mib": _private_bytes(process) / MIB,
        "children_mib": sum(_private_bytes(child) for child in children) / MIB,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "processes": len(children),
        "zombies": sum(_is_zombie(child) for child in children),
        "sockets": sum(target.startswith("socket:") for target in _descriptors(pid)),
    }


def _private_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:  # it has ended meanwhile, or is a zombie
        return 0


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _descriptors(pid: int) -> list[str]:
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(entry.path))
        except OSError:
            continue
    return found


def _files(folder: Path) -> int:
    return sum(len(names) + len(folders) for _, folders, names in os.walk(folder))
