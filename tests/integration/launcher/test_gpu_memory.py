"""GPU memory between cycles: the real nvidia-ml-py on a driver's library of our own, in the probe's process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.core.reclaim import FAST_FOR_S, GpuReading
from resurge_launcher.gpu_memory import GpuMemoryReader
from resurge_libs.testing import wait_until, wait_until_async
from resurge_libs.testing.process_faults import is_alive, kill
from tests.fakes import gpus as fake
from tests.fakes.gpus import Gpus
from tests.integration.launcher.launching import FOREVER, Launched

HELD, FREE = 60_000, 12


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Gpus:
    return fake.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(library: Gpus) -> Gpus:
    return library.say((FREE, "ok", ""), (FREE, "ok", ""))


@pytest.fixture
async def reader(gpus: Gpus) -> Iterator[GpuMemoryReader]:
    environ = {**os.environ, **gpus.environ}
    reader = GpuMemoryReader(sys.executable, None, environ, limit_s=3.0)
    yield reader
    reader.close()


async def look(reader: GpuMemoryReader) -> tuple[tuple[GpuReading, ...], str]:
    done: asyncio.Future[tuple[tuple[GpuReading, ...], str]] = asyncio.get_running_loop().create_future()
    reader.look(lambda readings, problem: done.set_result((readings, problem)))
    return await asyncio.wait_for(done, 10)


async def test_memory_is_told_by_uuid_without_what_the_driver_keeps_and_with_its_holders(gpus, reader):
    gpus.say((HELD, "ok", f"{os.getpid()}:59000"), (FREE, "ok", ""))
    (first, second), problem = await look(reader)
    assert not problem
    assert first.uuid.startswith("GPU-fa4e0000") and first.uuid != second.uuid
    assert (first.used_mb, first.reserved_mb, first.total_mb, second.used_mb) == (HELD, 561, 81_559, FREE)
    (holder,) = first.holders
    assert (holder.pid, holder.used_mb) == (os.getpid(), 59_000) and holder.name


@pytest.mark.parametrize(("visible", "uuids"), [("1", [1]), ("1,0", [1, 0]), ("0,-1,1", [0]), ("GPU-fa4e0000", [0])])
async def test_only_the_gpus_that_workers_see_count(gpus, visible, uuids):
    reader = GpuMemoryReader(sys.executable, visible, {**os.environ, **gpus.environ})
    try:
        readings, _ = await look(reader)
    finally:
        reader.close()
    assert [int(reading.uuid[-12:]) for reading in readings] == uuids


async def test_a_lost_gpu_is_unknown_and_the_others_are_told(gpus, reader):
    gpus.say((0, "lost", ""), (HELD, "ok", ""))
    (first, second), problem = await look(reader)
    assert (first.used_mb, second.used_mb, problem) == (None, HELD, "")
    assert "lost" in first.problem.lower()


async def test_a_library_that_hangs_is_left_behind_with_its_process(gpus, reader):
    gpus.say((HELD, "hang", ""))
    began = time.monotonic()
    readings, problem = await look(reader)
    assert (readings, time.monotonic() - began < 6) == ((), True)
    assert "did not answer within 3 s" in problem
    gpus.say((FREE, "ok", ""))
    await wait_until_async(lambda: not any(is_alive(pid) for pid in reader.pids), 10, "the end of the child")
    (again,), _ = await look(reader)
    assert again.used_mb == FREE, "the next look has a child of its own"


async def test_without_the_library_it_is_said(tmp_path):
    reader = GpuMemoryReader(sys.executable, None, {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    try:
        readings, problem = await look(reader)
    finally:
        reader.close()
    assert not readings and problem


async def test_a_driver_that_fails_to_start_is_asked_anew_at_the_next_look(gpus, reader):
    gpus.fail(9)
    _, problem = await look(reader)
    assert "DriverNotLoaded" in problem
    gpus.say((FREE, "ok", ""))
    (reading,), _ = await look(reader)
    assert reading.used_mb == FREE


async def test_the_child_is_killed_between_two_looks(gpus, reader):
    await look(reader)
    (pid,) = reader.pids
    kill(pid)
    wait_until(lambda: not is_alive(pid), 10, "the child's end")
    (first, _), _ = await look(reader)
    assert first.used_mb == FREE


def test_the_probe_dies_with_whoever_started_it(gpus):
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-I', '-m', 'resurge_libs.gpu_probe', 'memory'], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'1\\n'); child.stdin.flush(); child.stdout.readline()\n"
        "print(child.pid, flush=True); time.sleep(60)\n"
    )
    environ = {**os.environ, **gpus.environ}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), 10, "the probe's end")


# ----------------------------------------------------------------------------------------- a launcher that waits


async def restarted(launched: Launched, gpus: Gpus, monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    """A worker dies, and the next generation is wanted as soon as the node is ready."""
    for name, value in gpus.environ.items():
        monkeypatch.setenv(name, value)
    launched.start(FOREVER, "--max-restarts", "3", *flags)
    (pid,) = await launched.running()
    gpus.say((HELD, "ok", "4711:60000"), (FREE, "ok", ""))
    kill(pid)
    await launched.rendezvous.until("READY", 1)
    launched.rendezvous.want_run(2, 1)


def span_of(launched: Launched) -> dict[str, str]:
    (span,) = [span for span in launched.rendezvous.told.spans if span.name == "reclaim"]
    return dict(span.attributes)


async def told(launched: Launched, event: str, limit_s: float = 20.0) -> str:
    await wait_until_async(lambda: f" {event} " in launched.output(), limit_s, event)
    return next(line for line in launched.output().splitlines() if f" {event} " in line)


async def test_a_restart_waits_for_memory_that_is_released_in_time(launched: Launched, gpus, monkeypatch):
    await restarted(launched, gpus, monkeypatch)
    await launched.rendezvous.until("STARTING", 2)
    assert not (launched.folder / "pid-2-0").exists()
    gpus.say((FREE, "ok", ""), (FREE, "ok", ""))
    await launched.pids(2, 1)
    assert "after_s" in await told(launched, "gpu_memory_reclaimed")


async def test_memory_that_is_released_late_is_waited_for_beyond_the_quick_looks(launched: Launched, gpus, monkeypatch):
    await restarted(launched, gpus, monkeypatch)
    await launched.rendezvous.until("STARTING", 2)
    late = time.monotonic() + FAST_FOR_S + 0.5
    await wait_until_async(lambda: time.monotonic() > late, 20, "the end of the quick looks")
    assert not (launched.folder / "pid-2-0").exists(), "it still waits"
    gpus.say((FREE, "ok", ""), (FREE, "ok", ""))
    await launched.pids(2, 1)
    line = await told(launched, "gpu_memory_reclaimed")
    assert float(line.partition("after_s=")[2].split()[0]) > FAST_FOR_S


@pytest.mark.parametrize(
    ("lines", "flags", "event", "says"),
    [
        (((HELD, "ok", "4711:60000"),), ("1",), "gpu_memory_error", "memory is still held: GPU-fa4e"),
        (((HELD, "lost", ""),), ("20",), "gpu_memory_unknown", "cannot be read"),
        (((HELD, "hang", ""),), ("1",), "gpu_memory_error", "the restart goes on all the same"),
    ],
    ids=["never", "lost", "hangs"],
)
async def test_whatever_the_driver_does_the_restart_goes_on_and_it_is_said(
    launched: Launched, gpus, monkeypatch, lines, flags, event, says
):
    await restarted(launched, gpus, monkeypatch, "--ft-gpu-memory-reclaim-timeout", *flags)
    gpus.say(*lines)
    await launched.pids(2, 1)
    assert says in await told(launched, event)


async def test_a_machine_whose_library_is_missing_restarts_at_once(launched: Launched, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    launched.start(FOREVER, "--max-restarts", "3")
    (pid,) = await launched.running()
    kill(pid)
    await launched.rendezvous.until("READY", 1)
    launched.rendezvous.want_run(2, 1)
    await launched.pids(2, 1)
    assert "it cannot be known" in await told(launched, "gpu_memory_unknown")


@pytest.mark.skipif(Path("/proc/driver/nvidia/gpus").is_dir(), reason="this machine has GPUs")
async def test_a_machine_without_gpus_starts_no_probe(launched: Launched, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    launched.start(FOREVER, "--max-restarts", "3")
    (pid,) = await launched.running()
    kill(pid)
    await launched.rendezvous.until("READY", 1)
    launched.rendezvous.want_run(2, 1)
    await launched.pids(2, 1)
    assert "gpu_memory" not in launched.output()
