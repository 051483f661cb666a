"""The engine's order: step, journal, durable, then replies and effects; ticks, pauses, broken steps, failed disks."""

from __future__ import annotations

import pytest

from resurge_libs.core.instant import Instant
from resurge_libs.core.refusals import BadRequest, InternalFault, Overloaded
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.engine.ports import JournalFailed, JournalUnusable
from resurge_libs.engine.replay import facts_of, restore
from resurge_libs.engine.runner import Engine, EngineOptions
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.clocks import VirtualClock
from tests.unit.libs.engine_bench import (
    Add,
    Added,
    Adder,
    Bench,
    Break,
    Look,
    Recorder,
    Refuse,
    SlowJournal,
    State,
    Tick,
    Total,
    WakeAt,
    turns,
)


async def test_an_ask_is_answered_and_its_fact_is_in_the_journal():
    bench = Bench()
    assert await bench.engine.ask(Add(2)) == 2
    assert await bench.engine.ask(Add(3)) == 5
    assert [facts_of(e, Added) for e in bench.journal.entries] == [(Added(2),), (Added(3),)]
    assert [(e.seq, e.event, e.because.sentence) for e in bench.journal.entries] == [
        (1, "Add", "Add"),
        (2, "Add", "Add"),
    ]
    assert bench.effects.ran == ["added 2", "added 3"]


async def test_nothing_leaves_before_it_is_durable_and_then_in_order():
    journal = SlowJournal()
    bench = Bench(journal)
    first, look, refused = bench.engine.ask(Add(1)), bench.engine.ask(Look()), bench.engine.ask(Refuse())
    await turns()
    second = bench.engine.ask(Add(10))
    await turns()
    assert bench.engine.state.durable == Total(11) and bench.engine.published.durable == Total(0)
    assert not (first.done() or look.done() or refused.done() or second.done()) and bench.effects.ran == []
    assert len(journal.waiting) == 2, "the second event was stepped while the first was being written"
    journal.write_next()
    assert await first == 1 and await look == 1
    with pytest.raises(BadRequest):
        await refused
    assert not second.done() and bench.effects.ran == ["added 1"]
    journal.write_next()
    assert await second == 11
    assert bench.engine.published.durable == Total(11)


async def test_events_of_one_turn_share_one_append():
    journal = SlowJournal()
    bench = Bench(journal)
    for _ in range(20):
        bench.engine.post(Add(1))
    await turns()
    assert [len(batch) for batch, _ in journal.waiting] == [20]


async def test_a_broken_step_is_answered_not_stored_and_changes_nothing():
    bench = Bench()
    await bench.engine.ask(Add(1))
    with pytest.raises(InternalFault, match="broken"):
        await bench.engine.ask(Break())
    assert len(bench.rejected) == 1
    assert await bench.engine.ask(Look()) == 1
    assert len(bench.journal.entries) == 1


async def test_a_refusal_reaches_its_asker_only():
    bench = Bench()
    with pytest.raises(BadRequest, match="must be a number"):
        await bench.engine.ask(Refuse())
    assert bench.rejected == []


async def test_a_broken_effect_keeps_no_other_from_running():
    bench = Bench()
    assert await bench.engine.ask(Add(13)) == 13
    await bench.engine.ask(Add(1))
    assert bench.effects.ran == ["added 1"]


async def test_a_full_disk_stops_deciding_with_a_named_error():
    journal = SlowJournal()
    bench = Bench(journal)
    first = bench.engine.ask(Add(1))
    await turns()
    second, third = bench.engine.ask(Add(1)), None
    await turns()
    third = bench.engine.ask(Look())
    journal.fail_next()
    for asked in (first, second, third):
        with pytest.raises(JournalFailed, match="No space left"):
            await asked
    with pytest.raises(JournalFailed):
        bench.engine.post(Add(1))
    assert bench.effects.ran == [] and len(bench.failed) == 1
    assert bench.engine.published.durable == Total(0)


async def test_a_deadline_brings_a_tick():
    bench = Bench()
    await bench.engine.ask(WakeAt(Instant(bench.clock.monotonic() + 0.01)))
    bench.clock.advance(0.02)
    await wait_until_async(lambda: bench.engine.state.log == ("tick",))
    assert bench.effects.ran == ["ticked"]


