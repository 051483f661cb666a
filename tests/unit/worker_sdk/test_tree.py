"""Ranks given by topology: who runs at first, who takes whose place, and what holds of every order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resurge.inprocess import Fill, Layer, Order, Tree, fill_gaps, shift_ranks

HOST, RACK = 4, 8
"""Ranks of each."""


def everything(rank: int) -> int:
    return 0


def host(rank: int) -> int:
    return rank // HOST


def rack(rank: int) -> int:
    return rank // RACK


def began(tree: Tree, size: int = 16, active: int = 0) -> Order:
    return tree(Order(range(size)), range(size), active)


def after(tree: Tree, order: Order, *lost: int, active: int = 0) -> Order:
    return tree(order, [rank for rank in sorted(order) if rank not in lost], active)


def runs(order: Order) -> list[int]:
    return list(order[: order.active])


def test_no_domain_runs_more_than_it_may_and_its_others_are_in_reserve():
    order = began(Tree((Layer(rack), Layer(host, max_ranks=3))))
    assert runs(order) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14] and order[12:] == [3, 7, 11, 15]


def test_the_nearest_reserve_takes_the_place_and_all_others_keep_theirs():
    tree = Tree((Layer(rack), Layer(host, max_ranks=3)))
    order = began(tree)
    once = after(tree, order, 5)
    assert runs(once) == [0, 1, 2, 4, 7, 6, 8, 9, 10, 12, 13, 14], "of its own host"
    assert runs(after(tree, once, 4)) == [0, 1, 2, 7, 6, 8, 9, 10, 12, 13, 14], "rank 3's host runs as many as it may"


def test_where_the_host_has_no_reserve_left_the_rack_is_asked_and_then_the_place_is_closed():
    tree = Tree((Layer(rack, max_ranks=6), Layer(host)))
    order = began(tree)
    assert runs(order) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13] and order[12:] == [6, 7, 14, 15]
    once = after(tree, order, 0)
    assert runs(once)[:6] == [6, 1, 2, 3, 4, 5]
    twice = after(tree, once, 1)
    assert runs(twice)[:6] == [6, 7, 2, 3, 4, 5]
    assert runs(after(tree, twice, 2)) == [6, 7, 3, 4, 5, 8, 9, 10, 11, 12, 13], "another rack's are not its own"


def test_with_a_layer_around_all_another_racks_reserve_takes_it():
    tree = Tree((Layer(everything), Layer(rack), Layer(host)))
    order = began(tree, active=14)
    assert runs(after(tree, order, 0, active=14)) == [14, *range(1, 14)]


def test_in_a_backfill_layer_the_last_of_the_domain_moves_into_the_gap():
    tree = Tree((Layer(host, fill=Fill.BACKFILL),))
    assert runs(after(tree, began(tree, 8), 1)) == [0, 3, 2, 4, 5, 6, 7]


def test_what_the_backfill_leaves_is_filled_from_further_out():
    tree = Tree((Layer(everything), Layer(host, fill=Fill.BACKFILL)))
    order = began(tree, 8, active=7)
    assert runs(after(tree, order, 1, active=7)) == [0, 3, 2, 7, 4, 5, 6]


def test_a_domain_with_too_few_left_runs_nothing_and_counts_in_none_around_it():
    tree = Tree((Layer(rack, min_ranks=6), Layer(host, min_ranks=4)))
    order = after(tree, began(tree), 5)
    assert runs(order) == list(range(8, 16)), "the host has 3, so the rack has 4"
    assert order[8:] == [0, 1, 2, 3, 4, 6, 7]


def test_its_places_are_taken_by_reserves_elsewhere():
    tree = Tree((Layer(everything), Layer(host, min_ranks=4)))
    order = began(tree, 16, active=12)
    assert runs(after(tree, order, 5, active=12)) == [0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11]


def test_what_is_over_a_multiple_is_in_reserve():
    tree = Tree((Layer(host),), multiple_of=4)
    order = after(tree, began(tree, 12), 6)
    assert runs(order) == [0, 1, 2, 3, 4, 5, 7, 8] and order[8:] == [9, 10, 11]


def test_nobody_runs_where_no_domain_has_enough():
    tree = Tree((Layer(host, min_ranks=4),))
    assert after(tree, began(tree, 4), 2).active == 0


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Layer(host, min_ranks=0), "min_ranks is 0"),
        (lambda: Layer(host, min_ranks=3, max_ranks=2), "max_ranks is 2"),
        (lambda: Tree(()), "layers is empty"),
        (lambda: Tree((Layer(host),), multiple_of=0), "multiple_of is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(made, words: str):
    with pytest.raises(ValueError, match=words):
        made()


def _layer(key) -> st.SearchStrategy[Layer]:
    counts = st.tuples(st.integers(1, 3), st.none() | st.integers(3, 8))
    return st.builds(lambda two, fill: Layer(key, two[0], two[1], fill), counts, st.sampled_from(Fill))


TREES = st.builds(
    lambda outer, inner, around, multiple: Tree((*((Layer(everything),) if around else ()), outer, inner), multiple),
    _layer(rack),
    _layer(host),
    st.booleans(),
    st.integers(1, 3),
)
LOSSES = st.lists(st.sets(st.integers(0, 23), max_size=4), max_size=4)


def _story(tree: Tree, losses: list[set[int]], active: int) -> list[tuple[Order, set[int]]]:
    """Each order, with who was lost before it."""
    order = began(tree, 24, active)
    story = [(order, set[int]())]
    for lost in losses:
        order = after(tree, order, *lost, active=active)
        story.append((order, lost))
    return story


@settings(max_examples=60, deadline=None)
@given(TREES, LOSSES, st.integers(0, 24))
def test_every_order_holds_all_that_live_and_keeps_the_layers(tree: Tree, losses: list[set[int]], active: int):
    gone: set[int] = set()
    for order, lost in _story(tree, losses, active):
        gone |= lost
        assert sorted(order) == [rank for rank in range(24) if rank not in gone]
        running = runs(order)
        assert len(running) <= (active or 24) and len(running) % tree.multiple_of == 0
        living = Counter(domain for rank in order for domain in tree.domains(rank))
        busy = Counter(domain for rank in running for domain in tree.domains(rank))
        for domain, count in busy.items():
            layer = tree.layers[len(domain) - 1]
            assert layer.max_ranks is None or count <= layer.max_ranks
            assert living[domain] >= layer.min_ranks


@settings(max_examples=60, deadline=None)
@given(TREES, LOSSES, st.integers(0, 24), st.randoms())
def test_who_is_told_in_which_order_makes_no_difference(tree: Tree, losses: list[set[int]], active: int, chance):
    order = began(tree, 24, active)
    for lost in losses:
        living = [rank for rank in order if rank not in lost]
        shuffled = chance.sample(living, len(living))
        once = tree(order, living, active)
        assert tree(order, shuffled, active) == once
        assert tree(order, shuffled, active).active == once.active
        order = once


@settings(max_examples=60, deadline=None)
@given(LOSSES, st.integers(1, 24))
def test_with_reserves_alone_a_rank_that_goes_on_moves_only_where_a_gap_is_closed(losses: list[set[int]], active: int):
    tree = Tree((Layer(everything), Layer(rack), Layer(host)))
    before, gone = began(tree, 24, active), set[int]()
    for order, lost in _story(tree, losses, active)[1:]:
        gone |= lost
        assert len(runs(order)) == min(len(runs(before)), 24 - len(gone)), "none is idle while a place is free"
        if len(runs(order)) == len(runs(before)):
            kept = [(at, rank) for at, rank in enumerate(runs(before)) if rank not in lost]
            assert all(order[at] == rank for at, rank in kept)
        before = order


@settings(max_examples=60, deadline=None)
@given(LOSSES)
def test_one_layer_around_all_is_what_the_plain_assignments_are(losses: list[set[int]]):
    shifts, fills = Tree((Layer(everything),)), Tree((Layer(everything, fill=Fill.BACKFILL),))
    for tree, plain in ((shifts, shift_ranks), (fills, fill_gaps)):
        expected: list[int] = list(range(24))
        for order, lost in _story(tree, losses, 0)[1:]:
            expected = plain(expected, [rank for rank in expected if rank not in lost], 0)
            assert list(order) == expected
