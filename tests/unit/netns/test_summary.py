"""The last line of `make netns`: which figure came nearest to its bound, and what failed."""

from tests.netns.__main__ import Told


def test_the_worst_figure_is_the_one_nearest_to_its_bound():
    told = Told(figures={"link_down": {"node_lost_s": 6.0, "resumed_s": 9.0}, "delay": {"recovered_s": 3.0}})
    assert told.worst() == {"name": "link_down.node_lost_s", "figure": 6.0, "bound": 8.0}


def test_without_figures_there_is_no_worst():
    assert Told().worst() is None