async def test_after_a_pause_the_lost_time_is_told_before_anything_else_is_judged():
    bench = Bench()
    await bench.engine.ask(WakeAt(Instant(bench.clock.monotonic() + 5.0)))
    await turns()
    bench.clock.advance(12.0)
    bench.engine.post(Add(1))
    await turns()
    assert len(bench.engine.state.log) == 1 and bench.engine.state.log[0].startswith("paused 11.")
    assert bench.engine.state.durable == Total(1), "what waited in the inbox comes before expiry"
    bench.clock.advance(0.06)
    await wait_until_async(lambda: bench.engine.state.log[-1] == "tick")


async def test_a_pause_between_deadlines_is_noticed_too():
    bench = Bench()
    await bench.engine.ask(WakeAt(Instant(bench.clock.monotonic() + 100.0)))
    await turns()
    bench.clock.advance(3.0)
    await wait_until_async(lambda: bench.engine.state.log)
    assert bench.engine.state.log[0].startswith("paused 2.")


async def test_a_small_delay_is_no_pause():
    bench = Bench()
    await bench.engine.ask(WakeAt(Instant(bench.clock.monotonic() + 0.1)))
    await turns()
    bench.clock.advance(0.55)
    await wait_until_async(lambda: bench.engine.state.log)
    assert bench.engine.state.log == ("tick",)


@pytest.mark.users_row(70)
async def test_more_than_the_inbox_takes_is_refused():
    bench = Bench(max_pending=2)
    bench.engine.post(Look())
    bench.engine.post(Look())
    with pytest.raises(Overloaded):
        bench.engine.post(Look())


async def test_a_replay_arrives_at_the_live_state_from_a_snapshot_too():
    bench = Bench(snapshot_every=4)
    for amount in range(1, 11):
        await bench.engine.ask(Add(amount))
    replay = bench.journal.replay()
    assert replay.snapshot is not None and replay.snapshot.seq == 8
    assert [entry.seq for entry in replay.entries] == [9, 10]
    restored = restore(Adder(), Total(), replay, Added, verify_each=True)
    assert restored.durable == bench.engine.state.durable == Total(55)
    assert restored.last_seq == 10 and restored.damage is None


async def test_a_journal_that_lost_its_end_says_so_and_goes_on():
    bench = Bench()
    for _ in range(5):
        await bench.engine.ask(Add(1))
    bench.journal.lose_last(2)
    restored = restore(Adder(), Total(), bench.journal.replay(), Added)
    assert restored.durable == Total(3)
    assert restored.damage is not None and restored.damage.entries_lost == 2


class Doubler(Adder):
    def evolve(self, durable: Total, fact: Added) -> Total:
        return Total(durable.value + 2 * fact.amount)


async def test_a_journal_of_other_rules_is_refused():
    bench = Bench()
    await bench.engine.ask(Add(1))

    with pytest.raises(JournalUnusable, match="does not replay"):
        restore(Doubler(), Total(), bench.journal.replay(), Added)
    with pytest.raises(JournalUnusable, match=r"entry 1 \(Add\) cannot be read"):
        restore(Adder(), Total(), bench.journal.replay(), Total)


async def test_stop_finishes_what_was_asked():
    journal = MemoryJournal()
    bench = Bench(journal)
    asked = bench.engine.ask(Add(4))
    await bench.engine.stop()
    assert asked.done() and await asked == 4
    with pytest.raises(InternalFault, match="stopped"):
        bench.engine.post(Add(1))


async def test_a_journal_of_an_earlier_rules_version_gets_a_snapshot_at_start():
    bench = Bench()
    await bench.engine.ask(Add(1))
    restored = restore(Adder(), Total(), bench.journal.replay(), Added)
    assert restored.rules_version == 1
    for version, seq in ((1, None), (2, 1)):
        options = EngineOptions(tick=Tick, rules_version=version)
        engine = Engine(Adder(), State(restored.durable), bench.journal, Recorder(), VirtualClock(), options)
        engine.start(restored.last_seq, restored.rules_version)
        taken = bench.journal.last_snapshot
        assert (taken.seq if taken else None) == seq


async def test_a_journal_of_an_earlier_rules_version_is_folded_by_the_present_rules():
    bench = Bench()
    await bench.engine.ask(Add(1))
    replay = bench.journal.replay()
    assert restore(Doubler(), Total(), replay, Added, rules_version=2).durable == Total(2)
    for version in (0, 1):
        with pytest.raises(JournalUnusable, match="does not replay"):
            restore(Doubler(), Total(), replay, Added, rules_version=version)


async def test_a_broken_observer_keeps_no_answer_back():
    def observer(event, step):
        raise ValueError("an observer that breaks")

    bench = Bench(on_step=observer)
    assert await bench.engine.ask(Add(1)) == 1
    assert bench.effects.ran == ["added 1"]
