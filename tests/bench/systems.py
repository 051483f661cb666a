"""The launchers that are measured: how each is started, and where each says that it knows of a dead worker."""

import calendar
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from resurge_libs.obs.names import SpanName
from resurge_libs.rpc.records import read_recoveries
from resurge_libs.testing.wait import NeverHappened, wait_until
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

    @property
    def job_id(self) -> str:
        """A name of its own for each job: what one left behind is none of the next one's business."""
        return f"bench-{os.getpid()}-{self.port}"


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
        "--nnodes", plan.shape.nnodes, "--nproc-per-node", str(plan.shape.workers), "--rdzv-backend", "c10d",
        "--rdzv-id", plan.job_id, "--rdzv-endpoint", f"127.0.0.1:{plan.port}",
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
    """This project: one control plane on the first node, every setting at its default, which means warm starts."""

    name = "resurge"
    more_flags: tuple[str, ...] = ()
    RECORD_LIMIT_S = 3.0

    def __init__(self) -> None:
        if importlib.util.find_spec("resurge_launcher") is None:
            raise ResurgeMissing("no distribution of the launcher is installed")

    def launches(self, plan):
        shape, launches = plan.shape, []
        nodes = shape.nodes + shape.spares
        for node in range(nodes):
            where = (
                "--nnodes", shape.nnodes, "--node-rank", str(node), "--rdzv-endpoint", f"127.0.0.1:{plan.port}",
                "--rdzv-conf", f"is_host={'true' if node == 0 else 'false'}", "--local-addr", "127.0.0.1",
            )  # fmt: skip
            argv = (
                sys.executable, "-m", "resurge_launcher", "run", "--nproc-per-node", str(shape.workers),
                "--rdzv-id", plan.job_id, "--max-restarts", str(plan.max_restarts),
                "--state-dir", str(plan.out / "state"), *(where if nodes > 1 else ("--standalone",)),
                *self.more_flags, str(plan.script),
            )  # fmt: skip
            launches.append(Launch(argv, _base_env(plan)))
        return launches

    def known_at(self, job, since):
        """The end of the recovery's `detect` span, by which its launcher had acted; from the durable record."""
        try:
            found = wait_until(lambda: self._detected(job, since), self.RECORD_LIMIT_S, "the recovery's record")
        except NeverHappened:
            return None
        return min(found)

    @staticmethod
    def _detected(job: Job, since: float) -> list[float]:
        records = read_recoveries(job.out / "state").recoveries
        spans = (part.span for record in records for part in record.spans if part.span.name == SpanName.DETECT)
        ends = [span.end.ToNanoseconds() / 1e9 for span in spans]
        return [at for at in ends if at >= since - 0.001]


class ColdResurge(Resurge):
    """The same without its fork server."""

    name = "cold"
    more_flags = ("--warm", "off")
