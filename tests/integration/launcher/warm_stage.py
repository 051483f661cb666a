"""Stands in for a launcher: starts workers by exec or from a fork server, waits for them, and tells how they were.

Run as `python -m tests.integration.launcher.warm_stage` with a JSON object on stdin; a process of its own, because it
becomes a subreaper and changes its limits, umask and signals. `play` in this module runs it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from resurge_launcher.processes import kernel
from resurge_launcher.processes.worker import Command, WorkerProcess
from resurge_launcher.warm.client import NotWarm, WarmStart
from resurge_launcher.warm.fork_server import Plan
from resurge_libs.obs import log

LIMIT_S = 40.0


@dataclass
class Scene:
    """What is played."""

    warm: bool
    program: str
    args: list[str] = field(default_factory=list)
    kind: str = "script"
    preload: list[str] = field(default_factory=list)
    workers: int = 1
    env: dict[str, str] = field(default_factory=dict)
    server_env: dict[str, str] = field(default_factory=dict)
    umask: int | None = None
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    ignored: list[int] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    nice: int = 0
    signal_workers: int = 0
    """Sent to each worker's group once it has printed something."""


def play(folder: Path, scene: Scene) -> dict:
    """The workers' ends and outputs; `cold` says why they were not forked, `log` what the keeper said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.launcher.warm_stage"],
        input=json.dumps({**asdict(scene), "root": os.getcwd()}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 10,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.getcwd()]), "STAGE_CWD": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "log": done.stderr}


class Reader(threading.Thread):
    """All that one pipe carries."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        self.data = b""
        self.start()

    def run(self) -> None:
        while chunk := os.read(self.read_end, 65536):
            self.data += chunk


async def main(scene: Scene) -> dict:
    kernel.become_subreaper()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a script inherits it ignored
    loop = asyncio.get_running_loop()
    os.chdir(os.environ["STAGE_CWD"])
    base = {**os.environ, **scene.env}
    plan = Plan(
        sys.executable, scene.kind, scene.program, scene.args, scene.preload,
        {**base, "OPENBLAS_NUM_THREADS": "1", **scene.server_env},
    )  # fmt: skip
    warm = WarmStart(plan)
    if scene.warm:
        warm.begin()
        warm.attach(loop)
        settled = asyncio.Event()
        warm.when_settled(settled.set)
        await asyncio.wait_for(settled.wait(), LIMIT_S)
    _set_the_scene(scene)
    pipes = [(Reader(), Reader()) for _ in range(scene.workers)]
    middle = ["-m"] if scene.kind == "module" else []
    argv = [sys.executable, "-u", *middle, scene.program, *scene.args]
    commands = [
        Command(argv, {**base, "RANK": str(rank)}, out.write_end, err.write_end)
        for rank, (out, err) in enumerate(pipes)
    ]
    cold, began = "", time.monotonic()
    try:
        workers = warm.start(commands) if scene.warm else [WorkerProcess.start(command) for command in commands]
    except NotWarm as why:
        cold, workers = why.because.sentence, [WorkerProcess.start(command) for command in commands]
    took_s = time.monotonic() - began
    for command in commands:
        os.close(command.stdout)
        os.close(command.stderr)
    over = asyncio.Semaphore(0)
    for worker in workers:
        worker.watch(loop, lambda _: over.release())
    if scene.signal_workers:
        while not all(out.data for out, _ in pipes):  # noqa: ASYNC110
            await asyncio.sleep(0.001 * len(pipes))
        for worker in workers:
            worker.signal_group(scene.signal_workers)
    for _ in workers:
        await asyncio.wait_for(over.acquire(), LIMIT_S)
    warm.close()
    told = []
    for worker, (out, err) in zip(workers, pipes, strict=True):
        out.join(5)
        err.join(5)
        told.append({
            "pid": worker.pid, "code": worker.status.exit_code, "signal": worker.status.signal,
            "out": out.data.decode(errors="replace"), "err": err.data.decode(errors="replace"),
        })  # fmt: skip
    left = [pid for pid in kernel.children_of(os.getpid()) if not (stat := kernel.stat_of(pid)) or not stat.is_over]
    return {"workers": told, "cold": cold, "took_s": took_s, "launcher": os.getpid(), "left": left}


def _set_the_scene(scene: Scene) -> None:
    if scene.umask is not None:
        os.umask(scene.umask)
    for name, limits in scene.limits.items():
        resource.setrlimit(getattr(resource, name), tuple(limits))
    for number in scene.ignored:
        signal.signal(number, signal.SIG_IGN)
    if scene.cpus:
        os.sched_setaffinity(0, scene.cpus)
    if scene.nice:
        os.nice(scene.nice)


if __name__ == "__main__":
    log.configure(as_json=True)
    read = json.loads(sys.stdin.read())
    root = read.pop("root")
    print(json.dumps(asyncio.run(main(Scene(**read)))))
