"""What happens to real processes: every way in which workers, strays and launchers end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import is_alive, kill, segfault, stop, terminate
from tests.fakes.rendezvous import FakeRendezvous
from tests.integration.launcher.launching import FOREVER, PREAMBLE, SAY_PID, Launched


async def test_success_is_told_and_ends_with_the_decision(launched: Launched):
    launched.start(SAY_PID, workers=2)
    await launched.running(workers=2)
    told = await launched.rendezvous.until("FINISHED", 1)
    assert [(e.rank, e.exit_code) for e in told.exits] == [(0, 0), (1, 0)]
    launched.rendezvous.want_exit(0)
    assert await launched.exit_code() == 0
    assert launched.rendezvous.told.exit_acknowledged


@pytest.mark.parametrize(("how", "number"), [(kill, signal.SIGKILL), (segfault, signal.SIGSEGV)])
@pytest.mark.users_row(37)
@pytest.mark.users_row(52)
async def test_a_killed_worker_is_told_with_its_signal_and_takes_the_others_down(launched: Launched, how, number):
    launched.start(FOREVER, workers=3)
    pids = await launched.running(workers=3)
    how(pids[1])
    told = await launched.rendezvous.until("READY", 1)
    assert {e.rank: (e.signal, e.ended_by_launcher) for e in told.exits} == {
        0: (signal.SIGTERM, True),
        1: (number, False),
        2: (signal.SIGTERM, True),
    }
    assert not any(is_alive(pid) for pid in pids)
    launched.rendezvous.want_run(2, 3)
    await launched.rendezvous.until("RUNNING", 2)
    fresh = await launched.pids(2, 3)
    assert not set(fresh) & set(pids)


async def test_a_worker_that_ignores_term_is_killed_after_the_grace(launched: Launched):
    launched.start(PREAMBLE + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER, workers=2)
    pids = await launched.running(workers=2)
    began = time.monotonic()
    kill(pids[0])
    told = await launched.rendezvous.until("READY", 1)
    assert [e.signal for e in told.exits] == [signal.SIGKILL, signal.SIGKILL]
    assert time.monotonic() - began >= 0.5


@pytest.mark.users_row(20)
@pytest.mark.users_row(21)
async def test_orphan_daemons_are_gone_before_the_node_is_ready(launched: Launched):
    daemon = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.environ.clear()
        said("daemon", os.getpid())
        threading.Event().wait()
    os._exit(0)
os.wait()
while not os.path.exists(os.path.join(folder, "daemon")):
    time.sleep(0.01)
"""
    launched.start(PREAMBLE + daemon + FOREVER)
    pids = await launched.running()
    orphan = launched.pid_in("daemon")
    assert is_alive(orphan)
    kill(pids[0])
    await launched.rendezvous.until("READY", 1)
    assert not is_alive(orphan)


async def test_workers_and_their_children_die_with_the_launcher(launched: Launched):
    launched.start(FOREVER, workers=2)
    pids = await launched.running(workers=2)
    kill(launched.pid)
    await wait_until_async(lambda: not any(is_alive(pid) for pid in pids), 5, "the workers' end")


@pytest.mark.users_row(22)
async def test_leftovers_of_an_older_incarnation_go_first(launched: Launched):
    daemon = """
if os.fork() == 0:
    os.setsid()
    said("daemon", os.getpid())
    threading.Event().wait()
while not os.path.exists(os.path.join(folder, "daemon")):
    time.sleep(0.01)
"""
    launched.start(PREAMBLE + daemon + FOREVER)
    await launched.running()
    orphan = launched.pid_in("daemon")
    kill(launched.pid)
    await launched.exit_code()
    assert is_alive(orphan), "nobody is there to end it"
    launched.rendezvous.want_down(1)
    launched.start(FOREVER)
    told = await launched.rendezvous.until("READY", 1)
    assert not is_alive(orphan)
    first, second = launched.rendezvous.hellos[0], launched.rendezvous.hellos[-1]
    assert second.incarnation > first.incarnation and second.highest_generation == 1
    assert told.store_offer.port


@pytest.mark.users_row(42)
async def test_a_second_launcher_of_a_node_is_refused_and_harms_nothing(launched: Launched, tmp_path):
    launched.start(FOREVER)
    pids = await launched.running()
    first = launched.process
    launched.start(FOREVER)
    assert await launched.exit_code() == 2
    assert "--take-over" in launched.output()
    assert is_alive(pids[0]) and first.poll() is None
    launched.process = first


async def test_two_jobs_of_one_name_on_one_machine_do_not_end_each_others_workers(launched: Launched, tmp_path: Path):
    launched.start(FOREVER)
    pids = await launched.running()
    (tmp_path / "other").mkdir()
    rendezvous = FakeRendezvous()
    other = Launched(tmp_path / "other", rendezvous, await rendezvous.start())
    try:
        other.start(FOREVER)  # looks for leftovers of the same job and node
        await other.running()
        assert is_alive(pids[0])
    finally:
        other.end()
        await rendezvous.stop()


