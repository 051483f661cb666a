"""The launchers that are measured: how each is started, and where each says that it knows of a dead worker."""

import calendar
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from tests.bench import peers
from tests.bench.jobs import Job, Launch, Shape

TRAIN = Path(__file__).with_name("train.py")


@dataclass(frozen=True)
class Plan:
    """What a system needs to know to start a job."""

    shape: Shape
    out: Path
    port: int
    max_restarts: int
    env: dict[str, str]
    script: Path = TRAIN


class System(Protocol):
    """One launcher product."""

    name: str

    def launches(self, plan: Plan) -> list[Launch]:
        """The commands, one per node."""
        ...

    def known_at(self, job: Job, since: float) -> float | None:
        """When a launcher said that a worker had failed, first after ``since``; None: none said so."""
        ...


def _base_env(plan: Plan) -> dict[str, str]:
    own = {"BENCH_OUT": str(plan.out), "OMP_NUM_THREADS": "1", "TZ": "UTC", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **own, **plan.env}


def _first_after(times: Iterator[float], since: float) -> float | None:
    # stamps in logs have whole milliseconds, cut off: one millisecond of grace keeps a quick answer
    return min((at for at in times if at >= since - 0.001), default=None)


def _utc(text: str, fraction: str) -> float:
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S")) + float(f"0.{fraction}")


def _rdzv_flags(plan: Plan, node: int) -> tuple[str, ...]:
    return (
        "--nnodes", str(plan.shape.nodes), "--nproc-per-node", str(plan.shape.workers), "--rdzv-backend", "c10d",
        "--rdzv-id", "bench", "--rdzv-endpoint", f"127.0.0.1:{plan.port}",
        "--rdzv-conf", f"is_host={'true' if node == 0 else 'false'}", "--local-addr", "127.0.0.1",
        "--max-restarts", str(plan.max_restarts),
    )  # fmt: skip


class Torchrun:
    """torchrun as torch ships it, with every setting at its default."""

    name = "torchrun"
    _FAILED = re.compile(r"^E(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d+) .*failed \(exitcode", re.MULTILINE)

    def launches(self, plan):
        env = _base_env(plan)
        # With the shared agent store the second generation hangs in gloo's init on the first one's keys.
        env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        head = (sys.executable, "-m", "torch.distributed.run")
        nodes = range(plan.shape.nodes + plan.shape.spares)
        return [Launch((*head, *_rdzv_flags(plan, node), str(plan.script)), env) for node in nodes]

    def known_at(self, job, since):
        year = time.gmtime(since).tm_year
        found = (self._FAILED.finditer(log) for log in job.logs())
        return _first_after((_utc(f"{year}-{m[1]}-{m[2]} {m[3]}", m[4]) for m in chain.from_iterable(found)), since)


class Nvrx:
    """The published peer; its own start-up path, every time limit at its default."""

    name = "nvrx"
    _FAILED = re.compile(r"Event: failure_detected .*?Time: (\d+-\d+-\d+ \d\d:\d\d:\d\d)\.(\d+) UTC")

    def __init__(self) -> None:
        self.peer = peers.find_or_make()

    def launches(self, plan):
        nodes, launches = plan.shape.nodes, []
        for node in range(nodes + plan.shape.spares):
            env = _base_env(plan) | {
                "PYTHONPATH": self.peer.source, "NVRX_ENABLE_MULTI_LAUNCHERS_PER_NODE": "1", "GROUP_RANK": str(node),
            }  # fmt: skip
            argv = (
                self.peer.python, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher", *_rdzv_flags(plan, node),
                "--ft-max-no-progress-cycles", "0", "--ft-ignore-missing-cfg", str(plan.script),
            )  # fmt: skip
            launches.append(Launch(argv, env))
        return launches

    def known_at(self, job, since):
        found = (self._FAILED.finditer(log) for log in job.logs())
        return _first_after((_utc(m[1], m[2]) for m in chain.from_iterable(found)), since)


class ResurgeMissing(Exception):
    """The project's own command is not installed."""


class Resurge:
    """This project."""

    name = "resurge"

    def __init__(self) -> None:
        beside = Path(sys.executable).with_name("resurge")
        command = str(beside) if beside.exists() else shutil.which("resurge")
        if command is None:
            raise ResurgeMissing("no command named resurge is installed")
        self.command = command

    def launches(self, plan):
        raise NotImplementedError

    def known_at(self, job, since):
        raise NotImplementedError
