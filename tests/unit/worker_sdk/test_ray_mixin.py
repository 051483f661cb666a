"""An actor's loop answers while a call blocks: the mixin, on a plain event loop and without Ray."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

import resurge.ray
from resurge import CollectiveAborted
from resurge_libs.testing import wait_until_async


class Group:
    """Blocks until it is aborted."""

    def __init__(self) -> None:
        self.broken = threading.Event()

    def abort(self) -> None:
        self.broken.set()


class Actor(resurge.ray.Guarded):
    def __init__(self) -> None:
        self.group = Group()

    async def step(self, timeout_s: float | None = None) -> str:
        return await self.off_loop(self._block, "a", timeout_s=timeout_s, groups=self.group, phase="step")

    def _block(self, word: str) -> str:
        assert self.group.broken.wait(20)
        return word


async def begun(actor: Actor) -> resurge.ray.Pong:
    async def busy() -> resurge.ray.Pong | None:
        pong = await actor.ping()
        return pong if pong.calls else None

    return await wait_until_async(busy, 10, "a call under way")


async def test_the_actor_answers_while_it_is_blocked_and_comes_back_when_told():
    actor = Actor()
    step = asyncio.ensure_future(actor.step())
    pong = await begun(actor)
    assert pong.calls[0].phase == "step" and pong.calls[0].for_s >= 0
    await wait_until_async(lambda: actor.abort("rank 3 is gone"), 10, "an armed guard")
    with pytest.raises(CollectiveAborted, match="rank 3 is gone"):
        await step
    assert (await actor.ping()).calls == ()
    assert await actor.abort() == 0, "nothing is armed any more"


async def test_an_abort_of_another_phase_leaves_it_alone():
    actor = Actor()
    step = asyncio.ensure_future(actor.step())
    await begun(actor)
    assert await actor.abort(phase="eval") == 0
    await wait_until_async(lambda: actor.abort(phase="step"), 10, "an armed guard")
    with pytest.raises(CollectiveAborted):
        await step


async def test_a_limit_of_the_call_frees_it_without_anybody_s_order():
    with pytest.raises(CollectiveAborted, match=r"deadline of 0\.05 s"):
        await Actor().step(timeout_s=0.05)


async def test_a_stand_down_leaves_the_wait_to_end_by_itself():
    actor = Actor()
    step = asyncio.ensure_future(actor.step(timeout_s=20))
    await wait_until_async(actor.stand_down, 10, "an armed guard")
    assert await actor.abort() == 0, "stood down"
    actor.group.broken.set()
    assert await step == "a"


async def test_calls_of_one_group_wait_for_each_other():
    actor, order = Actor(), []
    entered = threading.Event()

    def first() -> None:
        entered.set()
        actor.group.broken.wait(20)
        order.append(1)

    one = asyncio.ensure_future(actor.off_loop(first, serial=actor.group))
    await wait_until_async(entered.is_set, 10, "the first call")
    two = asyncio.ensure_future(actor.off_loop(order.append, 2, serial=actor.group))
    assert len((await actor.ping()).calls) <= 2 and not order
    actor.group.broken.set()
    await asyncio.gather(one, two)
    assert order == [1, 2]


async def test_an_error_of_the_call_is_the_caller_s_and_nothing_stays_behind():
    actor = Actor()
    with pytest.raises(ZeroDivisionError):
        await actor.off_loop(lambda: 1 // 0)
    assert (await actor.ping()).calls == ()


def test_the_mixin_does_without_ray():
    assert "ray" not in sys.modules or not hasattr(resurge.ray, "ray")
