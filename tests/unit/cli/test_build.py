"""What follows from the input: identity, endpoint, job id, workers, limits; and what is refused."""

from __future__ import annotations

import errno
import signal
import threading

import pytest

from resurge_launcher.commands import machine
from resurge_launcher.commands.build import (
    RUN_DIR_BYTES,
    Surroundings,
    entry_of,
    prove_directories,
    run_settings,
    token_of,
)
from resurge_launcher.commands.machine import machine_id
from resurge_launcher.commands.sources import resolve
from resurge_launcher.core.reclaim import ReclaimRules
from resurge_launcher.flags import BY_NAME
from resurge_launcher.settings import EntryKind, MachineId
from resurge_launcher.usage import UsageProblem


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print(1)\n")
    return str(path)


def build(script, environ=None, command=None, **given):
    environ = environ or {}
    flags = {name: (BY_NAME[name].flag, text) for name, text in given.items()}
    resolved = resolve(flags, environ, None)
    here = Surroundings(environ=environ, host_name="host-a", run_name="run-1", python="/usr/bin/python3")
    entry = entry_of(resolved, tuple(command if command is not None else [script, "--foo", "-x"]))
    settings = run_settings(resolved, entry, here, None)
    prove_directories(resolved, settings)
    return settings


def refusal(script, environ=None, command=None, **given):
    with pytest.raises(UsageProblem) as caught:
        build(script, environ, command, **given)
    return caught.value


@pytest.fixture(autouse=True)
def _state_under_tmp(tmp_path, monkeypatch):
    monkeypatch.setattr("resurge_launcher.commands.machine.state_root", lambda _: tmp_path / "state")


def test_one_node_needs_nothing_and_starts_its_own_control_plane(script):
    settings = build(script)
    assert settings.endpoint is None
    assert settings.serve_here
    assert (settings.job_id, settings.node_id, settings.attempt) == ("run-1", "host-a", 0)
    assert settings.entry.command(settings.python) == ("/usr/bin/python3", "-u", script, "--foo", "-x")
    assert settings.no_restart_exit_code == 93


def test_slurm_says_who_and_where(script):
    slurm = {
        "SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "2", "SLURMD_NODENAME": "n3", "SLURM_NODEID": "3",
        "SLURM_PROCID": "3", "RESURGE_JOB_TOKEN": "secret",
    }  # fmt: skip
    settings = build(script, slurm, nnodes="4", rdzv_endpoint="n0:29400")
    assert (settings.job_id, settings.attempt, settings.node_id, settings.infra_rank) == ("77", 3, "n3-3", 3)
    assert settings.job_token == "secret"
    assert "secret" not in repr(settings)


def test_a_task_of_an_array_is_a_job_of_its_own(script):
    assert build(script, {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}).job_id == "7_2"


def test_node_rank_orders_and_names_the_node(script):
    settings = build(script, {"GROUP_RANK": "5"}, nnodes="2", rdzv_endpoint="localhost:1", node_rank="1")
    assert (settings.node_id, settings.infra_rank) == ("node-1", 1)
    assert build(script, {"GROUP_RANK": "5"}).infra_rank == 5


def test_several_nodes_without_an_endpoint_are_refused_not_guessed(script):
    problem = refusal(script, nnodes="2:3")
    assert problem.field == "--rdzv-endpoint"
    assert "HOST:PORT" in problem.right


def test_a_slurm_step_on_several_nodes_does_not_train_alone_by_accident(script):
    step = {"SLURM_STEP_NUM_NODES": "4", "SLURM_PROCID": "0"}
    assert refusal(script, step).field == "--nnodes"
    assert build(script, step, standalone="1").endpoint is None
    assert build(script, step, nnodes="1").endpoint is None


