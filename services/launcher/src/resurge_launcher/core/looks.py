"""The look at workers that hang, as it is asked for and answered. Values; see hangs.py."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_launcher.core.findings import Finding
from resurge_libs.core.ids import Generation


@dataclass(frozen=True, slots=True)
class Inspected:
    """The generation's workers were looked at; those that could be. Their pages were read right before."""

    generation: Generation
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Inspect:
    """Look how the generation's workers stand; answer PagesRead and Inspected within the limit."""

    generation: Generation
    with_stacks: bool
    limit_s: float
    is_brief: bool = False
    """What hangs is clear already: the main threads are not watched for whether they run."""
