"""The demo's processes: a control plane and three launchers, in one temporary folder, each ended by its own handle."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until
from tests.demo.ranks import Crew, crew

JOB = f"demo-{os.getpid()}"
"""A name of its own: a launcher ends what an older one of the same job and node has left running on this machine."""
NODES = ("n0", "n1", "n2")
RANKS_PER_NODE = 2
RANKS = 4
CHECKPOINT_EVERY = 20
BEAT_LIMIT_S = 3
RESURGE = (sys.executable, "-m", "resurge_launcher")
TRAIN = Path(__file__).parents[2] / "worker_sdk" / "examples" / "digits" / "train.py"
END_LIMIT_S = 20.0


class DemoFailed(Exception):
    """Something the demo promises did not hold."""


def require(condition: object, sentence: str) -> None:
    """Raises DemoFailed with the sentence unless the condition holds."""
    if not condition:
        raise DemoFailed(sentence)


class Cluster:
    """Two nodes and a spare with two ranks each, and their control plane."""

    def __init__(self, folder: Path, steps: int, step_s: float) -> None:
        self.folder = folder
        self.steps = steps
        self.step_s = step_s
        self.endpoint = f"127.0.0.1:{_free_port()}"
        self.run_dirs = {node: folder / node for node in NODES}
        self.cycles: Path | None = None
        """Where the records of cycles are to go, if anywhere else than in the state directory."""
        self.control: subprocess.Popen[bytes] | None = None
        self.launchers: dict[str, subprocess.Popen[bytes]] = {}
        self._seen_pids: set[int] = set()

    # -- starting and ending

    def start_control(self) -> None:
        """Start the control plane; again on the same state after it was killed."""
        command = [*RESURGE, "serve", "--targets", "all", "--listen", self.endpoint]
        self.control = self._start("control", [*command, "--state-dir", str(self.folder / "state")])

    def kill_control(self) -> None:
        """kill -9, and nothing tidied up."""
        assert self.control is not None
        self.control.kill()
        self.control.wait()

    def start_launchers(self) -> None:
        """Start the launcher of every node."""
        for rank, node in enumerate(NODES):
            self.run_dirs[node].mkdir()
            where = ["--rdzv-endpoint", self.endpoint, "--rdzv-conf", "is_host=false", "--node-id", node]
            where += ["--node-rank", str(rank), "--run-dir", str(self.run_dirs[node])]
            where += ["--local-addr", "127.0.0.1", "--log-dir", str(self.folder / f"logs-{node}")]
            where += ["--ft-cycle-info-dir", str(self.cycles)] if self.cycles is not None else []
            size = ["--nnodes", "2:3", "--nproc-per-node", str(RANKS_PER_NODE), "--max-restarts", "8"]
            command = [*RESURGE, "run", *where, *size, "--rdzv-id", JOB, str(TRAIN), *self._training("disturbed")]
            self.launchers[node] = self._start(node, [*command, "--step-seconds", str(self.step_s)])

    def start_undisturbed(self) -> subprocess.Popen[bytes]:
        """The same training with the same number of ranks, left in peace."""
        command = [*RESURGE, "run", "--standalone", "--nproc-per-node", str(RANKS), "--rdzv-id", f"{JOB}-undisturbed"]
        command += [
            "--state-dir",
            str(self.folder / "state-undisturbed"),
            "--log-dir",
            str(self.folder / "logs-undisturbed"),
        ]
        return self._start("undisturbed", [*command, str(TRAIN), *self._training("undisturbed")])

    def end(self) -> list[int]:
        """End everything that is left of this demo; gives the workers that outlived their launcher, and ends them."""
        left = [process for process in (*self.launchers.values(), self.control) if process and process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        for process in left:
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        orphans = [pid for pid in self._seen_pids if self._is_our_worker(pid)]
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for run_dir in self.run_dirs.values():
            remove_pages(run_dir)
        return orphans

    def _training(self, name: str) -> list[str]:
        folder = self.folder / f"checkpoints-{name}"
        where = ["--checkpoint-every", str(CHECKPOINT_EVERY), "--checkpoint-dir", str(folder)]
        return ["--steps", str(self.steps), "--beat-limit", str(BEAT_LIMIT_S), *where]

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                # each launcher stands for a machine of its own
                env={**os.environ, "RESURGE_MACHINE_ID": name, **self._cycles_variable()},
            )

    def _cycles_variable(self) -> dict[str, str]:
        return {} if self.cycles is None else {"RESURGE_RENDEZVOUS__CYCLE_INFO_DIR": str(self.cycles)}

    def _is_our_worker(self, pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return str(self.folder).encode() in command

    # -- looking

    def crew(self) -> Crew:
        """The ranks of the newest generation."""
        found = crew(self.run_dirs)
        self._seen_pids |= found.pids
        return found

    def wait(self, condition: Callable[[], Any], limit_s: float, what: str) -> Any:
        """The condition's first truthy value; a launcher that ends meanwhile is a failure."""

        def look() -> Any:
            for node, launcher in self.launchers.items():
                code = launcher.poll()
                require(code is None, f"the launcher of {node} ended with {code} while the demo waited for {what}")
            return condition()

        return wait_until(look, limit_s, what)

    def wait_for_step(self, step: int, limit_s: float = 60.0) -> Crew:
        """All ranks train and have committed this step."""

        def there() -> Crew | None:
            now = self.crew()
            return now if now.trains(RANKS) and now.step >= step else None

        return self.wait(there, limit_s, f"all {RANKS} ranks at step {step}")

    def wait_for_newer(self, than: Crew, limit_s: float = 60.0) -> Crew:
        """A newer generation trains."""

        def there() -> Crew | None:
            now = self.crew()
            return now if now.generation > than.generation and now.trains(RANKS) else None

        return self.wait(there, limit_s, f"all {RANKS} ranks of a generation after {than.generation}")

    def wait_for_the_end(self, limit_s: float) -> dict[str, int]:
        """All launchers that were not killed end by themselves; gives their exit codes."""
        codes = {node: launcher.wait(limit_s) for node, launcher in self.launchers.items()}
        self.launchers.clear()
        return codes

    def ask(self, *words: str) -> str:
        """What a `resurge` command about this job prints; empty when it failed."""
        command = [*RESURGE, *words, "--endpoint", self.endpoint]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return answer.stdout if answer.returncode == 0 else ""

    def recoveries(self) -> list[dict[str, Any]]:
        """The durable recovery records."""
        text = self.ask("recoveries", "--json")
        return json.loads(text) if text else []

    def recoveries_within(self, limit_s: float) -> list[dict[str, Any]]:
        """The records, from a control plane that may be starting still."""
        found: list[dict[str, Any]] = self.wait(self.recoveries, limit_s, "the list of recoveries")
        return found

    def fingerprint(self, *names: str) -> str:
        """The parameters' SHA-256 that the training printed at its end into one of these logs."""
        text = "".join((self.folder / f"{name}.log").read_text(errors="replace") for name in names)
        found = re.findall(r"accuracy [\d.]+ parameters ([0-9a-f]{64})", text)
        require(found, f"no final line in the output of {', '.join(names)}")
        return found[-1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
