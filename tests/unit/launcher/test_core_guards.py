"""Guards that no other test would miss: each test here fails when one condition of a rule is taken out."""

from __future__ import annotations

from resurge_launcher.core import control as controls
from resurge_launcher.core import happenings as h
from resurge_launcher.core.model import Control
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Reason
from tests.unit.launcher.core_world import Node, down, of, run


def test_the_time_without_control_counts_from_its_first_loss():
    control = controls.lost(Control(lost_at=None), "refused", Instant(10.0), 1.0)
    assert controls.lost(control, "refused again", Instant(20.0), 1.0).lost_at == 10.0
    assert controls.lost(controls.found(control), "later", Instant(20.0), 1.0).lost_at == 20.0


def test_an_order_that_was_overtaken_by_a_newer_one_is_not_obeyed():
    node = Node().running()
    node.want(run(1))
    node.feed(h.DesiredReceived(node.revision - 1, down(1), Generation(1)))
    assert node.reason.code is Reason.LATE_EVENT_IGNORED
    assert node.phase == "Running"


def test_a_generation_that_is_fenced_already_is_not_started():
    node = Node().attached()
    fresh = node.want(run(1), current=2)
    assert node.reason.code is Reason.LATE_EVENT_IGNORED
    assert not of(fresh + node.move(1.0), h.SpawnWorkers)
