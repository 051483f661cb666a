"""Beats without messages, for large worlds: where nothing on a way can go wrong, only the last beat has to be taken.

A beat that is sent, arrives and is answered, and is followed by another before anybody looks at a lease, leaves no
trace: the next one sets all that it has set. So on a calm way a beat is only noted. Rendezvous takes the noted ones,
the last of each launcher and with the time of its own sending, before anything else happens there; a launcher takes
the answer before anything else happens at it. Beats within 50 ms are taken together, at the time of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resurge_rendezvous.core import model as rm

if TYPE_CHECKING:
    from tests.sim.control_line import ControlLine
    from tests.sim.service import Service

TOGETHER_S = 0.05


class CalmBeats:
    """The beats that rendezvous has heard and not yet taken."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._noted: dict[ControlLine, tuple[str, float]] = {}
        """By launcher, in the order of sending: the name of its way, and when it was sent."""

    def expect(self, line: ControlLine, way: str) -> None:
        """A beat was sent now."""
        self._noted.pop(line, None)
        self._noted[line] = (way, self._service.timeline.now_s)

    def forget(self) -> None:
        """Rendezvous is dead, and with it what it had heard."""
        self._noted.clear()

    def take(self, line: ControlLine) -> None:
        """Take one launcher's beat."""
        noted = self._noted.pop(line, None)
        if noted is not None:
            self._step([(line, *noted)])

    def take_all(self) -> None:
        """Take them all."""
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        together: list[tuple[ControlLine, str, float]] = []
        for line, (way, sent_s) in noted.items():
            if together and sent_s - together[0][2] > TOGETHER_S:
                self._step(together)
                together = []
            together.append((line, way, sent_s))
        self._step(together)

    def _step(self, together: list[tuple[ControlLine, str, float]]) -> None:
        service, at_s = self._service, together[0][2]
        lines = {way: line for line, way, _ in together}
        stamp = service.stamp(at_s)
        beats = [beat for line, way, s in together if (beat := service.beat_of(way, line.calm_beat(s), stamp))]
        service.timeline.steps += 1
        step = service.machine.step(service.state, rm.BeatsReceived(stamp, tuple(beats)), service.clock.instant(at_s))
        assert not step.facts, "beats decide nothing"
        service.state = step.state
        for action in step.actions:
            assert isinstance(action, rm.AnswerBeat), f"beats are answered, and nothing else happens: {action!r}"
            lines[action.stream].granted_s = action.lease_ttl_s
