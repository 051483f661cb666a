"""Events that wait together are stepped together; a broken one among them harms no other; dear digests are rationed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from resurge_libs.core import codec
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import InternalFault
from resurge_libs.engine.crowds import FLOOD, FLOOD_S
from resurge_libs.engine.replay import facts_of
from resurge_libs.engine.runner import MAX_EVENTS_PER_TURN
from tests.unit.libs import engine_bench
from tests.unit.libs.engine_bench import Add, Added, Bench, Break, Look, Total, turns

PATIENT = 1_000
"""An amount that nobody minds to be added later."""


@dataclass(frozen=True)
class AddAll:
    amounts: tuple[int, ...]


class Sums:
    """Sums may be made together."""

    def takes(self, event: Any) -> bool:
        return isinstance(event, (Add, Break))

    def is_patient(self, event: Any) -> bool:
        return isinstance(event, Add) and event.amount == PATIENT

    def of(self, events: Sequence[Any]) -> AddAll:
        return AddAll(tuple(event.amount if isinstance(event, Add) else -1 for event in events))


class CrowdAdder(engine_bench.Adder):
    def step(self, state, event, now):
        if not isinstance(event, AddAll):
            return super().step(state, event, now)
        if -1 in event.amounts:
            raise RuntimeError("one of these is broken")
        total = Total(state.durable.value + sum(event.amounts))
        facts = tuple(Added(amount) for amount in event.amounts)
        return Step(
            engine_bench.State(total, state.deadline, state.log),
            (f"added {sum(event.amounts)} together",),
            Because(Reason.OBSERVED, "AddAll"),
            facts,
        )


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(engine_bench, "Adder", CrowdAdder)

    def make() -> Bench:
        return Bench(crowds=Sums())

    return make


async def test_events_that_wait_together_make_one_entry_and_all_who_asked_are_answered(bench):
    made = bench()
    asked = [made.engine.ask(Add(1)) for _ in range(3)]
    await turns()
    assert [facts_of(entry, Added) for entry in made.journal.entries] == [(Added(1),) * 3]
    assert made.effects.ran == ["added 3 together"]
    assert all(reply.done() and reply.exception() is None for reply in asked)


async def test_an_event_of_another_kind_parts_a_crowd_and_the_order_holds(bench):
    made = bench()
    made.engine.post(Add(1))
    made.engine.post(Add(2))
    look = made.engine.ask(Look())
    made.engine.post(Add(10))
    made.engine.post(Add(20))
    await turns()
    assert look.result() == 3
    assert made.effects.ran == ["added 3 together", "added 30 together"]


async def test_one_event_alone_is_stepped_as_itself(bench):
    made = bench()
    assert await made.engine.ask(Add(5)) == 5
    assert made.effects.ran == ["added 5"]


async def test_a_broken_event_in_a_crowd_is_refused_alone(bench):
    made = bench()
    good, broken, late = made.engine.ask(Add(1)), made.engine.ask(Break()), made.engine.ask(Add(2))
    await turns()
    assert (good.result(), late.result()) == (1, 3)
    with pytest.raises(InternalFault):
        broken.result()
    assert len(made.rejected) == 1 and made.engine.published.durable == Total(3)


async def test_patient_events_gather_from_one_turn_to_the_next(bench):
    made = bench()
    await made.engine.ask(Add(PATIENT))
    asked = []
    for _ in range(3):
        asked.append(made.engine.ask(Add(PATIENT)))
        await turns()
    assert not any(reply.done() for reply in asked)
    async with asyncio.timeout(10):
        await asyncio.gather(*asked)
    assert made.effects.ran == ["added 1000", "added 3000 together"]


async def test_events_of_a_flood_gather_though_the_journal_keeps_up(bench):
    made = bench()
    for _ in range(FLOOD):
        await made.engine.ask(Add(1))
    asked = []
    for _ in range(3):
        asked.append(made.engine.ask(Add(1)))
        await turns()
    assert not any(reply.done() for reply in asked)
    async with asyncio.timeout(10):
        await asyncio.gather(*asked)
    assert made.effects.ran[-1] == "added 3 together"


async def test_events_that_come_one_by_one_wait_for_nobody(bench):
    made = bench()
    for _ in range(2 * FLOOD):
        made.clock.advance(1.01 * FLOOD_S / (FLOOD - 1))
        asked = made.engine.ask(Add(1))
        await turns()
        assert asked.done()


async def test_an_event_that_does_not_wait_takes_the_patient_ones_along(bench):
    made = bench()
    await made.engine.ask(Add(PATIENT))
    patient = made.engine.ask(Add(PATIENT))
    await turns()
    made.engine.post(Add(2))
    await turns()
    assert patient.done() and made.effects.ran == ["added 1000", "added 1002 together"]


async def test_a_crowd_is_bounded(bench):
    made = bench()
    for _ in range(MAX_EVENTS_PER_TURN + 1):
        made.engine.post(Add(1))
    await turns()
    assert [len(facts_of(entry, Added)) for entry in made.journal.entries] == [MAX_EVENTS_PER_TURN, 1]


async def test_a_dear_digest_is_left_out_until_its_share_of_the_time_is_over(monkeypatch, bench):
    made = bench()
    made_at = []
    digest = codec.Digester.digest

    def slow(self, value):
        made_at.append(made.clock.monotonic())
        made.clock.advance(0.010)
        return digest(self, value)

    monkeypatch.setattr(codec.Digester, "digest", slow)
    for _ in range(30):
        await made.engine.ask(Add(1))
        made.clock.advance(0.010)
    without = [entry for entry in made.journal.entries if not entry.state_digest]
    assert len(made.journal.entries) == 30 and 2 <= len(made_at) == 30 - len(without) <= 4
    made.clock.advance(1.0)
    await made.engine.ask(Add(1))
    assert made.journal.entries[-1].state_digest == codec.digest(Total(31)), "the next digest is of all before it"
