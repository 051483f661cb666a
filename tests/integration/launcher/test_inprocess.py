"""Real ranks over gloo that restart in place: one is killed, one raises, none of the others is started anew."""

from __future__ import annotations

import os
import signal

import pytest

from resurge_libs.testing import wait_until_async
from tests.integration.launcher.launching import PREAMBLE, Launched

pytest.importorskip("torch", reason="the ranks reduce by torch")
pytestmark = [pytest.mark.integration, pytest.mark.torch, pytest.mark.timeout(150)]
WORLD = 3

START = (
    PREAMBLE
    + """
import torch, torch.distributed as dist
import resurge
from resurge import inprocess
s = resurge.session()
said('pid-' + me, os.getpid())
first = int(os.environ["RANK"])
def reduce(call):
    value = torch.ones(1) * (call.initial_rank + 1)
    dist.all_reduce(value)
    return int(value.item())
def until(name):
    while not os.path.exists(os.path.join(folder, name)):
        s.beat()
        time.sleep(0.01)
"""
)


def text(launched: Launched, name: str) -> str:
    path = launched.folder / name
    return path.read_text().strip() if path.exists() else ""


async def started(launched: Launched, program: str, *flags: str) -> list[int]:
    launched.start(START + program, *flags, workers=WORLD)
    await launched.rendezvous.until("READY")
    await wait_until_async(lambda: launched.rendezvous.told.store_offer.port, 20, "an offer of a store")
    launched.rendezvous.want_run(1, WORLD)
    files = [launched.folder / f"pid-1-{rank}" for rank in range(WORLD)]
    await wait_until_async(lambda: all(file.exists() for file in files), 100, "all ranks")
    return await launched.pids(1, WORLD)


async def test_the_others_go_on_in_place_when_one_is_killed(launched: Launched):
    program = """
@inprocess.Wrapper()
def train(call):
    call.init_process_group("gloo")
    said(f'sum-{call.iteration}-{first}', f'{reduce(call)} {call.rank}/{call.world_size} {os.getpid()}')
    if call.iteration == 0:
        reduce(call) if first != 1 else threading.Event().wait()
    dist.destroy_process_group()
train()
"""
    pids = await started(launched, program)
    await wait_until_async(lambda: all(text(launched, f"sum-0-{rank}") for rank in range(WORLD)), 60, "the first sum")
    os.kill(pids[1], signal.SIGKILL)
    await wait_until_async(lambda: text(launched, "sum-1-0") and text(launched, "sum-1-2"), 30, "the second sum")
    assert [text(launched, f"sum-1-{rank}") for rank in (0, 2)] == [f"4 0/2 {pids[0]}", f"4 1/2 {pids[2]}"]
    told = await launched.rendezvous.until("FINISHED", 1, 30)
    assert not told.faults
    assert [(e.rank, e.ended_by_launcher) for e in told.exits if e.signal] == [(1, True)]


async def test_all_go_on_in_place_when_one_raises(launched: Launched):
    program = """
@inprocess.Wrapper()
def train(call):
    call.init_process_group("gloo")
    total = reduce(call)
    if call.iteration == 0 and first == 2:
        raise ValueError("a bad batch")
    if call.iteration == 0:
        reduce(call) if first else until("never")
    dist.destroy_process_group()
    return f'{call.iteration} {call.rank}/{call.world_size} {total}'
said(f'end-{first}', train())
"""
    await started(launched, program)
    told = await launched.rendezvous.until("FINISHED", 1, 60)
    assert not told.faults and all(e.exit_code == 0 for e in told.exits)
    assert [text(launched, f"end-{rank}") for rank in range(WORLD)] == [f"1 {rank}/3 6" for rank in range(WORLD)]


async def test_a_rank_that_fails_before_the_group_is_made_holds_up_none_that_make_it(launched: Launched):
    program = """
@inprocess.Wrapper()
def train(call):
    if call.iteration == 0 and first == 2:
        until('making-0'), until('making-1')
        raise ValueError("a bad file")
    said(f'making-{first}', call.iteration)
    call.init_process_group("gloo")
    total = reduce(call)
    dist.destroy_process_group()
    return f'{call.iteration} {call.rank}/{call.world_size} {total}'
said(f'end-{first}', train())
"""
    await started(launched, program)
    told = await launched.rendezvous.until("FINISHED", 1, 60)
    assert not told.faults and all(e.exit_code == 0 for e in told.exits)
    assert [text(launched, f"end-{rank}") for rank in range(WORLD)] == [f"1 {rank}/3 6" for rank in range(WORLD)]


async def test_a_world_that_is_too_small_is_restarted_from_by_the_launcher(launched: Launched):
    program = """
@inprocess.Wrapper(min_world_size=3)
def train(call):
    call.init_process_group("gloo")
    said(f'sum-{call.iteration}-{first}', reduce(call))
    until("never")
train()
"""
    pids = await started(launched, program)
    await wait_until_async(lambda: all(text(launched, f"sum-0-{rank}") for rank in range(WORLD)), 60, "the first sum")
    os.kill(pids[1], signal.SIGKILL)
    told = await launched.rendezvous.until("READY", 1, 30)
    assert [(e.rank, e.ended_by_launcher) for e in told.exits if e.rank == 1] == [(1, False)]


async def test_in_a_tree_the_reserve_of_its_own_domain_takes_a_lost_ranks_place(launched: Launched):
    program = """
tree = inprocess.Tree((inprocess.Layer(lambda rank: rank // 2, max_ranks=1),))
@inprocess.Wrapper(assign=tree)
def train(call):
    call.init_process_group("gloo")
    said(f'sum-{call.iteration}-{first}', f'{reduce(call)} {call.rank}/{call.world_size} {os.getpid()}')
    if call.iteration == 0:
        reduce(call) if first else threading.Event().wait()
    dist.destroy_process_group()
train()
"""
    pids = await started(launched, program)
    await wait_until_async(lambda: all(text(launched, f"sum-0-{rank}") for rank in (0, 2)), 60, "the first sum")
    assert [text(launched, f"sum-0-{rank}") for rank in (0, 2)] == [f"4 0/2 {pids[0]}", f"4 1/2 {pids[2]}"]
    os.kill(pids[0], signal.SIGKILL)
    await wait_until_async(lambda: text(launched, "sum-1-1") and text(launched, "sum-1-2"), 30, "the second sum")
    assert [text(launched, f"sum-1-{rank}") for rank in (1, 2)] == [f"5 0/2 {pids[1]}", f"5 1/2 {pids[2]}"]
    assert not (await launched.rendezvous.until("FINISHED", 1, 30)).faults
