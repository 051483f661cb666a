"""The verbs that are rude to the control plane: rendezvous, its journal, the policy, and the way to them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.sim.process import SimProcess
from tests.sim.service import PolicyMood

if TYPE_CHECKING:
    from tests.sim.world import World


class ControlVerbs:
    """Those of a world's verbs that concern the control plane."""

    def kill_service(self: World, at_s: float | None = None, *, down_s: float = 0.5) -> None:
        """SIGKILL of the control plane; it is started again."""

        def act() -> None:
            if self.service.alive:
                self.log("rdzv", f"is killed, back in {down_s:.1f} s")
                self.service.kill()
                self.timeline.after(down_s, self._revive_service)

        self.at(at_s, act)

    def _revive_service(self: World) -> None:
        if not self.service.alive:
            self.service.start()

    def pause_service(self: World, for_s: float, at_s: float | None = None) -> None:
        """SIGSTOP of the control plane."""

        def act() -> None:
            if not self.service.alive or self.service.paused:
                return
            self.log("rdzv", f"stands still for {for_s:.1f} s")
            self.service.pause(for_s)
            until_s = self.now_s + for_s
            for stream in self.net.streams:
                self.net.watch_client(stream, partial(self._still_paused, self.service, until_s))

        self.at(at_s, act)

    def slow_link(self: World, node: str, slowest_s: float, at_s: float | None = None) -> None:
        """Every message of a node is late by up to so much, until this is said again."""
        self.at(at_s, lambda: setattr(self.net.link(node), "slow_s", slowest_s))

    def set_policy(
        self: World,
        at_s: float | None = None,
        *,
        dead: bool = False,
        mute: bool = False,
        slowest_s: float = 0.01,
        excludes: float = 0.0,
        stops: float = 0.0,
    ) -> None:
        """The restart policy answers from now on in this way; see PolicyMood."""
        mood = PolicyMood(dead, mute, slowest_s, excludes, stops)
        self.at(at_s, lambda: setattr(self.service, "policy", mood))

    def lose_journal(self: World, at_s: float | None = None, *, last: int | None = None, down_s: float = 0.5) -> None:
        """The control plane dies and its disk has forgotten the last entries, or everything."""

        def act() -> None:
            if self.service.alive:
                self.faulted = True
                self.log("rdzv", f"is killed and loses {'its journal' if last is None else f'{last} entries'}")
                self.service.kill()
                self.service.lose_journal(last)
                self.timeline.after(down_s, self._revive_service)

        self.at(at_s, act)

    def _still_paused(self: World, process: SimProcess, until_s: float) -> bool:
        return process.alive and process.paused and self.now_s < until_s