def test_master_addr_makes_the_endpoint_of_several_nodes(script):
    settings = build(script, nnodes="2", master_addr="127.0.0.1", master_port="4000")
    assert str(settings.endpoint) == "127.0.0.1:4000"
    assert settings.serve_here
    assert str(build(script, nnodes="2", master_addr="[::1]").endpoint) == "[::1]:29500"


def test_master_port_on_one_node_is_said_to_have_no_effect(script):
    assert any("--master-port" in sentence for sentence in build(script, master_port="4000").notices)


def test_is_host_is_obeyed(script):
    assert not build(script, rdzv_endpoint="localhost:1", rdzv_conf="is_host=false").serve_here
    assert build(script, rdzv_endpoint="localhost:1").serve_here


def test_spares_are_said_at_start(script):
    settings = build(script, nnodes="2:3", rdzv_endpoint="localhost:1")
    assert any("2 nodes run" in sentence and "spare" in sentence for sentence in settings.notices)


def test_workers_by_word(script):
    gpus = {"CUDA_VISIBLE_DEVICES": "0,1,5"}
    assert build(script, gpus, nproc_per_node="gpu").nproc_per_node == 3
    assert build(script, gpus, nproc_per_node="auto").nproc_per_node == 3
    assert build(script, {"CUDA_VISIBLE_DEVICES": ""}, nproc_per_node="auto").nproc_per_node >= 1
    assert refusal(script, {"CUDA_VISIBLE_DEVICES": ""}, nproc_per_node="gpu").field == "--nproc-per-node"


def test_entries(script):
    assert build(script, command=["pkg.train", "a"], module="1").entry.kind is EntryKind.MODULE
    assert build(script, command=["sh", "-c", "true"], no_python="1").entry.command("py") == ("sh", "-c", "true")


def test_the_digest_tells_programs_apart_and_not_directories(script, tmp_path):
    first = build(script).command_digest
    assert build(script, command=[script, "--foo"]).command_digest != first
    moved = tmp_path / "b"
    moved.mkdir()
    (moved / "train.py").write_text("")
    assert build(str(moved / "train.py")).command_digest == first


def test_limits_derive_and_a_wrong_order_is_refused_with_both_names(script):
    assert build(script, lease_ttl_s="2").limits.beat_interval_s == pytest.approx(0.8)
    problem = refusal(script, lease_ttl_s="2", beat_interval_s="1.5")
    assert "beat_interval_s" in str(problem)
    assert "lease_ttl_s" in str(problem)
    assert "hang_limit_s" in str(refusal(script, hang_limit_s="700"))
    assert build(script, hang_limit_s="none").rank_heartbeat_limit_s is None
    assert build(script, rdzv_conf="join_timeout=120").limits.quorum_wait_s == 120.0


def test_a_control_plane_started_here_is_told_the_limits_that_were_given(script):
    settings = build(script, {"A": "b"}, lease_ttl_s="2", settle_s="500ms")
    assert settings.control_environ == {
        "A": "b",
        "GRPC_VERBOSITY": "NONE",
        "RESURGE_LIMITS__LEASE_TTL_S": "2.0",
        "RESURGE_LIMITS__SETTLE_S": "0.5",
    }
    assert settings.environ == {"A": "b"}
    assert build(script, {"GRPC_VERBOSITY": "DEBUG"}).control_environ["GRPC_VERBOSITY"] == "DEBUG"


def test_a_long_directory_for_temporary_files_leaves_room_for_sockets(script, tmp_path, monkeypatch):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    run_dir = build(script, {"TMPDIR": str(long)}).run_dir
    assert not run_dir.is_relative_to(long)
    assert len(str(run_dir)) <= RUN_DIR_BYTES


def test_a_state_directory_on_a_full_file_system_is_refused_at_once(script, monkeypatch):
    monkeypatch.setattr(
        "resurge_launcher.commands.machine.tempfile.TemporaryFile",
        lambda **_: open("/dev/full", "wb", 0),  # noqa: SIM115
    )
    problem = refusal(script)
    assert problem.field == "--state-dir"
    assert "No space left on device" in str(problem) and "has room" in str(problem)


