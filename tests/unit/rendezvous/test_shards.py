"""Tables of many nodes: a step changes an open one in place, and nobody who holds an earlier one sees it."""

from __future__ import annotations

from resurge_rendezvous.core.shards import ShardMap

NAMES = [f"n{number}" for number in range(300)]


def full() -> ShardMap[int]:
    return ShardMap.of((name, number) for number, name in enumerate(NAMES))


def test_who_iterates_sees_an_open_table_as_it_was_when_it_began():
    table = full().opened()
    table = table.put("n0", -1)  # its part is a copy from here on
    items, values = iter(table), table.values()
    for name in NAMES:
        table = table.drop(name)
    table = table.put("late", 7)
    assert sorted(items) == sorted(NAMES)
    assert sorted(values) == sorted([-1, *range(1, 300)])
    assert list(table) == ["late"] and list(table.values()) == [7] and len(table) == 1


def test_a_table_may_be_changed_while_it_is_walked():
    table = full().opened()
    for name in table:
        table.drop(name)
    assert len(table) == 0 and next(iter(table), None) is None


def test_what_was_opened_and_what_was_closed_stay_as_they_are():
    before = full()
    table = before.opened().put("n1", 100)
    assert next(iter(table)) in NAMES
    table = table.put("n2", 200)
    after = table.closed()
    assert (before.get("n1"), before.get("n2")) == (1, 2)
    assert (after.get("n1"), after.get("n2"), len(after)) == (100, 200, 300)
    assert after == before.put("n1", 100).put("n2", 200)
