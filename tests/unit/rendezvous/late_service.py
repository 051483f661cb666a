"""A service that had no time, and what it is told when it has some again: steps for a desk."""

from __future__ import annotations

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import ExitRecord, NodePhase
from tests.unit.rendezvous.desk import Desk, started


def late(clock_known: bool = True, spec_=None) -> Desk:
    """Two nodes run, n2 is a spare; then the service has no time for two seconds."""
    d = started(Desk(spec_) if spec_ is not None else None, "n2")
    if clock_known:
        for node in ("n0", "n1", "n2"):
            d.beat(node)
    d.now += 2.0
    d.late_s = 2.0
    return d


def exits(d: Desk, at: float, **more) -> None:
    record = ExitRecord(Rank(0), 0, 1, Wall(at), **({"exit_code": 1} | more))
    d.tell("n0", NodePhase.TEARING_DOWN, 1, exits=(record,))


def recovered(d: Desk) -> None:
    """The service has time again, the loss is settled, and a round closes without the node."""
    d.late_s = 0.0
    if d.job.open_incident.verdict is None:
        d.verdict()
    d.wait(1.5, ("n0", "n2"))
    d.down("n0")
    d.wait(d.limits.lease_ttl_s + d.limits.lease_margin_s + d.limits.last_call_s, ("n0", "n2"))
    assert d.facts_of(f.RestartCharged)


def settled(d: Desk) -> tuple[str, Reason, FaultCause, str]:
    """Who was named first, why, what the restart was charged to, whose offence it is."""
    cause = d.job.open_incident.first_cause
    (charged,), (noted,) = d.facts_of(f.RestartCharged), d.facts_of(f.OffenceNoted)
    return cause.node, cause.because.code, charged.cause, noted.offence.identity.node
