"""Who gets a place in a round, and in which order."""

from __future__ import annotations

import pytest

from resurge_libs.core.ids import Incarnation, NodeId
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core.model import NodeEntry
from resurge_rendezvous.core.rules import differing_field, natural, nearness, order_key, plan_round, spec_violation
from tests.unit.rendezvous.desk import spec


def entry(name: str, infra_rank: int | None = None, domain: str = "", workers: int = 1) -> NodeEntry:
    return NodeEntry(NodeId(name), Incarnation(1), infra_rank=infra_rank, domain=domain, local_world_size=workers)


def names(plan) -> list[str]:
    assert isinstance(plan, tuple), plan
    return [place.node for place in plan]


def test_names_are_ordered_as_people_count():
    assert sorted(["n10", "n2", "n1"], key=natural) == ["n1", "n2", "n10"]
    assert sorted(["10", "9", "a1"], key=natural) == ["9", "10", "a1"]


@pytest.mark.users_row(12)
def test_infrastructure_order_goes_before_names():
    nodes = [entry("a", 2), entry("b", 0), entry("c"), entry("d", 1)]
    assert [item.node for item in sorted(nodes, key=order_key)] == ["b", "d", "a", "c"]


def test_too_few_nodes_are_a_named_lack():
    plan = plan_round(spec(min_nodes=3), [entry("a"), entry("b")], frozenset())
    assert plan.code is Reason.BELOW_MIN_NODES
    assert "2 of 3" in plan.sentence


def test_survivors_go_before_spares_and_a_spare_stands_where_its_order_puts_it():
    nodes = [entry("n0", 0), entry("spare", 1), entry("n2", 2), entry("n3", 3)]
    plan = plan_round(spec(min_nodes=3), nodes, frozenset({NodeId("n0"), NodeId("n2"), NodeId("gone")}))
    assert names(plan) == ["n0", "spare", "n2"]


def test_base_ranks_are_sums_over_unequal_nodes():
    plan = plan_round(
        spec(min_nodes=3), [entry("a", 0, workers=4), entry("b", 1, workers=1), entry("c", 2, workers=2)], frozenset()
    )
    assert [(place.group_rank, place.base_rank) for place in plan] == [(0, 0), (1, 4), (2, 5)]


def test_segments_are_whole_and_stand_together():
    nodes = [entry(f"n{number}", number, domain="xy"[number % 2]) for number in range(6)]
    plan = plan_round(spec(min_nodes=4, segment=2), nodes, frozenset())
    assert names(plan) == ["n0", "n2", "n1", "n3"]


def test_an_odd_domain_gives_only_whole_segments():
    nodes = [entry("a0", 0, "a"), entry("b0", 1, "b"), entry("b1", 2, "b"), entry("c0", 3, "c"), entry("c1", 4, "c")]
    plan = plan_round(spec(min_nodes=4, segment=2), nodes, frozenset())
    assert names(plan) == ["b0", "b1", "c0", "c1"]


def test_domains_that_held_segments_keep_them():
    nodes = [entry("a0", 0, "a"), entry("a1", 1, "a"), entry("b0", 2, "b"), entry("b1", 3, "b")]
    plan = plan_round(spec(min_nodes=2, segment=2), nodes, frozenset({NodeId("b0"), NodeId("b1")}))
    assert names(plan) == ["b0", "b1"]


def test_a_domain_that_lost_a_node_gives_its_segment_up():
    nodes = [entry("a0", 0, "a"), entry("b0", 2, "b"), entry("b1", 3, "b")]
    plan = plan_round(spec(min_nodes=2, segment=2), nodes, frozenset({NodeId("a0"), NodeId("a1")}))
    assert names(plan) == ["b0", "b1"]


def test_nodes_of_no_known_domain_fill_no_segment():
    plan = plan_round(spec(min_nodes=2, segment=2), [entry("a", 0), entry("b", 1)], frozenset())
    assert plan.code is Reason.SEGMENT_UNFILLED


