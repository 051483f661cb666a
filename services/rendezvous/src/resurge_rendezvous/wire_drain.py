"""What launchers say of the end of their workers by agreement: proto to core values, checked. Decides nothing."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import drain_pb2
from resurge_libs.rpc.validation import Violations
from resurge_rendezvous.core.values import Draining

MAX_SIGNAL = 64
MAX_STEP = 2**53
MAX_GRACE_S = 86_400
NO_DRAINING = Draining()
"""What a launcher observes that says nothing of it."""


def draining_of(draining: drain_pb2.Draining, wrong: Violations, at: str) -> Draining:
    """The value; what does not fit is added to `wrong`."""
    signal = draining.notice_signal if draining.HasField("notice_signal") else None
    offer = draining.offer if draining.HasField("offer") else None
    held = draining.held if draining.HasField("held") else None
    wrong.between(f"{at}.notice_signal", signal or 0, 0, MAX_SIGNAL)
    wrong.between(f"{at}.offer", offer or 0, 0, MAX_STEP)
    wrong.between(f"{at}.held", held or 0, 0, MAX_STEP)
    wrong.between(f"{at}.grace", draining.grace.seconds, 0, MAX_GRACE_S)
    grace_s = draining.grace.seconds + draining.grace.nanos / 1e9
    return Draining(signal, grace_s, draining.asks, offer, held, draining.told)
