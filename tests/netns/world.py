"""A job on hosts of its own: the control plane on one, a launcher on each of three, two of which train."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resurge_launcher.pages import remove_pages
from resurge_libs.rpc.records import read_recoveries
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.demo.ranks import Crew, crew
from tests.netns.namespaces import Network

CONTROL = "control"
NODES = ("n0", "n1", "n2")
PORT, PROXY_PORT = 29400, 29401
SILENT_NAME_SERVER = "import socket,threading; s=socket.socket(2,2); s.bind(('',53)); threading.Event().wait()"
TOKEN = "a token of the tests"
LOCKSTEP = Path(__file__).with_name("lockstep.py")
END_LIMIT_S = 15.0
STEP_S = "0.05"


class CellFailed(Exception):
    """What a cell promises did not hold."""


def require(condition: object, sentence: str) -> None:
    """Raises CellFailed with the sentence unless the condition holds."""
    if not condition:
        raise CellFailed(sentence)


@dataclass(frozen=True, slots=True)
class Training:
    """What the nodes run, and how they reach the control plane. `{folder}` in the script is the world's folder."""

    flags: tuple[str, ...] = ()
    min_nodes: int = 2
    """So many nodes of three train, with a rank each; the others are spares."""
    script: tuple[str, ...] = (str(LOCKSTEP), "{folder}", STEP_S)
    environment: tuple[tuple[str, str], ...] = ()
    proxy_delay_s: str = ""
    """Launchers reach the control plane by a proxy that is late by this; empty: directly."""
    silent_name_server: bool = False
    """The nodes' name server takes questions and answers none; no name but localhost is known without it."""


