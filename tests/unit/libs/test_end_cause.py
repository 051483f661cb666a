"""The causes of ends: what scripts read, and the reasons they come from."""

from __future__ import annotations

import re
from pathlib import Path

from resurge_libs.core.end_cause import OF_REASON, EndCause, end_cause_named, end_cause_of
from resurge_libs.core.reasons import Reason

REPO = Path(__file__).resolve().parents[3]


def test_every_cause_but_unknown_has_a_reason() -> None:
    assert set(OF_REASON.values()) == set(EndCause) - {EndCause.UNKNOWN}


def test_a_reason_that_ends_nothing_has_no_cause() -> None:
    assert end_cause_of(Reason.BEAT) is EndCause.UNKNOWN


def test_a_name_of_another_release_is_unknown_and_no_error() -> None:
    assert end_cause_named("budget") is EndCause.BUDGET
    assert end_cause_named("a_cause_of_tomorrow") is EndCause.UNKNOWN


def test_every_end_that_rendezvous_decides_has_a_cause() -> None:
    """Each reason named in a call of terminate, wherever it stands in the core."""
    core = REPO / "services/rendezvous/src/resurge_rendezvous/core"
    calls = [call for file in core.glob("*.py") for call in re.findall(r"terminate\(d, .*", file.read_text())]
    named = {Reason[name] for call in calls for name in re.findall(r"Reason\.(\w+)", call)}
    assert len(named) >= 3, calls
    assert {reason for reason in named if end_cause_of(reason) is EndCause.UNKNOWN} == set()