@pytest.mark.parametrize(
    ("given", "field", "word"),
    [
        ({"standalone": "1", "nnodes": "2"}, "--standalone", "one node"),
        ({"node_rank": "1"}, "--node-rank", "0"),
        ({"rdzv_endpoint": "n0:1"}, "RESURGE_JOB_TOKEN", "secret"),
        ({"nnodes": "4", "segment": "3", "rdzv_endpoint": "localhost:1"}, "--segment", "2, 4"),
        ({"rdzv_conf": "ishost=1"}, "ishost in --rdzv-conf", "is_host"),
        ({"rdzv_conf": "is_host=perhaps"}, "is_host in --rdzv-conf", "1 or 0"),
        ({"redirects": "3:1"}, "--redirects", "0"),
        ({"local_ranks_filter": "0,4"}, "--local-ranks-filter", "0"),
        ({"module": "1", "no_python": "1"}, "--module", "Leave"),
        ({"run_dir": "/tmp/" + "x" * 70}, "--run-dir", "107 bytes"),
        ({"state_dir": "/proc/nothing"}, "--state-dir", "local file system"),
        ({"log_dir": "/dev/null/logs"}, "--log-dir", "directory"),
        ({"applog_prefix": "/proc/x/a.log"}, "--ft-per-cycle-applog-prefix", "/proc/x: No such file"),
        (
            {"applog_prefix": "/dev/null/a.log", "nnodes": "2", "rdzv_endpoint": "localhost:1"},
            "--ft-per-cycle-applog-prefix",
            "/dev/null: ",
        ),
        ({"applog_prefix": "/tmp/a.log", "launcher_log": "/proc/x/l.log"}, "--ft-nvrx-logfile", "/proc/x: "),
    ],
)
def test_refused(script, given, field, word):
    problem = refusal(script, **given)
    assert problem.field == field
    assert word in str(problem)


@pytest.mark.parametrize(("root", "field"), [("state_root", "--state-dir"), ("run_root", "--run-dir")])
def test_a_default_directory_that_another_user_made_first_is_refused(script, tmp_path, monkeypatch, root, field):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    monkeypatch.setattr(f"resurge_launcher.commands.machine.{root}", lambda _: theirs)
    monkeypatch.setattr("os.getuid", lambda: theirs.stat().st_uid + 1)
    problem = refusal(script)
    assert problem.field == field and "another user" in problem.problem


def test_the_state_directory_is_made_for_this_user_alone(script):
    assert build(script).state_dir.stat().st_mode & 0o777 == 0o700


def test_a_secret_with_a_line_end_is_refused_at_start():
    with pytest.raises(UsageProblem, match="RESURGE_JOB_TOKEN: begins or ends with white space"):
        token_of(None, environ={"RESURGE_JOB_TOKEN": "secret\n"})


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ([], {}), (["/nowhere/train.py"], {}), (["/tmp"], {}), (["not a module"], {"module": "1"}),
        (["no-such-program-here"], {"no_python": "1"}),
    ],
)  # fmt: skip
def test_programs_that_are_not_there(script, command, given):
    assert refusal(script, command=command, **given).field.startswith(("training", "program"))


def test_exclusion_settings_reach_the_job_and_the_control_plane(script, tmp_path):
    excluding = build(script).excluding
    assert (excluding.max_share, excluding.window_s, excluding.file, excluding.then.value) == (
        0.2,
        3600.0,
        None,
        "park",
    )
    given = {"max_excluded_share": "0.5", "exclusion_window_s": "10m", "on_excluded": "exit"}
    settings = build(script, exclusion_file=str(tmp_path / "out"), **given)
    excluding = settings.excluding
    assert (excluding.max_share, excluding.window_s, excluding.then.value) == (0.5, 600.0, "exit")
    assert settings.control_environ["RESURGE_RENDEZVOUS__EXCLUSION_FILE"] == str(tmp_path / "out")
    assert "RESURGE_RENDEZVOUS__EXCLUSION_FILE" not in build(script).control_environ


