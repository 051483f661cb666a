"""A small real job as processes: control plane, one launcher per node, torch-free workers that commit steps.

Starts, kills and starts again by name; looks at the ranks through their pages. Decides nothing about what is right.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.demo.ranks import Crew, crew

RESURGE = (sys.executable, "-m", "resurge_launcher")
WORKER = Path(__file__).with_name("programs") / "steps.py"
END_LIMIT_S = 20.0
CONTROL = ("rendezvous", "restart_policy")


@dataclass
class Shape:
    """How many nodes, spares and workers, and how the control plane is cut."""

    nodes: int = 2
    spares: int = 0
    workers: int = 2
    is_split: bool = False
    """Rendezvous and policy are processes of their own; else one process serves both."""
    is_hosted: bool = False
    """The launcher of n0 starts the control plane, and starts it again when it is gone."""
    max_restarts: int = 1000
    pace_s: float = 0.02
    flags: tuple[str, ...] = ("--warm", "off")
    """More flags for every launcher. Without torch in the workers there is nothing to keep warm."""

    @property
    def launchers(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"n{index}" for index in range(self.nodes + self.spares))

    @property
    def services(self) -> tuple[str, ...]:
        """Names of the control plane's processes."""
        return CONTROL if self.is_split else ("control",)

    @property
    def world(self) -> int:
        """Ranks in all."""
        return self.nodes * self.workers


@dataclass
class SmallJob:
    """One job in one folder; `end` leaves nothing of it running."""

    folder: Path
    job_id: str
    shape: Shape
    script: Path = WORKER
    node_ranks: dict[str, int] = field(default_factory=dict)
    """Where they differ from the order of names."""
    environ: dict[str, str] = field(default_factory=dict)
    """Beside what this process has; for every process of the job."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # the path of a socket must be short
        self.sockets = Path(tempfile.mkdtemp(prefix="rsg-"))
        self.run_dirs = {name: self.sockets / name for name in self.shape.launchers}
        self.ports = {name: free_port() for name in self.shape.services}

    @property
    def endpoint(self) -> str:
        """Of rendezvous."""
        return f"127.0.0.1:{self.ports[self.shape.services[0]]}"

    @property
    def state_dir(self) -> Path:
        """Of rendezvous."""
        return self.folder / "state"

    # -- starting and ending

    def start_all(self) -> None:
        """The control plane and every launcher, at once: they start in any order."""
        for name in (*self.shape.services, *self.shape.launchers):
            self.start(name)

    def hosted_pid(self) -> int:
        """The control plane that a launcher has started; 0 while there is none."""
        try:
            pid = int(json.loads((self.state_dir / "control.json").read_text())["pid"])
        except (OSError, ValueError):
            return 0
        return pid if is_alive(pid) else 0

    def start(self, name: str) -> None:
        """Start one process of the job, or start it again."""
        if self.shape.is_hosted and name == "control":
            return  # its launcher does that
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._command(name),
                # each launcher stands for a machine of its own
                env={**os.environ, "RESURGE_MACHINE_ID": name, **self.environ},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL, and nothing tidied up."""
        if self.shape.is_hosted and name == "control":
            pid = wait_until(self.hosted_pid, END_LIMIT_S, "the control plane")
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not is_alive(pid), END_LIMIT_S, "its end")
            return
        self.processes[name].kill()
        self.processes[name].wait()

    def _command(self, name: str) -> list[str]:
        if name in self.run_dirs:
            return self._launcher(name)
        words = [*RESURGE, "serve", "--listen", f"127.0.0.1:{self.ports[name]}"]
        if name == "restart_policy":
            return [*words, "--targets", name]
        words += ["--targets", "all" if name == "control" else name, "--state-dir", str(self.state_dir)]
        if self.shape.is_split:
            words += ["--addresses", f"restart_policy=127.0.0.1:{self.ports['restart_policy']}"]
        return words

    def _launcher(self, name: str) -> list[str]:
        shape = self.shape
        nnodes = f"{shape.nodes}:{shape.nodes + shape.spares}"
        where = ["--rdzv-endpoint", self.endpoint, "--local-addr", "127.0.0.1"]
        is_host = shape.is_hosted and name == shape.launchers[0]
        where += ["--rdzv-conf", f"is_host={is_host}".lower(), "--state-dir", str(self.state_dir)]
        where += ["--node-id", name, "--node-rank", str(self.node_ranks.get(name, name[1:])), "--attempt", "1"]
        where += ["--run-dir", str(self.run_dirs[name]), "--log-dir", str(self.folder / f"logs-{name}")]
        size = ["--nnodes", nnodes, "--nproc-per-node", str(shape.workers), "--max-restarts", str(shape.max_restarts)]
        job = ["--rdzv-id", self.job_id, *shape.flags, str(self.script), str(self.folder), str(shape.pace_s)]
        return [*RESURGE, "run", *where, *size, *job]

    def finish(self) -> None:
        """Ask the workers to end with 0."""
        (self.folder / "finish").touch()

    def end(self) -> list[int]:
        """End every process of this job; gives the workers that outlived their launchers, which are ended too."""
        left = [process for process in self.processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        for process in left:
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._hosted_pids():
            os.kill(pid, signal.SIGKILL)  # it would wait for launchers to come back
            wait_until(lambda pid=pid: not is_alive(pid), END_LIMIT_S, "the control plane's end")
        orphans = [pid for pid in self._seen if self._is_our_worker(pid)]
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for run_dir in self.run_dirs.values():
            remove_pages(run_dir)
        shutil.rmtree(self.sockets, ignore_errors=True)
        return orphans

    def _hosted_pids(self) -> list[int]:
        """Control planes of launchers that have ended; one that has just been started again stands in no file yet."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if _is_of(pid, self.state_dir)]

    def _is_our_worker(self, pid: int) -> bool:
        return _is_of(pid, self.folder)

    # -- looking

    def crew(self) -> Crew:
        """The ranks of the newest generation."""
        found = crew(self.run_dirs)
        self._seen |= found.pids
        return found

    def training(self, after: int = 0, limit_s: float = 60.0, may_end: tuple[str, ...] = ()) -> Crew:
        """Every rank of a generation later than `after` has committed a step. Raises NeverHappened at the limit."""

        def there() -> Crew | None:
            now = self.crew()
            return now if now.generation > after and now.trains(self.shape.world) else None

        return self.wait(there, limit_s, f"all ranks of a generation after {after}", may_end)

    def wait(self, condition: Callable[[], Any], limit_s: float, what: str, may_end: tuple[str, ...] = ()) -> Any:
        """The condition's first truthy value; a process of the job that ends meanwhile is a failure."""

        def look() -> Any:
            for name, process in self.processes.items():
                code = process.poll()
                assert code is None or name in may_end, f"{name} ended with {code} while {what} was awaited"
            return condition()

        return wait_until(look, limit_s, what)

    def logs(self, lines: int = 15) -> str:
        """The end of each process's log."""
        shown = []
        for path in sorted(self.folder.glob("*.log")):
            shown += [f"-- end of {path}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(shown)


def _is_of(pid: int, folder: Path) -> bool:
    """Whether this process lives, and was started with a path in that folder."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return is_alive(pid) and any(Path(os.fsdecode(word)).is_relative_to(folder) for word in words)
    except OSError:
        return False


_given: set[int] = set()


def free_port() -> int:
    """A port that nobody has now, and that was not given before: who had it may come back to it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port
