"""Faults of one story, and which of them began it.

Most faults have a moment of their own. Of a launcher that closed its stream, or left, only an interval is known: a
service that had no time notices it late, and it happened somewhen before. A launcher never goes because a rank on
another node ended, while a rank may well end because a node is gone: so an end that may be a consequence, and that lies
within that interval, does not stand before the loss. What names a cause of its own (a SIGKILL, a fault of memory, a
freeze, a lack of memory, a broken device) keeps its moment. So does whatever stands beside a mere silence: nobody's
kernel said that this node is gone, so its peers find it by timeouts, long after it was last heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from signal import SIGABRT, SIGPIPE

from resurge_libs.core.fault_cause import FaultCause, cause_of
from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason, vagueness

FOLLOWS = frozenset({SIGABRT, SIGPIPE})
"""Signals by which a library ends its own process when a peer is gone."""
GOING = frozenset({Reason.STREAM_LOST, Reason.NODE_LEFT, Reason.NODE_RETURNED})
"""Ways of a launcher to go that its peers' ranks feel at once; of the last one its successor tells."""
OWN_TROUBLE = frozenset({FaultCause.OOM, FaultCause.HARDWARE})


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One claim about one worker or node; `at` is its first signal in the service's time."""

    node: NodeId
    because: Because
    at: Wall
    generation: Generation
    clock_error_s: float | None = None
    """How far `at` may be off; of a launcher that is gone, for how long before it may have been unseen."""
    rank: Rank | None = None
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = None
    cause: FaultCause = FaultCause.OTHER

    @property
    def trouble(self) -> FaultCause:
        """What kind of trouble it is."""
        return cause_of(self.because.code) if self.cause is FaultCause.OTHER else self.cause

    @property
    def may_follow(self) -> bool:
        """Whether it is the end of a rank that may be a consequence of another node's loss."""
        match self.because.code:
            case Reason.WORKER_EXIT | Reason.WORKER_CRASHED:
                return self.trouble not in OWN_TROUBLE
            case Reason.WORKER_SIGNAL:
                return self.signal in FOLLOWS and self.trouble not in OWN_TROUBLE
            case _:
                return False


def by_cause(faults: Iterable[FaultRecord]) -> list[FaultRecord]:
    """Faults of one story, what began it first: by their moments, but a mere silence after all that say what happened,
    and a lost launcher before the ends of ranks that may be of it."""
    known = list(faults)
    ends = [fault for fault in known if fault.may_follow]
    return sorted(known, key=lambda fault: _order(fault, ends))


def first_cause(faults: Iterable[FaultRecord]) -> FaultRecord:
    """What began a story. Raises IndexError for one without faults."""
    return by_cause(faults)[0]


def standing_before(losses: Iterable[FaultRecord], faults: Sequence[FaultRecord]) -> list[FaultRecord]:
    """Those losses that would stand before all of the faults, the first one first; none where there is no fault."""
    if not faults:
        return []
    ends = [fault for fault in faults if fault.may_follow]
    first = min(_order(fault, ends) for fault in faults)
    ordered = sorted(((_order(loss, ends), loss) for loss in losses), key=lambda one: one[0])
    return [loss for order, loss in ordered if order < first]


def _order(fault: FaultRecord, ends: list[FaultRecord]) -> tuple[int, Wall, bool, NodeId, int]:
    is_going = fault.because.code in GOING
    at = min((end.at for end in ends if _may_be_of(end, fault)), default=fault.at) if is_going else fault.at
    return vagueness(fault.because.code), at, not is_going, fault.node, -1 if fault.rank is None else fault.rank


def _may_be_of(end: FaultRecord, loss: FaultRecord) -> bool:
    """Whether a rank's end lies where the launcher of another node may have died already."""
    if end.node == loss.node or end.generation != loss.generation:
        return False
    return loss.at - (loss.clock_error_s or 0.0) <= end.at <= loss.at