def test_an_exclusion_file_that_nobody_here_writes_is_said(script):
    given = {"nnodes": "2", "rdzv_endpoint": "elsewhere:1", "rdzv_conf": "is_host=false", "exclusion_file": "out"}
    said = " ".join(build(script, {"RESURGE_JOB_TOKEN": "x"}, **given).notices)
    assert "--exclusion-file has no effect here" in said and "RESURGE_RENDEZVOUS__EXCLUSION_FILE" in said


def test_the_machine_is_the_one_that_was_given_else_the_systems_own(script, monkeypatch):
    monkeypatch.setattr("resurge_launcher.commands.machine.machine_id", lambda: "0" * 32)
    assert build(script).machine == MachineId("0" * 32)
    assert build(script, {"RESURGE_MACHINE_ID": "node7.rack2"}).machine == MachineId("node7.rack2", is_given=True)
    problem = refusal(script, {"RESURGE_MACHINE_ID": "two words"})
    assert problem.field == "RESURGE_MACHINE_ID" and "is no machine id" in problem.problem


@pytest.mark.parametrize(
    ("written", "found"), [("0123456789abcdef" * 2 + "\n", "0123456789abcdef" * 2), ("uninitialized\n", ""), ("", "")]
)
def test_a_machine_id_is_what_the_installation_left(tmp_path, written, found):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text(written)
    assert machine_id(tmp_path) == found
    assert machine_id(tmp_path / "nowhere") == ""


