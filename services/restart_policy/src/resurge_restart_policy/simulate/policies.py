"""The policies that are compared: whether the node that failed is kept out until it was repaired. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from resurge_restart_policy.simulate.trace import DAY_S


@dataclass(frozen=True, slots=True)
class Offence:
    """A node brought the job down; what is known of it at that moment."""

    node: str
    at_s: float
    is_hardware: bool
    earlier_s: Sequence[float]
    """When it did so before, oldest first."""


Policy = Callable[[Offence], bool]
"""Whether to exclude the node."""


def in_place(offence: Offence) -> bool:
    """Restart on the same nodes, whatever happened."""
    return False


def exclude_at_once(offence: Offence) -> bool:
    """One fault and the node is out."""
    return True


def exclude_hardware(offence: Offence) -> bool:
    """Out at the first fault of its hardware, in at any other."""
    return offence.is_hardware


def exclude_repeaters(offence: Offence, faults: int = 3, within_s: float = DAY_S) -> bool:
    """Out with the third fault within a day."""
    recent = [at for at in offence.earlier_s if offence.at_s - at <= within_s]
    return len(recent) + 1 >= faults


def hardware_or_repeaters(offence: Offence) -> bool:
    """Out for hardware at once, for anything else when it repeats."""
    return exclude_hardware(offence) or exclude_repeaters(offence)


POLICIES: Mapping[str, Policy] = MappingProxyType({
    "in-place": in_place,
    "exclude-at-once": exclude_at_once,
    "exclude-hardware": exclude_hardware,
    "exclude-repeaters": exclude_repeaters,
    "hardware-or-repeaters": hardware_or_repeaters,
})  # fmt: skip
