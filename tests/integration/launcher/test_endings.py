"""How workers, their children and the launcher end, and what people are told of it: real processes on one node."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from resurge_launcher.core.model import StoreOffer
from resurge_launcher.store_offer import StorePort
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import is_alive, kill, terminate
from tests.integration.launcher.launching import FOREVER, PREAMBLE, SAY_PID, Launched

DAEMON = """
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    said("daemon", os.getpid())
    threading.Event().wait()
while not os.path.exists(os.path.join(folder, "daemon")):
    time.sleep(0.01)
"""


@pytest.mark.users_row(13)
async def test_the_schedulers_grace_is_given_to_workers_that_save(launched: Launched):
    saving = """
def save(*_):
    time.sleep(1.5)
    said("saved", "all")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""
    launched.start(PREAMBLE + saving + FOREVER.removeprefix(PREAMBLE), "--term-timeout", "10")
    await launched.running()
    terminate(launched.pid)
    assert await launched.exit_code() == 128 + signal.SIGTERM
    assert (launched.folder / "saved").exists()


@pytest.mark.users_row(13)
async def test_the_schedulers_grace_ends_too(launched: Launched):
    launched.start(PREAMBLE + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER, "--term-timeout", "0.6")
    pids = await launched.running()
    terminate(launched.pid)
    assert await launched.exit_code(limit_s=10) == 128 + signal.SIGTERM
    assert not is_alive(pids[0])


@pytest.mark.users_row(16)
async def test_a_checkpoint_that_is_being_written_has_the_grace_of_a_fault(launched: Launched):
    """KILL comes not at once, as for one that is stuck, but after the grace: the write of a good rank may end."""
    saving = """
import resurge
def save(*_):
    time.sleep(0.7)
    said("saved-" + me, "all")
    os._exit(0)
with resurge.session() as session:
    with session.phase("checkpoint", limit=600):
        signal.signal(signal.SIGTERM, save)
        said('pid-' + me, os.getpid())
        threading.Event().wait()
"""
    launched.start(PREAMBLE + saving, "--fault-grace", "2", workers=2)
    pids = await launched.running(workers=2)
    kill(pids[0])
    await launched.rendezvous.until("READY", 1)
    assert (launched.folder / "saved-1-1").exists()


@pytest.mark.users_row(20)
@pytest.mark.users_row(21)
@pytest.mark.users_row(35)
@pytest.mark.parametrize("how", ["success", "signal"])
async def test_nobody_is_left_when_the_launcher_has_ended(launched: Launched, how: str):
    end = "said('pid-' + me, os.getpid())\n" + ("" if how == "success" else "threading.Event().wait()\n")
    launched.start(PREAMBLE + DAEMON + end, "--term-timeout", "1")
    await launched.running()
    orphan = launched.pid_in("daemon")
    if how == "success":
        await launched.rendezvous.until("FINISHED", 1)
        launched.rendezvous.want_exit(0)
    else:
        terminate(launched.pid)
    assert await launched.exit_code() == (0 if how == "success" else 128 + signal.SIGTERM)
    assert not is_alive(orphan), "whoever started this launcher may trust its exit code"


@pytest.mark.users_row(22)
async def test_a_process_of_the_same_name_that_is_not_ours_is_left_alone(launched: Launched):
    launched.start(FOREVER)
    pids = await launched.running()
    command = [sys.executable, "-u", str(launched.folder / "train.py"), str(launched.folder / "elsewhere")]
    (launched.folder / "elsewhere").mkdir()
    other = _worker_of_another_job(command)
    try:
        await wait_until_async((launched.folder / "elsewhere" / "pid-1-0").exists, 20, "the other job's worker")
        kill(pids[0])
        await launched.rendezvous.until("READY", 1)
        assert other.poll() is None
        terminate(launched.pid)
        await launched.exit_code()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def _worker_of_another_job(command: list[str]) -> subprocess.Popen[bytes]:
    marks = {"RESURGE_JOB_ID": "another", "RESURGE_NODE_ID": "n0", "RESURGE_GENERATION": "1", "RANK": "0"}
    return subprocess.Popen(command, env={**os.environ, **marks}, start_new_session=True)


@pytest.mark.users_row(24)
@pytest.mark.users_row(26)
async def test_an_end_by_a_signal_is_told_with_its_name_its_sender_and_the_log(launched: Launched):
    launched.start(SAY_PID + "print('the last words', flush=True)\n" + "threading.Event().wait()\n", workers=2)
    pids = await launched.running(workers=2)
    output = launched.folder / "logs" / "job" / "1" / "0" / "1"
    await wait_until_async(lambda: "the last words" in launched.output(), 10, "output")
    kill(pids[1])
    await launched.rendezvous.until("READY", 1)
    await wait_until_async(lambda: "fault_evidence" in launched.output(), 10, "the account of the fault")
    told = launched.output()
    assert f"rank 1 (pid {pids[1]}) was ended by SIGKILL" in told
    assert "not sent by this launcher" in told
    assert str(output) in told and "the last words" in told.partition("fault_evidence")[2]
    assert (output / "stdout.log").read_text() == "the last words\n"
    blamed = [line for line in told.splitlines() if " fault_seen " in line]
    assert blamed and not any("rank=0" in line for line in blamed), "what the launcher ended itself is no fault"


@pytest.mark.users_row(27)
async def test_the_terminal_shows_the_ranks_that_are_wanted_and_files_hold_all(launched: Launched):
    program = PREAMBLE + "print('words of', me, flush=True)\nsaid('pid-' + me, os.getpid())\n"
    launched.start(program, "--local-ranks-filter", "1", workers=3)
    await launched.running(workers=3)
    await launched.rendezvous.until("FINISHED", 1)
    launched.rendezvous.want_exit(0)
    assert await launched.exit_code() == 0
    shown = [line for line in launched.output().splitlines() if "words of" in line]
    assert shown == ["[rank 1] words of 1-1"]
    files = sorted((launched.folder / "logs").rglob("stdout.log"))
    assert [file.read_text() for file in files] == [f"words of 1-{rank}\n" for rank in range(3)]


@pytest.mark.users_row(18)
@pytest.mark.users_row(19)
def test_an_offered_port_is_given_to_nobody_else_and_a_store_may_open_it():
    ports = [StorePort("127.0.0.1") for _ in range(50)]
    offers: list[StoreOffer] = []
    for port in ports:
        port.offer(offers.append)
    numbers = [offer.port for offer in offers]
    try:
        assert len(set(numbers)) == len(numbers), "two launchers of one machine offer different ports"
        with socket.socket() as thief, pytest.raises(OSError, match="in use"):
            thief.bind(("127.0.0.1", numbers[0]))
        with socket.socket() as store:
            store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            store.bind(("0.0.0.0", numbers[0]))
            store.listen()
        ports[0].offer(offers.append)
        assert offers[-1].port != numbers[0], "the next generation meets on another port"
    finally:
        for port in ports:
            port.release()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_no_signal_after_the_decision_changes_the_exit_code(launched: Launched, number: signal.Signals):
    """A scheduler that kills the others at the first task that ended hits launchers in their last milliseconds."""
    launched.start(SAY_PID)
    await launched.running()
    launched.rendezvous.want_exit(3)
    await wait_until_async(lambda: "launcher_exits" in launched.output(), 20, "the decision")
    process = launched.process
    assert process is not None
    signals = 0
    while process.returncode is None:  # until there is nobody left to be hit
        process.send_signal(number)
        signals += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.0005)
    assert (process.returncode, signals > 1) == (3, True)
