"""Which place a sender tries: its own leaf first, and the log server itself only when no leaf takes its lines."""

from __future__ import annotations

from resurge_launcher.logs.route import LEAVES_S, OWN_LEAF_S, Route
from resurge_libs.rpc.endpoint import Endpoint

OWN, OTHER, ROOT = (Endpoint("logs", port) for port in (1, 2, 3))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def tried(route: Route, times: int = 6) -> set[Endpoint]:
    places = set()
    for _ in range(times):
        places.add(route.now())
        route.failed()
    return places


def test_without_leaves_there_is_one_place():
    assert tried(Route((), ROOT)) == {ROOT}


def test_more_places_are_tried_the_longer_none_answers_and_then_the_own_leaf_again():
    clock = Clock()
    route = Route((OWN, OTHER), ROOT, clock)
    assert tried(route) == {OWN}
    clock.now += OWN_LEAF_S
    assert tried(route) == {OWN, OTHER}
    clock.now += LEAVES_S - OWN_LEAF_S
    assert tried(route) == {OWN, OTHER, ROOT}
    route.answered()
    assert tried(route) == {OWN}


def test_leaves_alone_go_round():
    clock = Clock()
    route = Route((OWN, OTHER), None, clock)
    route.failed()
    clock.now += LEAVES_S
    assert tried(route) == {OWN, OTHER}
