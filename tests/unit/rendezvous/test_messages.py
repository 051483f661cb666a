"""How many messages a round costs: the server meets everybody, so nobody meets everybody else."""

from __future__ import annotations

from collections import Counter

import pytest

from resurge_rendezvous.core.actions import SendDesired
from resurge_rendezvous.core.model import Down, Run
from tests.unit.rendezvous.desk import Desk, spec


class Counting(Desk):
    """Counts the goals that are sent, by node and kind."""

    def __init__(self, nodes: int):
        self.sent: Counter = Counter()
        super().__init__(spec(min_nodes=nodes, max_nodes=nodes), check=False)

    def _take(self, action):
        if isinstance(action, SendDesired):
            self.sent[action.node, type(action.desired.goal)] += 1
        super()._take(action)


@pytest.mark.users_row(31)
@pytest.mark.users_row(50)
@pytest.mark.users_row(56)
def test_a_round_costs_each_node_one_order_whatever_the_size():
    names = [f"n{number}" for number in range(64)]
    d = Counting(len(names))
    d.join(*names)
    assert d.stage == "Running" and {node for node, kind in d.sent if kind is Run} == set(names)
    assert max(d.sent.values()) == 1
    d.proven(*names)
    d.sent.clear()
    d.crash("n63")
    assert d.sent == Counter({(name, Down): 1 for name in names}), "all are told in the step that hears of the fault"
