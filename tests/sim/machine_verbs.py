"""Verbs about the machines under the nodes: power, other hardware under old names, and old hardware under new ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.world import World


class MachineVerbs:
    """The verbs of a world that machines obey."""

    def power_off(self: World, node: str, at_s: float | None = None, back_after_s: float | None = None) -> None:
        """A machine goes without a word, with every node on it."""

        def act() -> None:
            self._lose_power(node, back_after_s)

        self.at(at_s, act)

    def _lose_power(self: World, node: str, back_after_s: float | None) -> None:
        machine = self.machine_of(node)
        self._boots[machine] = self._boots.get(machine, 0) + 1
        for one in [other for other in self._live if self.machine_of(other) == machine]:
            self._take_down(one, back_after_s, lambda launcher: launcher.vanish(), "loses power")

    def replace_machine(self: World, node: str, at_s: float | None = None, back_after_s: float = 3.0) -> None:
        """A machine goes without a word, and another comes under the same names."""

        def act() -> None:
            self._lose_power(node, None)
            self.machines[node] = f"{self.machine_of(node)}+"
            self.after(back_after_s, partial(self._start_anew, node), coming=True)

        self.at(at_s, act)

    def rename(self: World, node: str, name: str, at_s: float | None = None) -> None:
        """A node's launcher dies, and one of another name starts on its machine."""

        def act() -> None:
            self.kill_launcher(node)
            self.machines[name] = self.machine_of(node)
            self._start_anew(name)

        self.at(at_s, act)
