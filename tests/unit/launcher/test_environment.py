from __future__ import annotations

import pytest

from resurge.environment import read_environment
from resurge_launcher.environment import NodeFacts, WorkerFiles, worker_environment
from resurge_launcher.node_environment import marks
from tests.unit.launcher.core_world import run

FILES = WorkerFiles(page="/dev/shm/p", error_file="/logs/0/4/error.json")


def facts(**changed: object) -> NodeFacts:
    values = {
        "job_id": "job",
        "node_id": "n0",
        "incarnation": 7,
        "local_world_size": 2,
        "role": "trainer",
        "socket_path": "/run/workers.sock",
        "beat_limit_s": 60.0,
        "fence_wait_s": 12.5,
        "signals_to_handle": "SIGTERM",
    }
    return NodeFacts(**{**values, **changed})  # type: ignore[arg-type]


def made(local_rank: int = 1, inherited: dict[str, str] | None = None, **goal: object) -> dict[str, str]:
    return worker_environment(run(3, **goal), facts(), local_rank, FILES, inherited or {})


def test_torchruns_variables_are_all_there():
    env = made()
    assert {
        name: env[name]
        for name in (
            "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
            "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
            "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
            "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS",
        )
    } == {
        "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1", "ROLE_RANK": "5", "ROLE_WORLD_SIZE": "8", "ROLE_NAME": "trainer",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711", "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "/logs/0/4/error.json", "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def test_the_sdk_reads_what_the_launcher_writes():
    read = read_environment(made(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01"))
    assert (read.page, read.socket, read.job_id) == ("/dev/shm/p", "/run/workers.sock", "job")
    assert (read.generation, read.cycle, read.rank, read.world_size, read.beat_limit_s) == (3, 2, 5, 8, 60.0)
    assert read.fence_wait_s == 12.5
    assert read.traceparent.startswith("00-aaaa") and read.error_file == FILES.error_file


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "RES_OPTIONS"])
def test_what_the_user_says_stands(name: str):
    assert made(inherited={name: "0"})[name] == "0"


def test_one_worker_alone_may_use_all_threads():
    env = worker_environment(run(), facts(local_world_size=1), 0, FILES, {})
    assert "OMP_NUM_THREADS" not in env


def test_variables_of_an_outer_launcher_do_not_leak_in():
    env = made(inherited={"RANK": "99", "TRACEPARENT": "old", "RESURGE_JOB_ID": "outer", "MASTER_ADDR": "far"})
    assert env["RANK"] == "5" and "TRACEPARENT" not in env and env["RESURGE_JOB_ID"] == "job"


def test_the_jobs_secret_stays_with_the_launcher():
    assert "RESURGE_JOB_TOKEN" not in made(inherited={"RESURGE_JOB_TOKEN": "secret"})


def test_workers_carry_the_marks_by_which_strays_are_found():
    pairs = {f"{name}={value}".encode() for name, value in made().items()}
    assert set(marks("job", "n0")) <= pairs


@pytest.mark.users_row(73)
def test_workers_wait_for_a_lost_answer_of_the_name_server_for_a_second_only():
    assert made()["RES_OPTIONS"] == "timeout:1 attempts:1"


def test_a_worker_is_told_its_own_cycles_record_and_never_an_outer_launchers():
    outer = {"NVRX_CURRENT_CYCLE_INFO": "/outer/current", "RESURGE_CURRENT_CYCLE_INFO": "/outer/cycle_0.json"}
    env = made(inherited=outer)
    assert not set(outer) & set(env), "none was asked for"
    files = WorkerFiles("/dev/shm/p", "/logs/error.json", "/c/job/1/cycle_2.json", "/c/job/1/current")
    env = worker_environment(run(3), facts(), 1, files, outer)
    assert env["RESURGE_CURRENT_CYCLE_INFO"] == "/c/job/1/cycle_2.json"
    assert env["NVRX_CURRENT_CYCLE_INFO"] == "/c/job/1/current"