async def test_take_over_ends_the_older_launcher(launched: Launched):
    launched.start(FOREVER)
    pids = await launched.running()
    first = launched.process
    launched.start(FOREVER, "--take-over")
    await wait_until_async(lambda: first.poll() is not None, 10, "the older launcher's end")
    assert first.returncode == -signal.SIGKILL
    await wait_until_async(lambda: not is_alive(pids[0]), 10, "the end of its worker")
    await wait_until_async(lambda: len(launched.rendezvous.hellos) == 2, 10)
    assert launched.rendezvous.hellos[1].take_over


@pytest.mark.users_row(28)
async def test_a_frozen_worker_that_beat_once_is_hung(launched: Launched):
    beating = (
        SAY_PID
        + """
import resurge
with resurge.session() as session:
    step = 0
    while True:
        session.beat(step)
        step += 1
        if step == 3:
            said("beats-" + me, step)
        time.sleep(0.02)
"""
    )
    launched.start(beating, "--ft-rank-heartbeat-timeout", "0.5", workers=2)
    pids = await launched.running(workers=2)
    await wait_until_async((launched.folder / "beats-1-1").exists, 20, "three beats")
    stop(pids[1])
    told = await launched.rendezvous.until("READY", 1)
    assert [(f.rank, f.because.code) for f in told.faults] == [(1, "WORKER_STOPPED")]
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.users_row(17)
async def test_a_signal_reaches_the_workers_and_gives_the_exit_code(launched: Launched):
    handler = "signal.signal(signal.SIGTERM, lambda *_: (said('heard', 'TERM'), sys.exit(0)))\n"
    launched.start(PREAMBLE + handler + FOREVER.removeprefix(PREAMBLE))
    await launched.running()
    terminate(launched.pid)
    assert await launched.exit_code() == 128 + signal.SIGTERM
    assert (launched.folder / "heard").read_text() == "TERM\n"
    leaving = [o for _, o in launched.rendezvous.history if o.phase == attach_pb2.NODE_PHASE_LEAVING]
    assert leaving and leaving[0].leaving_signal == signal.SIGTERM
    last = launched.rendezvous.told
    assert (last.phase, last.leaving_signal) == (attach_pb2.NODE_PHASE_READY, signal.SIGTERM), "left and clear"
    assert last.exits[0].exit_code == 0


@pytest.mark.users_row(14)
@pytest.mark.users_row(15)
@pytest.mark.users_row(17)
async def test_a_notice_is_passed_on_and_ends_nothing(launched: Launched):
    handler = "signal.signal(signal.SIGUSR1, lambda *_: said('noticed', 'USR1'))\n"
    launched.start(PREAMBLE + handler + FOREVER, "--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1")
    pids = await launched.running()
    os.kill(launched.pid, signal.SIGUSR1)
    await wait_until_async((launched.folder / "noticed").exists, 10)
    assert is_alive(pids[0])
    assert launched.rendezvous.told.phase == attach_pb2.NODE_PHASE_RUNNING


async def test_a_notice_waits_for_a_worker_that_does_not_handle_it_yet(launched: Launched):
    imports = "while not os.path.exists(os.path.join(folder, 'go')): time.sleep(0.01)\n"
    handler = "signal.signal(signal.SIGUSR1, lambda *_: said('noticed', 'USR1'))\n"
    program = SAY_PID + imports + handler + FOREVER.removeprefix(SAY_PID)
    launched.start(program, "--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1")
    pids = await launched.running()
    os.kill(launched.pid, signal.SIGUSR1)
    await wait_until_async(lambda: "signal_waits" in launched.output(), 20, "the launcher to hear it")
    (launched.folder / "go").touch()
    await wait_until_async((launched.folder / "noticed").exists, 20, "the worker to hear it")
    assert is_alive(pids[0])
    assert launched.rendezvous.told.phase == attach_pb2.NODE_PHASE_RUNNING


async def test_workers_outlive_rendezvous_and_a_fault_meanwhile_is_told_later(launched: Launched):
    launched.start(FOREVER, workers=2)
    pids = await launched.running(workers=2)
    await launched.rendezvous.stop()
    assert all(is_alive(pid) for pid in pids)
    kill(pids[0])
    await wait_until_async(lambda: not any(is_alive(pid) for pid in pids), 10, "teardown without control")
    launched.rendezvous.history.clear()
    await launched.rendezvous.start()
    told = await launched.rendezvous.until("READY", 1)
    assert signal.SIGKILL in [e.signal for e in told.exits]


async def test_an_older_launcher_that_was_superseded_leaves(launched: Launched):
    from resurge_libs.core.refusals import Superseded

    launched.start(FOREVER)
    pids = await launched.running()
    launched.rendezvous.refusal = Superseded("n0", 1, 2)
    await launched.rendezvous.stop()
    await launched.rendezvous.start()
    assert await launched.exit_code() == 1
    assert not is_alive(pids[0])
