"""The verbs that are rude to the control plane: rendezvous, its journal, the policy, and the way to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.sim.service import PolicyMood

if TYPE_CHECKING:
    from tests.sim.process import SimProcess
    from tests.sim.relay import Relay
    from tests.sim.world import World

HARMLESS_S = 0.5
"""A launcher or relay that stands still, or a relay that cannot be reached, for so long must not be noticed."""
SUPERVISOR_WAIT_S = 1.0


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
        if self.service.alive:
            return
        if self.disk_is_full and self.chance.random() < 0.5:  # at times it fails as early as at its start
            self.start_service_again()
        else:
            self.service.start()

    def start_service_again(self: World) -> None:
        """Its supervisor waits a moment and starts it."""
        self.timeline.after(SUPERVISOR_WAIT_S, self._revive_service)

    def fill_disk(self: World, for_s: float, at_s: float | None = None) -> None:
        """The journal's disk is full: who must write to it, ends."""

        def act() -> None:
            self.log("rdzv", f"has a full disk for {for_s:.1f} s")
            self.disk_is_full = True
            self.timeline.after(for_s, lambda: setattr(self, "disk_is_full", False))

        self.at(at_s, act)

    def jump_service_clock(self: World, by_s: float, at_s: float | None = None) -> None:
        """Somebody sets the wall clock of the control plane's machine."""

        def act() -> None:
            clock = self.service.clock
            self.log("rdzv", f"has its clock set by {by_s:+.1f} s")
            self.service.clock = replace(clock, wall_skew_s=clock.wall_skew_s + by_s)

        self.at(at_s, act)

    def pause_service(self: World, for_s: float, at_s: float | None = None) -> None:
        """SIGSTOP of the control plane."""

        def act() -> None:
            if not self.service.alive or self.service.paused:
                return
            self.log("rdzv", f"stands still for {for_s:.1f} s")
            self.service.pause(for_s)
            until_s = self.now_s + for_s
            for stream in self.net.open_streams():
                if stream.server is self.service:
                    self.net.watch_client(stream, partial(self._still_paused, self.service, until_s))

        self.at(at_s, act)

    def slow_link(self: World, node: str, slowest_s: float, at_s: float | None = None) -> None:
        """Every message of a node is late by up to so much, until this is said again."""

        def act() -> None:
            for link in self.net.links_of(node):
                link.slow_s = slowest_s

        self.at(at_s, act)

    def set_policy(self: World, at_s: float | None = None, **mood: Any) -> None:
        """The restart policy answers from now on in this way; see PolicyMood for the words."""
        self.at(at_s, lambda: setattr(self.service, "policy", PolicyMood(**mood)))

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

    def _still_paused(self: World, process: SimProcess | Relay, until_s: float) -> bool:
        return process.alive and process.paused and self.now_s < until_s

    # ------------------------------------------------------------------------------------------------------ relays

    def kill_relay(self: World, relay: str, at_s: float | None = None, *, back_after_s: float | None = None) -> None:
        """SIGKILL of a relay; back after a while, or when the world heals."""
        self.at(at_s, lambda: self._end_relay(self.relays[relay], back_after_s, self.relays[relay].kill, "is killed"))

    def power_off_relay(
        self: World, relay: str, at_s: float | None = None, *, back_after_s: float | None = None
    ) -> None:
        """A relay's machine goes without a word."""

        def act() -> None:
            self.faulted = True
            self._end_relay(self.relays[relay], back_after_s, self.relays[relay].vanish, "loses power")

        self.at(at_s, act)

    def _end_relay(self: World, relay: Relay, back_after_s: float | None, how: Callable[[], None], what: str) -> None:
        if relay.alive:
            for launcher in self.launchers():
                if launcher.line.goes_through(relay.name) and any(
                    link.slow_s > 0 for link in self.net.links_of(launcher.node)
                ):
                    self.slow_to_turn.add(launcher.node)
            self.log(relay.name, what)
            how()
            if back_after_s is not None:
                self.timeline.after(back_after_s, lambda: None if relay.alive else relay.start())

    def pause_relay(self: World, relay: str, for_s: float, at_s: float | None = None) -> None:
        """SIGSTOP of a relay."""

        def act() -> None:
            one = self.relays[relay]
            if not one.alive or one.paused:
                return
            self.faulted |= for_s > HARMLESS_S
            self.log(relay, f"stands still for {for_s:.1f} s")
            one.pause(for_s)
            still = partial(self._still_paused, one, self.now_s + for_s)
            for stream in self.net.open_streams():
                if stream.server is one:
                    self.net.watch_client(stream, still)
                elif stream.client is one:
                    self.net.watch_server(stream, still)

        self.at(at_s, act)

    def cut_relay(
        self: World,
        relay: str,
        for_s: float,
        at_s: float | None = None,
        *,
        above: bool = True,
        up: bool = True,
        down: bool = True,
    ) -> None:
        """Nothing gets through between a relay and the root (`above`) or its launchers, one way or both."""

        def act() -> None:
            name = self.relays[relay].way_up if above else relay
            self.faulted |= for_s > HARMLESS_S
            side = "above" if above else "below"
            self.log(relay, f"is cut off {side} ({'up ' if up else ''}{'down ' if down else ''}) for {for_s:.1f} s")
            self.net.block(name, up=up, down=down)
            self.timeline.after(for_s, lambda: self.net.heal(name))

        self.at(at_s, act)