@pytest.mark.parametrize(
    ("address", "pattern", "domain"),
    [
        ("block2.node17", "block.node", "block2"),
        ("s0.s3.node17", "switch.switch.node", "s0.s3"),
        ("node17", "node", ""),
        ("s0.s[1-2].node17", "switch.node", ""),  # not what the pattern says
        ("", "", ""),
    ],
)
def test_the_domain_is_slurms_topology_without_the_node(script, address, pattern, domain):
    slurm = {"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern}
    assert build(script, slurm).domain == domain
    assert build(script, slurm, domain="mine").domain == "mine"


def test_a_directory_that_hangs_is_named_and_keeps_nobody_waiting():
    back = threading.Event()
    try:
        assert machine.within(0.05, lambda: str(back.wait(20))) == "has not answered for 0.05 s"
    finally:
        back.set()
    assert machine.within(5, lambda: "is not a directory") == "is not a directory"
    assert machine.within(5, lambda: None) is None


def test_gpu_memory_is_waited_for_where_there_are_gpus_and_restarts(script):
    gpus = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert build(script, gpus, max_restarts="3").reclaim == ReclaimRules(50.0, 512, None)
    given = {"max_restarts": "3", "gpu_memory_tolerance_mb": "64", "gpu_memory_poll_interval": "500ms"}
    assert build(script, gpus, **given).reclaim == ReclaimRules(50.0, 64, 0.5)
    assert build(script, gpus).reclaim is None, "no restart is allowed"
    assert build(script, gpus, max_restarts="3", gpu_memory_reclaim_timeout="0").reclaim is None
    assert build(script, {"CUDA_VISIBLE_DEVICES": ""}, max_restarts="3").reclaim is None
    assert "limits.start_process_group_limit_s" in str(refusal(script, gpus, gpu_memory_reclaim_timeout="300"))
    assert refusal(script, gpus, gpu_memory_poll_interval="0").field == "--ft-gpu-memory-poll-interval"


def test_every_signal_that_is_named_is_handled(script):
    settings = build(script, drain_signals="USR1,TERM", preempted_exit_code="75")
    assert set(settings.handled_signals) >= {signal.SIGUSR1, signal.SIGTERM, signal.SIGQUIT}
    assert settings.draining.exit_code == 75


def logs_of(script, tmp_path, **given):
    told = {"nnodes": "8", "rdzv_endpoint": "127.0.0.1:7470", "enable_log_server": "1"}
    return build(script, applog_prefix=str(tmp_path / "app.log"), **{**told, **given}).logs


def test_leaves_have_the_ports_before_the_log_server_and_each_node_its_own(script, tmp_path):
    plain = logs_of(script, tmp_path)
    assert (plain.endpoint.port, plain.leaves) == (50051, ())
    assert logs_of(script, tmp_path, log_leaf_count="1").leaves == ()
    plan = logs_of(script, tmp_path, log_leaf_count="3", log_server_port="6000", node_rank="4")
    assert [leaf.port for leaf in plan.leaves] == [6000, 6001, 6002] and plan.endpoint.port == 6003
    assert [leaf.port for leaf in plan.own_leaves] == [6001, 6002, 6000]
    assert plan.leaf_queue_blocks == 16_384
    many = logs_of(script, tmp_path, nnodes="4000")
    assert len(many.leaves) == 3 and many.leaf_queue_blocks == 256 * 1_334
    assert logs_of(script, tmp_path, log_leaf_count="2", log_leaf_queue_blocks="64").leaf_queue_blocks == 64
    elsewhere = logs_of(script, tmp_path, log_endpoint="a:1,b:2", node_rank="1")
    assert [leaf.host for leaf in elsewhere.own_leaves] == ["b", "a"]
    assert elsewhere.endpoint is None and not elsewhere.serve_here


def test_what_log_servers_say_goes_where_it_was_asked_for_or_the_user_hears_that_it_does_not(script, tmp_path):
    assert logs_of(script, tmp_path).servers_log_prefix is None
    prefix = str(tmp_path / "grpc")
    assert logs_of(script, tmp_path, log_server_log_prefix=prefix).servers_log_prefix == tmp_path / "grpc"
    told = {"nnodes": "8", "rdzv_endpoint": "127.0.0.1:7470", "log_server_log_prefix": prefix}
    for given in ({}, {"log_endpoint": "a:1"}):
        notices = build(script, applog_prefix=str(tmp_path / "app.log"), **told, **given).notices
        assert any("--ft-log-server-log-prefix has no effect" in notice for notice in notices), notices
    assert refusal(script, log_server_log_prefix=prefix).field == "--ft-log-server-log-prefix"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"log_server_log_prefix": "grpc"}, "--ft-log-server-log-prefix"),
        ({"log_leaf_count": "9", "log_server_port": "65530"}, "--ft-log-aggregator-count"),
        ({"log_leaf_queue_blocks": "63"}, "--ft-log-leaf-max-queue-chunks"),
        ({"log_leaf_count": "-1"}, "--ft-log-aggregator-count"),
    ],
)
def test_leaves_that_cannot_be_are_refused(script, tmp_path, given, field):
    told = {"nnodes": "8", "rdzv_endpoint": "127.0.0.1:7470", "enable_log_server": "1"}
    refused = refusal(script, applog_prefix=str(tmp_path / "app.log"), **{**told, **given})
    assert refused.field == field


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
def test_a_log_file_whose_disk_may_be_well_again_later_keeps_no_job_from_its_start(
    script, tmp_path, monkeypatch, number
):
    def fails(**_):
        raise OSError(number, "trouble")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", fails)
    assert machine.why_never_writable(tmp_path) is None
    monkeypatch.setattr(machine.tempfile, "TemporaryFile", lambda **_: fails_for_good())
    assert machine.why_never_writable(tmp_path) == "Read-only file system"


def fails_for_good():
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_log_file_that_another_node_writes_is_not_looked_for_here(script):
    assert build(script, applog_prefix="/proc/x/a.log", log_endpoint="127.0.0.1:7").logs is not None
