"""One restart that was spent. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import IncidentId


@dataclass(frozen=True, slots=True)
class Charge:
    """One restart spent: each closed round of an incident, once."""

    incident: IncidentId
    round: int
    cause: FaultCause = FaultCause.OTHER
