"""S4, judged by what the world knows of its machines: who is out, and how many verdicts may put out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resurge_rendezvous.core import model as rm

if TYPE_CHECKING:
    from tests.sim.world import World


class Exclusions:
    """Remembers who is out; each method tells what is broken, in words, or nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machines: dict[str, str] = {}
        """Machines that are out, each with the node's name when it was excluded."""
        self.automatic: list[float] = []
        """When verdicts excluded machines."""

    def formed(self, formation: rm.Formation) -> str:
        inside = [place.node for place in formation.assignments if self._machine_of(place) in self.machines]
        if not inside:
            return ""
        return f"nodes {sorted(inside)} on excluded machines are in generation {formation.generation}"

    def excluded(self, fact: rm.NodeExcluded, live: rm.Job) -> str:
        entry = live.nodes.get(fact.node)
        assert entry is not None
        self.machines[(fact.identity or entry.identity).machine_id] = fact.node
        if not fact.exclusion.is_automatic:
            return ""
        setup, at = self.world.setup, float(fact.exclusion.at)
        within = [one for one in self.automatic if one >= at - setup.exclusion_window_s]
        known = max(setup.min_nodes or setup.nodes, sum(1 for _ in live.nodes))
        most = max(1, int(setup.max_excluded_share * known)) if setup.max_excluded_share > 0 else 0
        self.automatic.append(at)
        if len(within) < most:
            return ""
        return f"a verdict excludes {fact.node}, after {len(within)} machines of at most {most}"

    def readmitted(self, fact: rm.NodeReadmitted, live: rm.Job) -> None:
        if fact.identity is not None:
            self.machines.pop(fact.identity.machine_id, None)
            return
        entry = live.nodes.get(fact.node)
        assert entry is not None
        free = {machine for machine, name in self.machines.items() if name == fact.node} | {entry.machine_id}
        self.machines = {machine: name for machine, name in self.machines.items() if machine not in free}

    def _machine_of(self, place: rm.Assignment) -> str:
        """The machine in truth, whatever rendezvous believes."""
        return next(one.machine_id for one in self.world.known(place.node) if one.incarnation == place.incarnation)
