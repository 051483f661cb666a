"""A state directory that serves another job or node is told from one that is ours, or is about to be free."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from pathlib import Path

import pytest

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_launcher.claims import ENDED_LIMIT_S, AnothersUse, claimant
from resurge_launcher.control_plan import ControlPlan
from resurge_launcher.control_plane import SUPERVISOR_LOCK, ControlPlane
from resurge_libs.hosting.state_dir import StateDir, claim
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.records import write_job

OURS = Endpoint(path="/nowhere/ours.sock")


@pytest.fixture
def held(tmp_path: Path):
    state_dir = claim(tmp_path / "state")
    yield state_dir
    state_dir.release()


def job_stands(held: StateDir, phase: rendezvous_pb2.JobPhase) -> None:
    write_job(held.path, rendezvous_pb2.Job(spec=attach_pb2.JobSpec(job_id="first"), phase=phase))


def test_the_process_and_the_job_that_use_it_are_named_with_the_remedies(held):
    held.announce("unix:/nowhere/theirs.sock", ("rendezvous",))
    job_stands(held, rendezvous_pb2.JOB_PHASE_RUNNING)
    said = AnothersUse(held.path, OURS).look()
    assert said.startswith(f"--state-dir: {held.path} is in use by process {os.getpid()}, the control plane of job")
    assert "'first' at unix:/nowhere/theirs.sock; give another --state-dir, end that process, or" in said
    assert said.endswith("name its control plane with --rdzv-endpoint")


def test_one_that_has_no_job_yet_is_named_by_its_process(held):
    held.announce("127.0.0.1:7", ("rendezvous",))
    assert f"in use by process {os.getpid()}; give another" in AnothersUse(held.path, OURS).look()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("unix:/nowhere/ours.sock", OURS),
        ("127.0.0.1:29400", Endpoint(host="node-1", port=29400)),
    ],
)
def test_one_that_serves_our_address_is_ours_under_whatever_name(held, theirs, ours):
    held.announce(theirs, ("rendezvous",))
    assert AnothersUse(held.path, ours).look() == ""


def test_one_that_is_just_starting_or_has_left_is_waited_for(held):
    assert AnothersUse(held.path, OURS).look() == "", "not announced yet"
    held.announce("unix:/nowhere/theirs.sock", ("rendezvous",))
    os.pwrite(held.lock_fd, f"{os.getppid()}\n".encode(), 0)
    assert AnothersUse(held.path, OURS).look() == "", "what a process before it announced"
    fcntl.flock(held.lock_fd, fcntl.LOCK_UN)
    assert claimant(held.path) == 0
    assert AnothersUse(held.path, OURS).look() == ""


def test_whoever_answers_at_our_address_is_used(held, tmp_path):
    held.announce("unix:/nowhere/theirs.sock", ("rendezvous",))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "c.sock"))
        server.listen()
        assert AnothersUse(held.path, Endpoint(path=str(tmp_path / "c.sock"))).look() == ""


def test_that_of_a_job_that_is_over_gets_its_time_to_end(held):
    held.announce("unix:/nowhere/theirs.sock", ("rendezvous",))
    job_stands(held, rendezvous_pb2.JOB_PHASE_ENDED)
    now_s = [100.0]
    use = AnothersUse(held.path, OURS, lambda: now_s[0])
    assert use.look() == ""
    now_s[0] += ENDED_LIMIT_S - 1
    assert use.look() == ""
    now_s[0] += 1
    assert "in use by process" in use.look()


@pytest.mark.parametrize("is_supervised", [True, False], ids=["by another launcher", "by resurge serve"])
def test_a_launcher_starts_nothing_on_it_and_says_why(held, is_supervised):
    held.announce("unix:/nowhere/theirs.sock", ("rendezvous",))
    job_stands(held, rendezvous_pb2.JOB_PHASE_RUNNING)
    said: list[str] = []

    async def meet() -> None:
        plane = ControlPlane(ControlPlan("job", OURS, held.path, {}), pytest.fail, said.append)
        await asyncio.wait_for(plane.start(), 30)
        assert plane.pids == set(), "none is started"
        await plane.stop(end_it=False)

    if is_supervised:
        with (held.path / SUPERVISOR_LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            asyncio.run(meet())
    else:
        asyncio.run(meet())
    assert [sentence.startswith("--state-dir: ") for sentence in said] == [True]
