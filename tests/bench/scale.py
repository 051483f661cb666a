"""One rendezvous process on one core, real gRPC, N simulated launchers with a connection each: what does it cost?

The service's own processor seconds are the main figure, wall time is the second: launchers and service share a small
machine. Measured for each size: the round is formed, the teardown order after a fault has reached the last launcher,
processor time while idle, memory. The report holds the targets.

    python -m tests.bench.scale [--sizes 100,1000,10000] [--relays 10000/10] [--faults N] [--grpc] [--keep DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.channel import open_sync_channel
from resurge_libs.rpc.endpoint import parse_endpoint
from tests.bench.scale_cpu import Processes
from tests.bench.scale_report import Measured, report

NODES_PER_PROCESS = 10_000
FAULTS = {100: 40, 1_000: 20, 10_000: 3}
RESTARTED = (1_000,)
"""Sizes at which the service is killed and started anew."""
STEP_LIMIT_S = 150.0
LEASE_TTL_S = 5.0
CROWD = 5_000
"""From so many launchers on, the job brings a longer lease: they, and relays, share a processor here, and whoever comes
first among ten thousand would else beat twice before the last has come."""
CROWD_LEASE_TTL_S = 15.0
POLL_S = 0.02


def pause(for_s: float) -> None:
    """What is measured needs its time; launchers act by themselves meanwhile."""
    threading.Event().wait(for_s)


class Clients:
    """One process with some of the launchers."""

    def __init__(self, words: Sequence[object], log: Path, grpc: bool) -> None:
        module = "tests.bench.scale_grpc" if grpc else "tests.bench.scale_clients"
        command = [sys.executable, "-m", module, *(str(word) for word in words)]
        self.stderr = log.open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, text=True
        )

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a client process is gone; see {self.stderr.name}")
        return json.loads(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.send("quit")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stderr.close()


class Fleet:
    """All client processes, asked together."""

    def __init__(
        self, targets: Sequence[str], nodes: int, out: Path, lease_s: float = LEASE_TTL_S, grpc: bool = False
    ) -> None:
        self.parts = [
            Clients(
                (",".join(targets), first, min(NODES_PER_PROCESS, nodes - first), nodes, lease_s),
                out / f"clients-{first}.log",
                grpc,
            )
            for first in range(0, nodes, NODES_PER_PROCESS)
        ]
        self.nodes = nodes

    @property
    def pids(self) -> list[int]:
        """Of the client processes."""
        return [part.process.pid for part in self.parts]

    def ask(self, command: str) -> list[dict[str, Any]]:
        """The answers of all, to a command that all got at the same time."""
        for part in self.parts:
            part.send(command)
        return [part.answer() for part in self.parts]

    def fault(self) -> float:
        """Kill one worker; when."""
        self.parts[0].send("fault")
        return float(self.parts[0].answer()["at"])

    def all_reached(self, kind: str, generation: int) -> float | None:
        """When the last launcher was told; None while some were not."""
        answers = self.ask(f"reached {kind} {generation}")
        errors = [error for answer in answers for error in answer["errors"]]
        if errors:
            raise SystemExit(f"launchers were refused: {errors[0]}")
        if sum(answer["count"] for answer in answers) < self.nodes:
            return None
        return float(max(answer["last"] for answer in answers))

    def wait(self, kind: str, generation: int) -> float | None:
        """As `all_reached`, but waits; None when the limit passed."""
        give_up_at = time.monotonic() + STEP_LIMIT_S
        while time.monotonic() < give_up_at:
            at = self.all_reached(kind, generation)
            if at is not None:
                return at
            pause(POLL_S if self.nodes < 5_000 else POLL_S * 10)
        return None

    def missing(self, kind: str, generation: int) -> tuple[int, list[str]]:
        """How many were not told, and what some of them met instead."""
        answers = self.ask(f"reached {kind} {generation}")
        errors = [error for answer in answers for error in answer["errors"]]
        return self.nodes - sum(answer["count"] for answer in answers), errors[:3]

    def close(self) -> None:
        for part in self.parts:
            part.close()


class Service:
    """Rendezvous alone, pinned to one core before its first thread starts."""

    def __init__(self, core: int, out: Path) -> None:
        self.core, self.out = core, out
        self.target = "127.0.0.1:0"
        self.started: subprocess.Popen[str] | None = None

    @property
    def process(self) -> psutil.Process:
        assert self.started is not None
        return psutil.Process(self.started.pid)

    def start(self) -> None:
        """Begin, or begin anew where it was, on the state it left."""
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.core})  # threads inherit it, so it is set before the process begins
        command = [sys.executable, "-m", "resurge_rendezvous", "--listen", self.target]
        command += ["--state-dir", str(self.out / "state")]
        with (self.out / "service.log").open("a") as stderr:
            self.started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        os.sched_setaffinity(0, mine)
        self.target = _address_of(self.started, self.out)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.started is not None
        self.started.kill()
        self.started.wait()


@contextlib.contextmanager
def service(core: int, out: Path) -> Iterator[Service]:
    """A service until the end of the block."""
    served = Service(core, out)
    served.start()
    try:
        yield served
    finally:
        served.kill()


@contextlib.contextmanager
def relays(count: int, root: str, out: Path) -> Iterator[tuple[list[str], list[int]]]:
    """So many relays before the root, on all cores; their addresses and process ids."""
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(count):
            command = [sys.executable, "-m", "resurge_host", "--targets", "relay", "--root", root]
            with (out / f"relay-{number}.log").open("w") as stderr:
                command += ["--listen", "127.0.0.1:0", "--max-launchers", "4096"]
                started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True))
        yield [_address_of(process, out) for process in started], [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _address_of(process: subprocess.Popen[str], out: Path) -> str:
    assert process.stdout is not None
    words = dict(word.split("=", 1) for word in process.stdout.readline().split() if "=" in word)
    if "endpoint" not in words:
        raise SystemExit(f"a process did not start; see {out}")
    return words["endpoint"]


def port_of(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def established(pids: Sequence[int], ports: Sequence[int]) -> int:
    """TCP connections of these processes that the kernel holds established to these ports."""
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and bool(connection.raddr) and connection.raddr.port in ports
        for pid in pids
        for connection in psutil.Process(pid).net_connections("tcp")
    )


def measure(nodes: int, behind: int, given: argparse.Namespace, out: Path) -> Measured:
    """One size, from connecting to the last of its faults; `behind` so many relays, or 0."""
    lease_s = CROWD_LEASE_TTL_S if nodes >= CROWD else LEASE_TTL_S
    found = Measured(nodes, behind, load=os.getloadavg()[0], lease_s=lease_s)
    cores = sorted(os.sched_getaffinity(0))
    shutil.rmtree(out, ignore_errors=True)  # an old journal would be a job that goes on
    out.mkdir(parents=True)
    with service(cores[0], out) as served:
        found.rss_before_mib = served.process.memory_info().rss / 2**20
        with relays(behind, served.target, out) as (between, relay_pids):
            os.sched_setaffinity(0, set(cores[1:]) or set(cores))
            fleet = Fleet(between or [served.target], nodes, out, lease_s, given.grpc)
            run = Run(found, fleet, served, Processes(served.process.pid, relay_pids, fleet.pids), given)
            try:
                _connect(run, [port_of(address) for address in between or [served.target]])
                if _form(run):
                    _measure_idle(run)
                    _break(run)
                    if nodes in RESTARTED and not behind and not given.grpc:
                        _restart(run)
            finally:
                fleet.close()
                os.sched_setaffinity(0, set(cores))
    print(found.line(), flush=True)
    return found


@dataclass(frozen=True)
class Run:
    """One size while it is measured."""

    found: Measured
    fleet: Fleet
    served: Service
    processes: Processes
    given: argparse.Namespace

    @property
    def settle_s(self) -> float:
        """Until every start is told: what is idle, and the next incident, come after it."""
        return float(self.given.settle_s) * (1 + self.found.nodes / 2_500)


def _connect(run: Run, ports: Sequence[int]) -> None:
    found, began = run.found, time.monotonic()
    run.fleet.ask("connect")
    found.connect_s = time.monotonic() - began
    give_up_at = time.monotonic() + STEP_LIMIT_S
    while (count := established(run.fleet.pids, ports)) != found.nodes and time.monotonic() < give_up_at:
        pause(POLL_S * 10)
    found.connections = count
    assert found.connections == found.nodes, f"{found.connections} connections for {found.nodes} launchers"


def _form(run: Run) -> bool:
    found, fleet = run.found, run.fleet
    used = run.processes.spent()
    joined = min(answer["began"] for answer in fleet.ask("join"))
    formed = fleet.wait("run", 1)
    found.formed_cpu = run.processes.spent().since(used)
    found.lost_joins, found.errors = fleet.missing("run", 1)
    if formed is None:
        return False
    found.formed_s = formed - joined
    pause(run.settle_s)
    found.started_cpu = run.processes.spent().since(used)
    found.rss_mib = run.served.process.memory_info().rss / 2**20
    return True


def _break(run: Run) -> None:
    found, fleet = run.found, run.fleet
    for number in range(1, 1 + (run.given.faults or FAULTS.get(found.nodes, 5))):
        used = run.processes.spent()
        at = fleet.fault()
        down = fleet.wait("down", number)
        ordered = run.processes.spent()
        up = fleet.wait("run", number + 1)
        if down is None or up is None:
            found.errors.append(f"after fault {number} not every launcher was told")
            return
        found.fanouts_s.append(down - at)
        found.reformed_s.append(up - at)
        pause(run.settle_s)
        found.order_cpu.append(ordered.since(used))
        found.fault_cpu.append(run.processes.spent().since(used))
    found.rss_end_mib = run.served.process.memory_info().rss / 2**20


def _restart(run: Run) -> None:
    """SIGKILL, a new start on the same state and address, and all launchers come back at once."""
    found, fleet, served = run.found, run.fleet, run.served
    before = _job_of(served.target)
    killed_at = time.monotonic()
    served.kill()
    served.start()
    found.service_back_s = time.monotonic() - killed_at
    give_up_at = time.monotonic() + STEP_LIMIT_S
    while time.monotonic() < give_up_at:
        answers = fleet.ask(f"back {killed_at}")
        if sum(answer["count"] for answer in answers) == found.nodes:
            found.restart_back_s = max(answer["last"] for answer in answers) - killed_at
            break
        pause(POLL_S)
    pause(LEASE_TTL_S * 2)  # by then whoever had not come back would have been lost
    after = _job_of(served.target)
    lost = [node.node_id for node in after.nodes if node.standing != rendezvous_pb2.NODE_STANDING_ACTIVE]
    found.lost_nodes = len(lost)
    if found.restart_back_s is None or lost or after.token.generation != before.token.generation:
        found.errors.append(
            f"after the restart {len(lost)} nodes are missing ({', '.join(lost[:3])}); generation "
            f"{before.token.generation} before, {after.token.generation} after"
        )


def _job_of(target: str) -> rendezvous_pb2.Job:
    with open_sync_channel(parse_endpoint(target), TimeLimits()) as channel:
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
        return stub.GetJob(rendezvous_pb2.GetJobRequest(job_id="scale"), timeout=STEP_LIMIT_S).job


def _measure_idle(run: Run) -> None:
    def beats() -> int:
        return sum(answer["beats"] for answer in run.fleet.ask("beats"))

    used, told, began = run.processes.spent(), beats(), time.monotonic()
    pause(run.given.idle_s)
    took_s = time.monotonic() - began
    run.found.idle_cpu = run.processes.spent().since(used).per(took_s)
    run.found.beats_per_s = (beats() - told) / took_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--relays", default="10000/10", help="launchers/relays, the launchers behind so many relays")
    parser.add_argument("--faults", type=int, default=0, help="faults per size; 0: by size")
    parser.add_argument("--idle-s", type=float, default=10.0)
    parser.add_argument("--settle-s", type=float, default=1.0)
    parser.add_argument("--grpc", action="store_true", help="launchers on gRPC's own client, for a cross-check at 100")
    parser.add_argument("--keep", type=Path, help="keep logs and journals here")
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    out = given.keep or Path(tempfile.mkdtemp(prefix="resurge-scale-"))
    load = os.getloadavg()[0]
    try:
        sizes = [measure(int(size), 0, given, out / size) for size in given.sizes.split(",") if size]
        for pair in filter(None, given.relays.split(",")):
            nodes, _, behind = pair.partition("/")
            sizes.append(measure(int(nodes), int(behind), given, out / f"{nodes}-by-{behind}"))
    finally:
        if given.keep is None:
            shutil.rmtree(out, ignore_errors=True)
    return 0 if report(sizes, load) else 1


if __name__ == "__main__":
    raise SystemExit(main())