def test_a_specification_that_cannot_be_names_its_field():
    assert spec_violation(spec(min_nodes=3, max_nodes=3, segment=2))[0] == "segment"
    assert spec_violation(spec(min_nodes=3, max_nodes=2))[0] == "max_nodes"
    assert spec_violation(spec(min_nodes=0))[0] == "min_nodes"
    assert spec_violation(spec()) is None


def test_the_attempt_is_no_difference_between_two_specifications():
    assert differing_field(spec(attempt=2), spec(attempt=1)) is None
    assert differing_field(spec(max_restarts=9), spec()) == "max_restarts"


# --- spares fill in by topology


def crew(*names_and_domains: str) -> list[NodeEntry]:
    """Nodes as `name@domain`, in infrastructure order."""
    parts = [text.partition("@") for text in names_and_domains]
    return [entry(name, number, domain) for number, (name, _, domain) in enumerate(parts)]


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("b1.r1", "b1.r1", 2),
        ("b1.r1", "b1.r2", 1),
        ("b1.r1", "b2.r1", 0),
        ("b1", "b1.r2", 1),
        ("", "", 0),
        ("b1", "b10", 0),
    ],
)
def test_nearness_counts_from_the_top_of_the_network(one: str, other: str, steps: int):
    assert (nearness(one, other), nearness(other, one)) == (steps, steps)


@pytest.mark.parametrize(
    ("lost", "spares", "chosen"),
    [
        ("b1.r1", ("s1@b2.r1", "s2@b1.r2", "s3@b1.r1"), "s3"),  # the same rack
        ("b1.r1", ("s1@b2.r1", "s2@b1.r2"), "s2"),  # else the same block
        ("b1.r1", ("s1@b2.r1", "s2@b3.r1"), "s1"),  # else the first
        ("", ("s1@b2.r1", "s2@b1.r1"), "s1"),  # not known where it was
        ("b1.r1", ("s1", "s2@b1.r9"), "s2"),  # a spare of an unknown place is near to nobody
    ],
)
def test_the_nearest_spare_takes_the_place_of_a_lost_node(lost: str, spares: tuple[str, ...], chosen: str):
    survivors, (gone,) = crew("n0@b1.r1", "n1@b2.r2"), crew(f"n2@{lost}")
    others = [
        entry(name, number + 9, domain) for number, (name, _, domain) in enumerate(s.partition("@") for s in spares)
    ]
    before = frozenset(NodeId(name) for name in ("n0", "n1", "n2"))
    plan = plan_round(spec(min_nodes=3, max_nodes=9), [*survivors, *others], before, [gone])
    assert names(plan) == ["n0", "n1", chosen]


def test_each_of_several_lost_nodes_gets_its_own_nearest_spare():
    survivors = crew("n0@b0")
    gone = [entry("n1", 1, "b1"), entry("n2", 2, "b2")]
    spares = [entry("s1", 7, "b3"), entry("s2", 8, "b2"), entry("s3", 9, "b1")]
    before = frozenset(NodeId(name) for name in ("n0", "n1", "n2"))
    plan = plan_round(spec(min_nodes=3, max_nodes=9), [*survivors, *spares], before, gone)
    assert names(plan) == ["n0", "s2", "s3"]


def test_within_a_segment_the_spare_of_the_same_domain_fills_in():
    nodes = crew("n0@b1.r1", "n2@b1.r1", "s1@b2.r1", "s2@b2.r1")
    before = frozenset(NodeId(name) for name in ("n0", "n1"))
    plan = plan_round(spec(min_nodes=2, max_nodes=9, segment=2), nodes, before, [entry("n1", 1, "b1.r1")])
    assert names(plan) == ["n0", "n2"]


def test_a_lost_segment_is_replaced_by_the_nearest_whole_one():
    nodes = crew("n0@b1.r1", "s0@b2.r1", "s1@b2.r1", "s2@b1.r2", "s3@b1.r2")
    before = frozenset(NodeId(name) for name in ("n0", "n1"))
    plan = plan_round(spec(min_nodes=2, max_nodes=9, segment=2), nodes, before, [entry("n1", 1, "b1.r1")])
    assert names(plan) == ["s2", "s3"]
