"""One training job under one launcher: starts it, reads the stamps of its workers, kills one of them, ends it.

Every process of a job carries ``BENCH_OUT`` in its environment; by that it is found, measured and, at the end, ended.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

POLL_S = 0.005
SETTLE_STEPS = 15
START_LIMIT_S, RECOVERY_LIMIT_S, STOP_LIMIT_S = 180.0, 90.0, 30.0


class BenchFailed(Exception):
    """A job did not do what the measurement needs; the message says what, and where its logs are."""


@dataclass(frozen=True)
class Shape:
    """How many launchers, how many workers each."""

    nodes: int
    workers: int
    spares: int = 0

    @property
    def name(self) -> str:
        return f"{self.nodes}x{self.workers}"

    @property
    def nnodes(self) -> str:
        """As the flag --nnodes wants it."""
        return f"{self.nodes}:{self.nodes + self.spares}" if self.spares else str(self.nodes)

    @property
    def world(self) -> int:
        return self.nodes * self.workers


@dataclass(frozen=True)
class Launch:
    """What starts the launcher of one node."""

    argv: tuple[str, ...]
    env: dict[str, str]


@dataclass
class Job:
    """A running job and the stamps it has written so far."""

    system: str
    shape: Shape
    out: Path
    stamps: list[dict] = field(default_factory=list)
    launchers: list[subprocess.Popen] = field(default_factory=list)
    launched_at: float = 0.0
    _offset: int = 0

    def start(self, launches: list[Launch]) -> None:
        """Start one launcher per node."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.launched_at = time.time()
        for node, launch in enumerate(launches):
            with (self.out / f"launcher{node}.log").open("wb") as log:
                self.launchers.append(
                    subprocess.Popen(
                        launch.argv,
                        env=launch.env,
                        cwd=self.out,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def logs(self) -> list[str]:
        """What each launcher has printed."""
        return [path.read_text(errors="replace") for path in sorted(self.out.glob("launcher*.log"))]

    def read(self) -> None:
        """Take in the stamps written since the last call; only whole lines."""
        path = self.out / "stamps.jsonl"
        if not path.exists():
            return
        with path.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        self.stamps.extend(json.loads(line) for line in data[:end].splitlines())

    def wait(self, what: str, ready: Callable[[], object], limit_s: float):
        """Read stamps until ``ready`` answers something true, and answer it; raises BenchFailed at the limit."""
        until = time.monotonic() + limit_s
        pause = threading.Event()
        while time.monotonic() < until:
            self.read()
            if answer := ready():
                return answer
            if all(launcher.poll() is not None for launcher in self.launchers):
                raise self.failed(f"its launchers ended ({[p.returncode for p in self.launchers]}) before {what}")
            pause.wait(POLL_S)
        raise self.failed(f"no {what} within {limit_s:g} s")

    def failed(self, why: str) -> BenchFailed:
        return BenchFailed(f"{self.system} {self.shape.name}: {why}; its logs: {self.out}")

    def first(self, what: str, since: float, not_of: frozenset[int] = frozenset()) -> dict[int, dict]:
        """The first such stamp of each rank after an instant, of processes other than the named ones."""
        found: dict[int, dict] = {}
        for stamp in self.stamps:
            if stamp["what"] == what and stamp["at"] > since and stamp["pid"] not in not_of:
                found.setdefault(stamp["rank"], stamp)
        return found

    def complete(self, what: str, since: float, not_of: frozenset[int] = frozenset()) -> dict[int, dict] | None:
        """``first``, once every rank of the world has it."""
        found = self.first(what, since, not_of)
        return found if len(found) == self.shape.world else None

    def settle(self, since: float, not_of: frozenset[int] = frozenset()) -> dict[int, int]:
        """Wait until every rank has made some steps after an instant; answer the process of each rank."""

        def settled():
            steps: dict[tuple[int, int], int] = {}
            for stamp in self.stamps:
                if stamp["what"] == "step" and stamp["at"] > since and stamp["pid"] not in not_of:
                    key = (stamp["rank"], stamp["pid"])
                    steps[key] = steps.get(key, 0) + 1
            pids = {rank: pid for (rank, pid), count in steps.items() if count >= SETTLE_STEPS}
            return pids if len(pids) == self.shape.world else None

        return self.wait("settled training", settled, START_LIMIT_S)

    def pace(self, *, slow: bool) -> None:
        """Let the job train, or almost rest while another job is measured."""
        (self.out / "slow").unlink(missing_ok=True)
        if slow:
            (self.out / "slow").touch()

    def processes(self) -> list[psutil.Process]:
        """Every live process of this job, launchers and workers."""
        mine = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("BENCH_OUT") == str(self.out) and process.status() != psutil.STATUS_ZOMBIE:
                    mine.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return mine

    def control_processes(self) -> list[psutil.Process]:
        """The job's processes that are not workers or their children: launchers, monitors, control plane.

        A forked worker still shows the environment of the process that it was forked from; its stamps tell it apart.
        """
        control, workers = [], {stamp["pid"] for stamp in self.stamps}
        for process in self.processes():
            try:
                if "RANK" not in process.environ() and process.pid not in workers:
                    control.append(process)
            except psutil.NoSuchProcess:
                continue
        return control

    def node_processes(self, node: int) -> list[psutil.Process]:
        """The launcher of a node and all of its descendants."""
        launcher = psutil.Process(self.launchers[node].pid)
        return [launcher, *launcher.children(recursive=True)]

    def active_nodes(self) -> list[int]:
        """The launchers that have workers now; the others are spares."""
        workers = {stamp["pid"] for stamp in self.stamps}
        return [n for n in range(len(self.launchers)) if workers & {p.pid for p in self.node_processes(n)}]

    def stop(self) -> list[int | None]:
        """Let training end, then end whatever is left of this job; answers the launchers' exit codes."""
        self.pace(slow=False)
        (self.out / "stop").touch()
        until = time.monotonic() + STOP_LIMIT_S
        for launcher in self.launchers:
            try:
                launcher.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        codes = [launcher.poll() for launcher in self.launchers]
        self.kill()
        return codes

    def kill(self) -> None:
        """End every process of this job at once."""
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for launcher in self.launchers:
            launcher.wait(10)
