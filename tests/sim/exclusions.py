"""S4, judged by what the world knows of its machines: who is out, and how many verdicts may put out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core.identity import Identity

if TYPE_CHECKING:
    from tests.sim.world import World


class Exclusions:
    """Remembers who is out; each method tells what is broken, in words, or nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machines: dict[str, str] = {}
        """Machines that are out, each with the node's name when it was excluded."""
        self.marks: dict[str, set[str]] = {}
        """What each of these was known by since. A container of another host name and another boot shares nothing with
        them but a machine id, which disk images copy: nobody could tell."""
        self.automatic: list[float] = []
        """When verdicts excluded machines."""

    def fact(self, fact: Any, live: rm.Job) -> str:
        """Something became durable."""
        match fact:
            case rm.NodeAdmitted(entry):
                self._seen(entry.identity)
            case rm.NodesAdmitted(entries):
                for entry in entries:
                    self._seen(entry.identity)
            case rm.NodeExcluded():
                return self._excluded(fact, live)
            case rm.NodeReadmitted():
                self._readmitted(fact, live)
            case _:
                pass
        return ""

    def formed(self, formation: rm.Formation) -> str:
        inside = [place.node for place in formation.assignments if self._is_out(place)]
        if not inside:
            return ""
        return f"nodes {sorted(inside)} on excluded machines are in generation {formation.generation}"

    def _seen(self, identity: Identity) -> None:
        marks = self.marks.get(identity.machine_id, set())
        if marks & _marks(identity.node, identity.host, identity.boot_id):
            marks |= _marks(identity.node, identity.host, identity.boot_id)

    def _excluded(self, fact: rm.NodeExcluded, live: rm.Job) -> str:
        entry = live.nodes.get(fact.node)
        assert entry is not None
        out = fact.identity or entry.identity
        self.machines[out.machine_id] = fact.node
        self.marks.setdefault(out.machine_id, set()).update(_marks(out.node, out.host, out.boot_id))
        there = [other.identity for other in live.nodes if other.machine_id == out.machine_id]
        for _ in there:
            for identity in there:
                self._seen(identity)
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

    def _readmitted(self, fact: rm.NodeReadmitted, live: rm.Job) -> None:
        if fact.identity is not None:
            self._free({fact.identity.machine_id})
            return
        entry = live.nodes.get(fact.node)
        assert entry is not None
        self._free({machine for machine, name in self.machines.items() if name == fact.node} | {entry.machine_id})

    def _free(self, machines: set[str]) -> None:
        for machine in machines:
            self.machines.pop(machine, None)
            self.marks.pop(machine, None)

    def _is_out(self, place: rm.Assignment) -> bool:
        """By the machine in truth, whatever rendezvous believes."""
        launcher = next(one for one in self.world.known(place.node) if one.incarnation == place.incarnation)
        marks = self.marks.get(launcher.machine_id, set())
        return bool(marks & _marks(launcher.node, launcher.host, launcher.boot))


def _marks(node: str, host: str, boot: str) -> set[str]:
    return {f"node {node}", f"host {host}", f"boot {boot}"}
