"""The settings that the rules read, and the bounds of what they remember. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.verdict import VerdictRules
from resurge_rendezvous.core.values import JobSpec

KEY_BYTES_MAX = 1024
VALUE_BYTES_MAX = 1024 * 1024
KEYS_MAX = 10_000
SHUTDOWN_KEY = "resurge/shutdown"
"""The store's own key: the cause of the attempt's end, from its end to the next attempt. Nobody else writes it."""
STORE_BYTES_MAX = 64 * 1024 * 1024
"""Of all values together: they are held in memory, and stand whole in every snapshot."""
NODE_SPANS_MAX = 64
"""Spans that one node may contribute to one recovery."""
RANK_SPANS_MAX = 256
"""Ranks that get spans of their own in a record: the slowest, which bound the recovery."""
SUSPECTS_MAX = 16
"""Ranks that a start timeout names one by one."""

JOBS_LIMITS_MAX = 64
"""Limits of jobs that are kept ready."""


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What the machine is told at its start; a job's own lease and grace go before the service's."""

    limits: TimeLimits = field(default_factory=TimeLimits)
    verdict_rules: VerdictRules = field(default_factory=VerdictRules)
    _known: dict[tuple[float, float], TimeLimits] = field(default_factory=dict, compare=False, repr=False)
    """The limits of jobs, by their own lease and grace: they are asked for with every event."""

    def limits_for(self, spec: JobSpec | None) -> TimeLimits:
        """The time limits that hold for a job. Raises WrongOrder when its lease or grace contradicts the others."""
        if spec is None or not (spec.lease_ttl_s or spec.fault_grace_s):
            return self.limits
        asked = (spec.lease_ttl_s, spec.fault_grace_s)
        known = self._known.get(asked)
        if known is None:
            lease_ttl_s, fault_grace_s = asked
            known = self.limits.changed(
                lease_ttl_s=lease_ttl_s or self.limits.lease_ttl_s,
                fault_grace_s=fault_grace_s or self.limits.fault_grace_s,
            )
            if len(self._known) >= JOBS_LIMITS_MAX:
                self._known.clear()
            self._known[asked] = known
        return known


DIRECT_MAX = 2_000
"""So many launchers with a stream of their own beat at the pace of the job's own lease; with more, leases grow."""


def granted_lease_s(limits: TimeLimits, direct: int) -> float:
    """The lease that a beat earns while so many launchers beat on streams of their own: their beats together cost no
    more than those of `DIRECT_MAX`."""
    return limits.lease_ttl_s * max(1.0, direct / DIRECT_MAX)


def longest_lease_s(limits: TimeLimits, spec: JobSpec | None) -> float:
    """The longest lease that this job's launchers can hold, whoever granted it."""
    return granted_lease_s(limits, spec.max_nodes if spec is not None else 0)


def agreement_limit_s(limits: TimeLimits, grace_s: float) -> float:
    """How long nodes are waited for that have not said where their ranks could stop."""
    return min(limits.lease_ttl_s, grace_s / 4)


def teardown_patience_s(limits: TimeLimits) -> float:
    """How long a node that beats may take to confirm its teardown: the longest ladder, the wait after KILL, a lease."""
    saving_s = limits.checkpoint_grace_s + limits.fault_grace_s
    return max(saving_s, limits.drain_grace_s) + limits.teardown_limit_s + limits.lease_ttl_s
