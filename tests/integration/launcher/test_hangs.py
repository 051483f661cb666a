"""Real workers that hang in every way: how soon it is noticed, what is said of it, and whose stacks are kept."""

from __future__ import annotations

import re
import time

import pytest

from resurge_libs.testing import wait_until_async
from tests.integration.launcher.launching import PREAMBLE, Launched

pytestmark = pytest.mark.integration
LIMIT_S = 0.8
"""Of the beats here."""
NOTICED_S = 0.3
"""From the end of a limit to the teardown. On a quiet machine it is 0.06 s, nearly all of it the look."""

START = (
    PREAMBLE
    + f"""
import resurge
s = resurge.session(beat_limit={LIMIT_S})
said('pid-' + me, os.getpid())
rank = int(os.environ["RANK"])
def silent_since():
    s.beat(rank + 1)
    said('beat-' + me, time.monotonic())
def count_for_ever():
    silent_since()
    max(range(10**15))
def spin():
    silent_since()
    while True:
        pass
def block_in_a_call():
    silent_since()
    threading.Event().wait()
def work():
    while True:
        s.beat()
        time.sleep(0.02)
"""
)


def silences(launched: Launched) -> float:
    """When rank 0 beat last."""
    return float((launched.folder / "beat-1-0").read_text())


async def fault_of(launched: Launched, program: str, *flags: str, workers: int = 1) -> tuple[str, str, int]:
    """Reason, sentence and rank of the first fault."""
    launched.start(START + program, *flags, workers=workers)
    await launched.running(workers=workers)
    await wait_until_async(lambda: launched.rendezvous.told.faults, 20, "a fault")
    fault = launched.rendezvous.told.faults[0]
    return fault.because.code, fault.because.sentence, fault.rank


@pytest.mark.parametrize(
    ("hang", "reason", "words"),
    [
        ("count_for_ever", "WORKER_GIL_HELD", r"native code holds the GIL at train\.py:\d+ in count_for_ever"),
        ("spin", "WORKER_LIVELOCK", r"runs without getting on at train\.py:\d+ in spin"),
        ("block_in_a_call", "WORKER_BLOCKED", r"is blocked at train\.py:\d+ in block_in_a_call"),
    ],
)
async def test_each_way_to_hang_is_told_apart_with_its_place(launched: Launched, hang: str, reason: str, words: str):
    code, sentence, rank = await fault_of(launched, f"{hang}()")
    assert (code, rank) == (reason, 0), sentence
    assert re.search(words, sentence), sentence
    assert "last step 1" in sentence
    (kept,) = list((launched.folder / "logs").rglob("stacks.txt"))
    assert f"in {hang}" in kept.read_text()
    assert launched.rendezvous.told.faults[0].because.sentence == sentence
    await wait_until_async(lambda: "what=stacks" in launched.output(), 5, "the stacks in the launcher's log")


async def test_a_hang_is_noticed_at_its_limit_and_not_at_the_next_look(launched: Launched):
    """The limit here is shorter than the time between two looks: the worker itself has its launcher look in time."""
    program = "s.set_beat_limit(0.25)\nsilent_since()\nthreading.Event().wait()"
    await fault_of(launched, program)
    took_s = launched.rendezvous.first_told("TEARING_DOWN", 1) - silences(launched)
    assert 0.25 <= took_s < 0.25 + NOTICED_S, "with the look at the worker"


async def test_a_section_of_its_own_limit_is_noticed_and_named(launched: Launched):
    program = "s.set_beat_limit(0)\ns.beat()\nwith s.phase('load', limit=0.3): threading.Event().wait()"
    code, sentence, _ = await fault_of(launched, program, "--capture-stacks", "sections")
    assert code == "WORKER_BLOCKED" and "in section 'load'" in sentence and "train.py" in sentence


async def test_limits_of_sections_are_the_launchers_where_the_script_gives_none(launched: Launched):
    program = "s.set_beat_limit(0)\ns.beat()\nwith s.phase('load'): threading.Event().wait()"
    _, sentence, _ = await fault_of(launched, program, "--ft-rank-section-timeouts", "load:0.3,step:60")
    assert "in section 'load'" in sentence


async def test_a_section_of_the_rank_monitor_client_is_noticed_and_named(launched: Launched):
    program = """
from resurge.fault_tolerance import RankMonitorClient
client = RankMonitorClient()
client.init_workload_monitoring()
client.start_section("load")
threading.Event().wait()
"""
    code, sentence, _ = await fault_of(launched, program, "--ft-rank-section-timeouts", "load:0.3")
    assert code == "WORKER_BLOCKED" and "in section 'load'" in sentence, sentence


async def test_a_first_beat_that_never_comes_is_a_hang_where_a_limit_is_given(launched: Launched):
    program = "threading.Event().wait()"
    code, sentence, _ = await fault_of(launched, program, "--ft-initial-rank-heartbeat-timeout", "500ms")
    assert code == "WORKER_BLOCKED", sentence


async def test_without_stacks_the_kind_of_hang_is_told_all_the_same(launched: Launched):
    code, sentence, _ = await fault_of(launched, "count_for_ever()", "--capture-stacks", "none")
    assert code == "WORKER_GIL_HELD" and "train.py" not in sentence
    assert not list((launched.folder / "logs").rglob("stacks.txt"))


async def test_a_worker_that_is_stopped_is_blamed_and_its_peer_s_place_is_kept(launched: Launched):
    program = "os.kill(os.getpid(), signal.SIGSTOP) if rank and not s.beat(1) else block_in_a_call()"
    code, sentence, rank = await fault_of(launched, program, workers=2)
    assert (code, rank) == ("WORKER_STOPPED", 1), sentence
    (kept,) = list((launched.folder / "logs").rglob("stacks.txt"))
    assert kept.parent.name == "0", "who is stopped writes nothing"


async def test_a_worker_that_beats_again_while_it_is_looked_at_lives(launched: Launched):
    """It is silent for longer than its limit, but the look finds it at work again."""
    launched.start(START + f"silent_since()\ntime.sleep({LIMIT_S} + 0.01)\nwork()")
    await launched.running()
    await wait_until_async(lambda: launched.folder.joinpath("beat-1-0").exists(), 20, "the silence")
    silent_from = silences(launched)
    await wait_until_async(lambda: time.monotonic() > silent_from + 2 * LIMIT_S, 10, "twice its limit")
    assert not launched.rendezvous.told.faults


@pytest.mark.torch
async def test_who_waits_in_a_collective_is_not_blamed_for_who_does_not_come(launched: Launched):
    pytest.importorskip("torch", reason="a collective of torch is waited in")
    program = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
dist.all_reduce(torch.ones(4))
if rank == 0:
    s.beat(1)
    dist.all_reduce(torch.ones(4))
s.beat(1)
time.sleep(0.1)
block_in_a_call()
"""
    code, sentence, rank = await fault_of(launched, program, workers=2)
    assert (code, rank) == ("WORKER_BLOCKED", 1), sentence
