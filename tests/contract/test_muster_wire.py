"""What launchers and rendezvous say of ranks that restart in place comes over the wire as it was, or is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_api.rendezvous.v1 import attach_pb2, muster_pb2
from resurge_launcher import wire_musters as launchers
from resurge_launcher.core import muster_state as said
from resurge_libs.core.ids import Rank
from resurge_libs.core.refusals import BadRequest
from resurge_libs.rpc.validation import Violations
from resurge_rendezvous import wire_musters as services
from resurge_rendezvous.core import muster_values as heard

RANKS = (Rank(2), Rank(3))
REPORT = said.MusterReport(
    said.MusterOrder(4, "start", 1, (Rank(0), *RANKS)),
    2,
    False,
    False,
    RANKS[:1],
    RANKS,
    1,
    3,
    2,
    1.5,
    "rank 3: boom",
    RANKS[1:],
    is_anew=True,
    can_renew=True,
)


def read(report: muster_pb2.MusterReport) -> heard.MusterReport | None:
    wrong = Violations()
    found = services.muster_of(attach_pb2.Observed(muster=report), wrong, "observed.muster")
    wrong.check()
    return found


def test_a_report_arrives_as_it_was_made():
    acted = heard.MusterOrder(4, heard.MusterKind.START, 1, (Rank(0), *RANKS))
    expected = heard.MusterReport(acted, 2, False, False, RANKS[:1], RANKS, 1, 3, 2, 1.5, "rank 3: boom", RANKS[1:])
    expected = replace(expected, is_anew=True, can_renew=True)
    assert read(launchers.report_to_proto(REPORT)) == expected


@pytest.mark.parametrize("kind", heard.MusterKind)
def test_an_order_arrives_as_it_was_given(kind: heard.MusterKind):
    for is_anew in (False, True):
        order = services.order_to_proto(heard.MusterOrder(5, kind, 1, RANKS, "why", is_anew))
        assert launchers.order_of(order) == said.MusterOrder(5, kind.value, 1, RANKS, "why", is_anew)


def test_a_launcher_without_such_ranks_reports_nothing():
    assert services.muster_of(attach_pb2.Observed(), Violations(), "observed.muster") is None


@pytest.mark.parametrize(
    ("field", "report"),
    [
        ("joined", muster_pb2.MusterReport(joined=[20_000_000])),
        ("living", muster_pb2.MusterReport(living=range(services.MAX_LOCAL_RANKS + 1))),
        ("evicted", muster_pb2.MusterReport(evicted=[20_000_000])),
        ("acted.kind", muster_pb2.MusterReport(acted=muster_pb2.MusterOrder(kind=77))),  # type: ignore[arg-type]
        ("iteration", muster_pb2.MusterReport(iteration=2**60)),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(field: str, report: muster_pb2.MusterReport):
    with pytest.raises(BadRequest) as refused:
        read(report)
    assert any(one.field == f"observed.muster.{field}" for one in refused.value.violations)
