"""What is said of fresh processes in the places of lost ranks comes over the wire as it was, or is refused."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.rendezvous.v1 import attach_pb2, muster_pb2
from resurge_launcher import wire_musters as launchers
from resurge_launcher.core import replacement_state as said
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest
from resurge_libs.rpc.validation import Violations
from resurge_rendezvous import wire_replacements as services
from resurge_rendezvous.core import replacement_values as heard

WHY = Because(Reason.WORKER_SIGNAL, "rank 3 was ended by SIGKILL")


def stamp(at: Instant) -> Timestamp:
    made = Timestamp()
    made.FromNanoseconds(round(at * 1e9))
    return made


def read(*told: muster_pb2.Replacement) -> tuple[heard.ObservedReplacement, ...]:
    wrong = Violations()
    found = services.replacements_of(attach_pb2.Observed(replacements=told), wrong, "observed")
    wrong.check()
    return found


@pytest.mark.parametrize("stage", said.ReplacementStage)
def test_one_arrives_as_it_was_told(stage: said.ReplacementStage):
    at = Instant(7.5) if stage in said.SETTLED else None
    one = said.Replacement(2, Rank(3), 1, 4, WHY, Instant(5.0), 11, Instant(9.0), stage, 12, at, "too late")
    wall = Wall(7.5) if at is not None else None
    (found,) = read(launchers.replacement_to_proto(one, stamp))
    expected = (2, Rank(3), 4, WHY, Wall(5.0), heard.ReplacementStage(stage.value), 11, 12, wall, "too late")
    assert found == heard.ObservedReplacement(*expected)


def test_what_was_decided_arrives_as_it_was_said():
    decided = services.replacing_to_proto(heard.Replacing((1, 3), 4, "no restart is left"))
    assert launchers.replacing_of(decided) == said.Replacing((1, 3), 4, "no restart is left")


@pytest.mark.parametrize(
    ("field", "one"),
    [
        ("number", muster_pb2.Replacement(stage=muster_pb2.REPLACEMENT_STAGE_WANTED)),
        ("stage", muster_pb2.Replacement(number=1)),
        ("stage", muster_pb2.Replacement(number=1, stage=77)),  # type: ignore[arg-type]
        ("rank", muster_pb2.Replacement(number=1, rank=20_000_000)),
        ("iteration", muster_pb2.Replacement(number=1, iteration=2**60)),
        ("lost_at", muster_pb2.Replacement(number=1, lost_at=Timestamp(seconds=-1))),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(field: str, one: muster_pb2.Replacement):
    with pytest.raises(BadRequest) as refused:
        read(one)
    assert any(found.field == f"observed.replacements[0].{field}" for found in refused.value.violations)
