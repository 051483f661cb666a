"""The Compose simulation under test: its containers, what they hold, and faults from outside. Ended by its own name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import docker
from testcontainers.compose import DockerCompose

from resurge_launcher.views.model import RecoveryView, view_of
from resurge_libs.rpc.records import read_recoveries
from resurge_libs.testing import wait_until

ROOT = Path(__file__).parents[3]
NODES = ("node0", "node1", "node2", "node3")
IMAGES = ("resurge-rendezvous", "resurge-restart-policy", "resurge-log-aggregator", "resurge-node")
RENDEZVOUS_PORT = 7470

WORKERS = """
import os
from resurge.page import PageReader
files = [os.path.join(folder, name) for folder, _, names in os.walk('/dev/shm') for name in names]
views = [PageReader(file).read() for file in files if file.endswith('.page')]
newest = max((view.generation for view in views), default=0)
print(*[view.pid for view in views if view.generation == newest and view.pid])
"""
"""Inside a container: the ranks' processes as their pages name them, however they were started."""
START_LIMIT_S = 240.0
"""A machine that has just built the images reads them from its disk for the first time."""


def why_not() -> str | None:
    """Why the simulation cannot be brought up here; None when it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if not _says_yes("info"):
        return "no Docker engine answers (`docker info`)"
    if not _says_yes("compose", "version"):
        return "`docker compose` (version 2) is not installed"
    missing = [image for image in IMAGES if not _says_yes("image", "inspect", image)]
    return f"not built yet (make compose): {', '.join(missing)}" if missing else None


def _says_yes(*words: str) -> bool:
    return subprocess.run(["docker", *words], capture_output=True, timeout=60, check=False).returncode == 0


class Simulation:
    """One project of Compose, with a name of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = f"resurge-test-{os.getpid()}"
        settings = folder / "compose.env"
        # no machine is to blame for what is done to it here
        settings.write_text(f"RESURGE_COMPOSE_NAME={self.project}\nRESURGE_STEPS=100000\nRESURGE_OFFENDER_FAULTS=0\n")
        self.compose = DockerCompose(str(ROOT), compose_file_name="docker-compose.yml", env_file=str(settings))
        self.client = docker.from_env()

    def start(self) -> None:
        """Up, healthy, and three nodes that train."""
        self.compose.start()
        wait_until(self.is_whole, START_LIMIT_S, "three nodes that train, and a spare")

    def end(self) -> None:
        """Remove containers, network and volumes."""
        for container in self._containers(all=True, filters={"status": "paused"}):
            container.unpause()
        self.compose.stop(down=True)
        self.client.close()

    def print_logs(self) -> None:
        """For a test that failed."""
        for container in self._containers(all=True):
            print(f"-- {container.name}\n{container.logs(tail=25).decode(errors='replace')}")

    def _containers(self, **which: Any) -> list[Any]:
        filters = {"label": f"com.docker.compose.project={self.project}"} | which.pop("filters", {})
        return list(self.client.containers.list(filters=filters, **which))

    # -- looking

    def container(self, service: str) -> Any:
        """The container of a service, as it is now."""
        [found] = self._containers(all=True, filters={"name": f"{self.project}-{service}-1"})
        return found

    def inside(self, service: str, *words: str) -> str:
        """What a command prints in the container, run there as its own user; empty when it cannot run."""
        command = ["docker", "exec", f"{self.project}-{service}-1", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout if done.returncode == 0 else ""

    def job(self) -> dict[str, Any]:
        """The job as rendezvous shows it; empty while it cannot be read."""
        return dict(json.loads(self.inside("rendezvous", "cat", "/state/job.json") or "{}"))

    def standings(self) -> dict[str, str]:
        """Node to standing, without the prefix of the wire."""
        nodes = self.job().get("nodes", [])
        return {node["node_id"]: node.get("standing", "").removeprefix("NODE_STANDING_") for node in nodes}

    def active(self) -> set[str]:
        """The nodes that train."""
        return {node for node, standing in self.standings().items() if standing == "ACTIVE"}

    def generation(self) -> int:
        """The newest generation."""
        return int(self.job().get("token", {}).get("generation", 0))

    def is_whole(self) -> bool:
        """Three nodes train, their start is proven, and the fourth waits as a spare."""
        job = self.job()
        standings = sorted(self.standings().values())
        if job.get("phase") != "JOB_PHASE_RUNNING" or standings != ["ACTIVE"] * 3 + ["SPARE"]:
            return False
        return self.trains(int(job["token"].get("generation", 0)))

    def trains(self, generation: int) -> bool:
        """A rank of this generation has got as far as its first checkpoint."""
        return self._printed_since_start() and generation == self.generation()

    def _printed_since_start(self) -> bool:
        """In the file of the newest cycle."""
        text = self.inside("log-aggregator", "sh", "-c", "cat $(ls -t /logs/app_cycle*.log | head -n 1)")
        return " step " in text.rpartition("ranks start at step")[2]

    def recoveries(self) -> list[RecoveryView]:
        """The closed recoveries, oldest first."""
        copy = self.folder / "recoveries.jsonl"
        copy.write_text(self.inside("rendezvous", "cat", "/state/recoveries.jsonl"))
        return [view_of(record) for record in read_recoveries(self.folder).recoveries]

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The exported spans of one recovery."""
        lines = self.inside("rendezvous", "cat", "/state/spans.jsonl").splitlines()
        return [span for line in lines if (span := json.loads(line))["trace_id"] == trace_id]

    def workers(self, node: str) -> list[int]:
        """The ranks' processes in a node's container."""
        return [int(pid) for pid in self.inside(node, "python", "-c", WORKERS).split()]

    # -- faults

    def kill_inside(self, service: str, pid: int) -> None:
        """SIGKILL of one process in the container: no order of the engine, which would count as a wish to stop it."""
        self.inside(service, "sh", "-c", f"kill -9 {pid}")

    def kill_main(self, service: str) -> None:
        """SIGKILL of the container's own program, the child of its init."""
        self.inside(service, "sh", "-c", "kill -9 $(cat /proc/1/task/1/children)")

    def network(self) -> Any:
        """The simulation's network."""
        return self.client.networks.get(f"{self.project}_default")

    def lose_sent(self, node: str, *, heal: bool = False) -> None:
        """What the node sends to rendezvous is lost, the other direction works; or no more."""
        pid = str(self.container(node).attrs["State"]["Pid"])
        rule = ["OUTPUT", "-p", "tcp", "--dport", str(RENDEZVOUS_PORT), "-j", "DROP"]
        command = ["nsenter", "--target", pid, "--net", "--", "iptables", "-D" if heal else "-A", *rule]
        subprocess.run(command, check=True, capture_output=True, timeout=20)

    def has_restarted(self, service: str, times: int) -> bool:
        """The restart policy of Compose has brought the service back that often, and it is healthy."""
        state = self.container(service).attrs
        return state["RestartCount"] >= times and state["State"]["Health"]["Status"] == "healthy"

    def restarts(self, service: str) -> int:
        """How often it was brought back."""
        return int(self.container(service).attrs["RestartCount"])
