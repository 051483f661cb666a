"""Wrong input of a host: exit code 2, the field, what would be right, and nothing started."""

import os
import subprocess
import sys

import pytest

from resurge_libs.rpc.auth import TOKEN_VARIABLE
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = pytest.mark.integration


def refused(*words, module="resurge_host", env=None):
    """The one line of a host that did not start."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RESURGE_")}
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        env={**environment, **(env or {})},
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def test_an_unknown_service_gets_a_suggestion(tmp_path):
    said = refused("--targets", "rendezvos", "--state-dir", str(tmp_path / "s"))
    assert "--targets" in said and "did you mean 'rendezvous'?" in said
    assert not (tmp_path / "s").exists()


def test_a_missing_state_directory_is_asked_for():
    assert "--state-dir: is missing" in refused("--targets", "all")


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    said = refused("--state-dir", str(tmp_path / "file" / "state"), "--listen", "127.0.0.1:0")
    assert "--state-dir" in said and "cannot be written" in said


def test_a_state_directory_in_use_names_the_process(tmp_path):
    with HostProcess(tmp_path / "state") as host:
        said = refused("--state-dir", str(host.state_dir), "--listen", "127.0.0.1:0")
        assert f"in use by process {host.pid}" in said


async def test_a_state_directory_of_another_job_is_refused(tmp_path):
    with HostProcess(tmp_path / "state") as host:
        async with host.channel() as channel:
            async with FakeLauncher(channel, job_spec("mine", "1:1"), "n0") as launcher:
                await launcher.until_goal("run")
        host.terminate()
        said = refused("--state-dir", str(host.state_dir), "--listen", "127.0.0.1:0", "--job-id", "yours")
        assert "'mine'" in said and "'yours'" in said
        host.more = ("--job-id", "mine")
        host.start()


def test_a_taken_port_and_a_taken_socket_are_named(tmp_path):
    with HostProcess(tmp_path / "a", listen="127.0.0.1:0") as host:
        port = host.endpoint.rpartition(":")[2]
        said = refused("--state-dir", str(tmp_path / "b"), "--listen", f"127.0.0.1:{port}")
        assert f"port {port}" in said and "in use" in said
    with HostProcess(tmp_path / "c") as host:
        said = refused("--state-dir", str(tmp_path / "d"), "--listen", host.listen)
        assert f"in use by process {host.pid}" in said


def test_an_endpoint_for_other_machines_needs_the_secret(tmp_path):
    said = refused("--state-dir", str(tmp_path / "s"), "--listen", "0.0.0.0:0")
    assert TOKEN_VARIABLE in said and "--listen" in said
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--listen", "nowhere"), "--listen"),
        (("--lease-ttl-s", "soon"), "lease_ttl_s"),
        (("--lease-ttl-s", "900"), "lease_ttl_s"),
        (("--addresses", "restart_policy"), "--addresses"),
        (("--addresses", "restart_polcy=127.0.0.1:1"), "did you mean 'restart_policy'?"),
        (("--max-delay-s", "0.1"), "max_delay_s"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(tmp_path, words, wanted):
    assert wanted in refused("--state-dir", str(tmp_path / "s"), *words)


def test_unknown_settings_in_file_and_environment_get_a_suggestion(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("policy:\n  fast_failure: 3\n")
    said = refused("--state-dir", str(tmp_path / "s"), "--ft-cfg-path", str(path))
    assert "did you mean 'fast_failure_s'?" in said
    said = refused("--state-dir", str(tmp_path / "s"), env={"RESURGE_POLICY__MAX_DELAY": "3"})
    assert "RESURGE_POLICY__MAX_DELAY_S" in said


def test_every_value_is_shown_with_its_source(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("policy:\n  fast_failure_s: 3\n")
    words = ["--ft-cfg-path", str(path), "--lease-ttl-s", "4", "--state-dir", str(tmp_path / "s"), "--print-config"]
    shown = subprocess.run(
        [sys.executable, "-m", "resurge_host", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "RESURGE_POLICY__FREE_FAILURES": "2", TOKEN_VARIABLE: "s3cret"},
        timeout=30,
        check=True,
    ).stdout
    lines = {line.split()[0]: line for line in shown.splitlines()}
    assert "YAML" in lines["policy.fast_failure_s"]
    assert "RESURGE_POLICY__FREE_FAILURES" in lines["policy.free_failures"]
    assert "flag" in lines["limits.lease_ttl_s"]
    assert "default" in lines["policy.max_delay_s"]
    assert "s3cret" not in shown
    assert not (tmp_path / "s").exists()
