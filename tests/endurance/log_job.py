"""A small job whose workers print numbered lines, with a log server and leaves of its own; and what is in the files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_libs.testing.process_faults import is_alive
from tests.endurance.job import RESURGE, Shape, SmallJob, free_port

LINES = Path(__file__).with_name("programs") / "lines.py"
LINE = re.compile(rb" *\d+: line (\d+) (\d+)")
SENDER = b"resurge_launcher.logs.shipper"
PACE_S = 0.02
LEAVES = ("leaf0", "leaf1")


@dataclass
class LogJob(SmallJob):
    """Two nodes, a control plane that nobody kills, and as processes of their own a log server, `logs`, and leaves."""

    script: Path = LINES

    def __post_init__(self) -> None:
        super().__post_init__()
        self.out = self.folder / "out"
        for name in ("logs", *LEAVES):
            self.ports[name] = free_port()
        more = ("--log-endpoint", ",".join(self.leaf_endpoints), "--applog-prefix", str(self.out / "app.log"))
        self.shape = replace(self.shape, flags=(*self.shape.flags, *more), pace_s=PACE_S)

    @property
    def log_endpoint(self) -> str:
        """Of the log server."""
        return f"127.0.0.1:{self.ports['logs']}"

    @property
    def leaf_endpoints(self) -> list[str]:
        """Of the leaves, which the nodes send to."""
        return [f"127.0.0.1:{self.ports[name]}" for name in LEAVES]

    def start_all(self) -> None:
        """The log server too, and its leaves."""
        for name in ("logs", *LEAVES):
            self.start(name)
        super().start_all()

    def _command(self, name: str) -> list[str]:
        if name in LEAVES:
            words = [*RESURGE, "serve", "--targets", "log_leaf", "--listen", f"127.0.0.1:{self.ports[name]}"]
            words += ["--log-root", self.log_endpoint, "--job-id", self.job_id, "--leaf-stop-limit-s", "5"]
            return [*words, "--state-dir", str(self.folder / f"{name}-state")]
        if name != "logs":
            return super()._command(name)
        words = [*RESURGE, "serve", "--targets", "log_aggregator", "--listen", self.log_endpoint]
        words += ["--applog-prefix", str(self.out / "app.log"), "--job-id", self.job_id, "--sync-interval-s", "0.2"]
        return [*words, "--stop-limit-s", "5", "--state-dir", str(self.folder / "log-state")]

    def senders(self, node: str) -> list[int]:
        """Processes that send this node's spool, or wait to."""
        return processes_with(SENDER, str(self.spool_of(node)).encode())

    def kill_sender(self, node: str) -> bool:
        """SIGKILL to each of them; whether there was one."""
        found = self.senders(node)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def spool_of(self, node: str) -> Path:
        """Where its workers write."""
        return self.run_dirs[node] / "spool"

    def left(self) -> int:
        """Sources that are not durable to their end."""
        return sum(len(list(spool.notes(self.spool_of(node)))) for node in self.shape.launchers)

    def end(self) -> list[int]:
        """The senders too."""
        orphans = super().end()
        for node in self.shape.launchers:
            self.kill_sender(node)
        return orphans


def processes_with(*words: bytes) -> list[int]:
    """Processes whose command line has all these words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if all(word in told for word in words) and is_alive(int(folder.name)):
            found.append(int(folder.name))
    return found


@dataclass
class Audit:
    """What is wrong with the files, in words, by kind; and how much was looked at."""

    written_lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    lines: int = 0
    workers: int = 0


def audit(out: Path, folder: Path) -> Audit:
    """Every worker's lines against what its page says that it wrote."""
    found = Audit()
    seen: dict[int, list[int]] = {}
    homes: dict[int, set[str]] = {}
    for path in sorted(out.glob("app_*cycle*.log")):
        for line in path.read_bytes().splitlines():
            told = LINE.fullmatch(line)
            if told is not None:
                pid, number = int(told[1]), int(told[2])
                seen.setdefault(pid, []).append(number)
                homes.setdefault(pid, set()).add(path.name)
    for page in sorted(folder.glob("written-*[0-9]")):
        pid, written = int(page.name.partition("-")[2]), int.from_bytes(page.read_bytes(), "little")
        _judge(found, pid, written, seen.get(pid, []))
        if len(homes.get(pid, ())) > 1:
            found.doubled.append(f"pid {pid} is in several cycles' files: {sorted(homes[pid])}")
        found.lines, found.workers = found.lines + written, found.workers + 1
    return found


def _judge(found: Audit, pid: int, written: int, numbers: list[int]) -> None:
    """The last line may be one more than the page says, or a part of it with fewer digits."""
    lost = sorted(set(range(written)) - set(numbers))
    if lost:
        found.written_lost.append(f"pid {pid}: {len(lost)} of {written} lines are missing, the first is {lost[0]}")
    if len(numbers) != len(set(numbers)) or (numbers[:written] != sorted(numbers[:written])):
        whole = numbers[:-1] if len(numbers) == written + 1 else numbers  # the last one may be torn
        if len(whole) != len(set(whole)) or whole != sorted(whole):
            found.doubled.append(f"pid {pid}: {len(numbers)} lines for {written} written, twice or out of order")
    if len(numbers) > written + 1:
        found.doubled.append(f"pid {pid}: {len(numbers)} lines for {written} written")


def start_sender(folder: Path, endpoint: str, *more: str) -> subprocess.Popen[bytes]:
    """A node's sender alone, without a launcher."""
    words = [*RESURGE[:1], "-m", SENDER.decode(), str(folder), "--endpoint", endpoint, "--job", "job", "--node", "n0"]
    return subprocess.Popen([*words, *more], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


__all__ = ["LEAVES", "Audit", "LogJob", "Shape", "audit", "processes_with", "start_sender"]
