"""Wrong input of a host's command line, said so that the next try can be right. Decides nothing."""

from __future__ import annotations

from resurge_libs.config.settings import UsageProblem


class UsageError(UsageProblem):
    """One field that is wrong, why, and what would be right; nothing was started. The process exits 2."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{field}: {problem}; {remedy}")
        self.field, self.problem, self.remedy = field, problem, remedy
