"""A process without a launcher on its node reaches rendezvous and policy over gRPC, and forks beside that."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from resurge.direct import CallFailed, Services, Where
from resurge_libs.testing.wait import wait_until_async
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = [pytest.mark.integration, pytest.mark.timeout(330)]
PROGRAM = Path(__file__).parent / "programs" / "forks_beside_calls.py"
PROGRAM_S = 220.0
"""From its start to its end: longer than it has for its rounds and for its last calls; it ends itself only later."""


@asynccontextmanager
async def running_pair(tmp_path):
    with HostProcess(tmp_path / "state") as host:
        async with host.channel() as channel:
            pair = [FakeLauncher(channel, job_spec(), node) for node in ("n0", "n1")]
            for launcher in pair:
                await launcher.attach()
            for launcher in pair:
                await launcher.until_goal("run")
            yield host, pair
            for launcher in pair:
                await launcher.vanish()


async def test_the_job_its_policy_and_a_recommendation_are_within_reach(tmp_path):
    async with running_pair(tmp_path) as (host, (first, second)):
        with Services(Where(host.endpoint, "job", node_id="n0", rank=3)) as services:
            job = await asyncio.to_thread(services.job)
            assert (job.phase, job.generation, job.restarts_spent, job.incident_id) == ("running", 1, 0, "")
            assert await asyncio.to_thread(services.recommend_stop, "the same assert again", 0.5) == "recorded"

            second.crash_rank(signal=11)
            await first.until_goal("run", generation=2)
            incident = await wait_until_async(lambda: latched(host), 30, "the verdict")
            told = await asyncio.to_thread(services.explain, incident)
            assert told.verdict == "restart" and told.sentence
            assert sum(decided for _, decided, _ in told.rules) == 1
            assert (await asyncio.to_thread(services.job)).generation == 2


def latched(host):
    return next((event["incident"] for event in host.events("verdict_latched")), None)


async def test_another_job_is_refused_by_name_and_an_unknown_incident_too(tmp_path):
    async with running_pair(tmp_path) as (host, _):
        with Services(Where(host.endpoint, "another")) as services:
            with pytest.raises(CallFailed, match="another") as refused:
                await asyncio.to_thread(services.job)
            assert refused.value.definite
            with pytest.raises(CallFailed) as unknown:
                await asyncio.to_thread(services.explain, "no-such-incident")
            assert unknown.value.code == "INVALID_ARGUMENT"


def test_nobody_there_is_said_when_the_wait_is_over_and_it_is_not_certain_what_was_done(tmp_path):
    with Services(Where(f"unix:{tmp_path}/nobody", "job")) as services:
        with pytest.raises(CallFailed) as failed:
            services.job(wait=0.3)
        assert not failed.value.definite


async def test_the_example_asks_and_ends_the_job(tmp_path):
    example = Path(__file__).parents[3] / "worker_sdk" / "examples" / "without_launcher" / "ask.py"
    async with running_pair(tmp_path) as (host, _):
        command = [sys.executable, str(example), "--endpoint", host.endpoint, "--job", "job"]
        command += ["--node", "n0", "--stop", "it diverges"]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("running, generation 1, 0 restarts") and last.startswith("done: ")
    assert "it diverges" in last


async def test_up_to_two_hundred_forks_beside_calls_all_return(tmp_path):
    assert 20 <= await forks_beside_calls(tmp_path, "bare", 200) <= 200


@pytest.mark.torch
@pytest.mark.slow
async def test_up_to_sixty_rounds_of_forks_beside_calls_and_no_crash(tmp_path):
    pytest.importorskip("torch", reason="the forks are those of torch's data loader")
    assert 20 <= await forks_beside_calls(tmp_path, "loaders", 60) <= 60


async def forks_beside_calls(tmp_path, kind, rounds):
    """How many rounds were made: fewer where the machine is busy."""
    async with running_pair(tmp_path) as (host, _):
        command = [sys.executable, "-X", "faulthandler", str(PROGRAM), host.endpoint, "job", kind, str(rounds)]
        said = await asyncio.to_thread(said_by, command, tmp_path / "said")
        found = re.search(r"^(\d+) rounds of forks", said, re.MULTILINE)
        assert found is not None, said
        return int(found[1])


def said_by(command, path):
    """It writes to a file, as its children would hold a pipe open after a crash; they end with it."""
    with path.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    stands = ""
    try:
        code = process.wait(PROGRAM_S)
    except subprocess.TimeoutExpired:
        code, stands = "none", stands_at(process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    assert code == 0, f"code {code}: {path.read_text()[-6000:]}\n{stands}"
    return path.read_text()


def stands_at(pid):
    """Where each of its threads is: its state, the seconds it ran for, what it waits for in the kernel; with its native
    stack where there is a debugger. The interpreter cannot tell of itself while it ends."""
    lines = [thread_at(task) for task in sorted(Path(f"/proc/{pid}/task").iterdir())]
    if debugger := shutil.which("gdb"):
        command = [debugger, "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 30"]
        with suppress(subprocess.TimeoutExpired):
            lines.append(subprocess.run(command, capture_output=True, text=True, timeout=30).stdout)
    return "\n".join(lines)


def thread_at(task):
    with suppress(OSError):  # it has ended
        name, fields = (task / "stat").read_text().rsplit(")", 1)
        state, *_, user, system = fields.split()[:13]
        ran_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return f"{name}): {state}, ran {ran_s:.2f} s, in {(task / 'wchan').read_text()}"
    return f"{task.name}: gone"


def test_where_a_thread_stands_is_told():
    own = Path(f"/proc/self/task/{threading.get_native_id()}")
    assert re.fullmatch(rf"{own.name} \(.+\): R, ran \d+\.\d\d s, in .+", thread_at(own))
    assert thread_at(own.with_name("0")) == "0: gone"