class World:
    """Control plane, two nodes and a spare with one rank each, in one temporary folder."""

    def __init__(self, training: Training | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rsgns-"))
        self.network = Network(CONTROL, *NODES)
        self.training = training or Training()
        self.job = f"netns-{os.getpid()}-{self.folder.name[-8:]}"
        self.run_dirs = {node: self.folder / node for node in NODES}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._seen_pids: set[int] = set()

    @property
    def endpoint(self) -> str:
        """Where the control plane listens."""
        return f"{self.network.address[CONTROL]}:{PORT}"

    # -- starting and ending

    def start(self) -> None:
        """Start everything; returns when the control plane is ready."""
        serve = ["resurge_host", "--targets", "all", "--listen", self.endpoint, "--log-json"]
        self._start(CONTROL, ["-m", *serve, "--state-dir", str(self.folder / "state")])
        wait_until(lambda: "resurge-host ready" in self.log(CONTROL), 30, "the control plane")
        endpoint, around = self.endpoint, ()
        if self.training.proxy_delay_s:
            words = [str(PROXY_PORT), self.network.address[CONTROL], str(PORT), self.training.proxy_delay_s]
            self._start("proxy", ["-m", "tests.netns.proxy", *words], host=CONTROL)
            wait_until(lambda: "proxy ready" in self.log("proxy"), 30, "the proxy")
            endpoint = f"{self.network.address[CONTROL]}:{PROXY_PORT}"
        if self.training.silent_name_server:
            self._start("names", ["-c", SILENT_NAME_SERVER], host=CONTROL)
            around = self._own_names()
        for rank, node in enumerate(NODES):
            self._start_launcher(rank, node, endpoint, around)

    def _start_launcher(self, rank: int, node: str, endpoint: str, around: tuple[str, ...]) -> None:
        self.run_dirs[node].mkdir()
        where = ["--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=false"]
        where += ["--node-id", node, "--node-rank", str(rank), "--run-dir", str(self.run_dirs[node])]
        where += ["--local-addr", self.network.address[node], "--log-dir", str(self.folder / f"logs-{node}")]
        size = [
            "--nnodes",
            f"{self.training.min_nodes}:{len(NODES)}",
            "--max-restarts",
            "20",
            "--rdzv-id",
            self.job,
            *self.training.flags,
        ]
        script = [word.format(folder=self.folder) for word in self.training.script]
        self._start(node, ["-m", "resurge_launcher", "run", *where, *size, *script], around)

    def _own_names(self) -> tuple[str, ...]:
        """Words before a command that give it files of its own for the resolution of names."""
        server, known = self.folder / "resolv.conf", self.folder / "hosts"
        server.write_text(f"nameserver {self.network.address[CONTROL]}\n")
        known.write_text("127.0.0.1 localhost\n")
        script = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
        return ("unshare", "--mount", "--", "sh", "-c", script, "sh", str(server), str(known))

    def _start(self, name: str, words: list[str], around: tuple[str, ...] = (), host: str = "") -> None:
        command = self.network.inside(host or name, *around, sys.executable, *words)
        environment = (
            os.environ | {"RESURGE_JOB_TOKEN": TOKEN, "RESURGE_MACHINE_ID": name} | dict(self.training.environment)
        )
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
            )

    def finish(self, limit_s: float = 30.0) -> None:
        """Tell the training to stop; every launcher must end with 0."""
        (self.folder / "stop").touch()
        codes = {node: self.processes[node].wait(limit_s) for node in NODES}
        require(set(codes.values()) == {0}, f"launchers ended with {codes}")

    def end(self) -> None:
        """End what is left, and remove the hosts."""
        left = [process for process in self.processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        for process in left:
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._seen_pids:
            if self._is_our_worker(pid):
                os.kill(pid, signal.SIGKILL)
        self.network.remove()
        for run_dir in self.run_dirs.values():
            remove_pages(run_dir)

    def forget(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_our_worker(self, pid: int) -> bool:
        try:
            return str(self.folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    # -- looking

    def log(self, name: str) -> str:
        """What this host's process has printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def events(self, name: str, since: float) -> list[dict[str, Any]]:
        """The control plane's events of this name since that wall time."""
        found = [json.loads(line) for line in self.log(CONTROL).splitlines() if line.startswith("{")]
        return [event for event in found if event["event"] == name and event["time"] >= since]

    def recoveries(self) -> list[Any]:
        """The closed recovery records."""
        return list(read_recoveries(self.folder / "state").recoveries)

    def crew(self) -> Crew:
        """The ranks of the newest generation."""
        found = crew(self.run_dirs)
        self._seen_pids |= found.pids
        return found

    def wait(self, condition: Callable[[], Any], limit_s: float, what: str) -> Any:
        """The condition's first truthy value; a process that ends meanwhile is a failure."""

        def look() -> Any:
            for name, process in self.processes.items():
                code = process.poll()
                require(code is None, f"the process of {name} ended with {code} while a cell waited for {what}")
            return condition()

        return wait_until(look, limit_s, what)

    def wait_for_training(self, limit_s: float = 60.0) -> Crew:
        """The nodes train, and the spares are there."""

        def there() -> Crew | None:
            now = self.crew()
            return now if self._all_are_there() and now.trains(self.training.min_nodes) and self._goes_on(now) else None

        found: Crew = self.wait(there, limit_s, "ranks that train, and a spare")
        return found

    def _all_are_there(self) -> bool:
        attached: dict[str, str] = {}
        for name in ("node_admitted", "node_returned", "node_lost"):
            for event in self.events(name, 0.0):
                attached[event["node"]] = max(attached.get(event["node"], ""), f"{event['time']:.6f} {name}")
        living = {node for node, last in attached.items() if not last.endswith("node_lost")}
        return living == set(NODES)

    def _goes_on(self, before: Crew) -> bool:
        try:
            wait_until(lambda: self.crew().step > before.step + 2, 2)
        except AssertionError:
            return False
        return self.crew().generation == before.generation

    def wait_for_newer(self, than: Crew, limit_s: float = 60.0) -> Crew:
        """A newer generation trains."""

        def there() -> Crew | None:
            now = self.crew()
            return now if now.generation > than.generation and now.trains(self.training.min_nodes) else None

        found: Crew = self.wait(there, limit_s, f"the ranks of a generation after {than.generation}")
        return found

    def lost_after(self, node: str, since: float, limit_s: float = 20.0) -> float:
        """Seconds from that wall time until the control plane called the node lost."""

        def seen() -> float:
            times = [event["time"] for event in self.events("node_lost", since) if event["node"] == node]
            return times[0] - since if times else 0.0

        found: float = self.wait(seen, limit_s, f"the loss of {node}")
        return found

    def wait_until_back(self, node: str, since: float, limit_s: float = 30.0) -> None:
        """A lost node is a spare again."""

        def back() -> bool:
            names = ("node_returned", "node_admitted")
            return any(event["node"] == node for name in names for event in self.events(name, since))

        self.wait(back, limit_s, f"the return of {node}")


def stays(condition: Callable[[], bool], for_s: float) -> bool:
    """Whether the condition holds all the time."""
    until = time.monotonic() + for_s
    return bool(wait_until(lambda: "no" if not condition() else time.monotonic() >= until, for_s + 5)) and condition()


def alive(pids: frozenset[int]) -> bool:
    """All of these processes live."""
    return all(is_alive(pid) for pid in pids)
