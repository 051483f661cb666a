"""What launchers say together has the outcome that it has one by one, in states that seeded worlds get into."""

from __future__ import annotations

from typing import Any

import pytest

from resurge_rendezvous.core.crowds import may_be_one_of_many, together
from resurge_rendezvous.core.model import NodeAdmitted, NodesAdmitted, PublishJob
from resurge_rendezvous.core.step import RendezvousMachine
from tests.sim.run import run_seed

SEEDS = 60
"""The first worlds of all: nobody else plays them, so that here they must also break no invariant."""
CHUNK = 12
MANY = 7
"""Messages in one crowd."""


class Crowds:
    """Steps as the machine does, and compares every so many messages in a row with the same in one step."""

    def __init__(self) -> None:
        self.step = RendezvousMachine.step
        self.waiting: list[tuple[Any, Any]] = []
        self.compared = self.with_facts = 0

    def stepped(self, machine: RendezvousMachine, state: Any, event: Any, now: Any) -> Any:
        if not may_be_one_of_many(event):
            self.waiting.clear()
            return self.step(machine, state, event, now)
        self.waiting.append((state, event))
        if len(self.waiting) == MANY:
            self.compare(machine, now)
            self.waiting.clear()
        return self.step(machine, state, event, now)

    def compare(self, machine: RendezvousMachine, now: Any) -> None:
        state = one_by_one = self.waiting[0][0]
        events = [event for _, event in self.waiting]
        actions: list[Any] = []
        facts: list[Any] = []
        for event in events:
            step = self.step(machine, one_by_one, event, now)
            one_by_one = step.state
            actions += step.actions
            facts += step.facts
        crowd = self.step(machine, state, together(events), now)
        assert crowd.state == one_by_one
        assert plain(crowd.actions) == plain(actions)
        assert plain_facts(crowd.facts) == facts
        folded = state.durable
        for fact in crowd.facts:
            folded = machine.evolve(folded, fact)
        assert folded == crowd.state.durable
        self.compared += 1
        self.with_facts += bool(facts)


def plain(actions: Any) -> list[str]:
    """In words, as refusals have no equals, and without the pictures for observers, of which a crowd makes one."""
    return [repr(action) for action in actions if not isinstance(action, PublishJob)]


def plain_facts(facts: Any) -> list[Any]:
    """One fact for each node."""
    return [
        one
        for fact in facts
        for one in (map(NodeAdmitted, fact.entries) if isinstance(fact, NodesAdmitted) else (fact,))
    ]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_crowd_is_decided_as_its_members_one_by_one(monkeypatch, first):
    crowds = Crowds()
    monkeypatch.setattr(RendezvousMachine, "step", lambda *given: crowds.stepped(*given))
    for seed in range(first, first + CHUNK):
        crowds.waiting.clear()
        outcome = run_seed(seed)
        assert not outcome.failure, f"seed {seed}: {outcome.failure}\n{outcome.tail}"
    assert crowds.compared > 100 and crowds.with_facts > 10, "the seeds tell too little"
