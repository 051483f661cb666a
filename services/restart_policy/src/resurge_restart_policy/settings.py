"""The policy's settings: when a crash loop waits, when a machine is to blame. Decides nothing; the host reads them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le

from resurge_libs.config.settings import ServiceSettings, UsageProblem
from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.offenders import OffenderRules
from resurge_libs.core.verdict import VerdictRules


class PolicySettings(ServiceSettings):
    """Backoff of fast crash loops and repeat offenders; every verdict depends on these and on the incident alone."""

    SECTION: ClassVar[str] = "policy"

    fast_failure_s: Annotated[float, Gt(0), "A failure this soon after the one before it continues a crash loop."] = (
        30.0
    )
    free_failures: Annotated[int, Ge(0), "So many fast failures in a row still restart at once."] = 1
    first_delay_s: Annotated[float, Ge(0), "The first wait of a crash loop."] = 0.5
    delay_factor: Annotated[float, Ge(1), "By what the wait grows each time."] = 2.0
    max_delay_s: Annotated[float, Ge(0), "The longest wait."] = 30.0
    jitter_share: Annotated[float, Ge(0), Le(1), "A wait is shortened by up to this share of itself."] = 0.2
    offender_faults: Annotated[int, Ge(0), "So many faults that began on one machine exclude it; 0: never."] = 3
    offender_cycles: Annotated[int, Gt(0), "Cycles within which they count, the present one included."] = 10

    def rules(self) -> VerdictRules:
        """The settings as the rules take them. Raises UsageProblem when two of them contradict each other."""
        try:
            return VerdictRules(
                BackoffRules(
                    fast_failure_s=self.fast_failure_s,
                    free_failures=self.free_failures,
                    first_delay_s=self.first_delay_s,
                    factor=self.delay_factor,
                    max_delay_s=self.max_delay_s,
                    jitter_share=self.jitter_share,
                ),
                OffenderRules(self.offender_faults, self.offender_cycles),
            )
        except ValueError as error:
            raise UsageProblem(f"policy: {error}") from None
