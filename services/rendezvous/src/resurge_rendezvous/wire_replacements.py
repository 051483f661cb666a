"""Fresh processes in the places of lost ranks: proto to core values, checked, and back. Decides nothing."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2, muster_pb2, rendezvous_pb2
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.rpc.errors import because_from_proto, because_to_proto
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations
from resurge_rendezvous.core.replacement_values import ObservedReplacement, ReplacedRank, ReplacementStage, Replacing
from resurge_rendezvous.wire_times import timestamp

MAX_REPLACEMENTS = 4_096
"""Of one generation on one node."""
MAX_RANK = 10_000_000
MAX_NUMBER = 2**53
MAX_WALL_S = 253_402_300_799
STAGES = {
    muster_pb2.REPLACEMENT_STAGE_WANTED: ReplacementStage.WANTED,
    muster_pb2.REPLACEMENT_STAGE_GRANTED: ReplacementStage.GRANTED,
    muster_pb2.REPLACEMENT_STAGE_STARTING: ReplacementStage.STARTING,
    muster_pb2.REPLACEMENT_STAGE_COMING: ReplacementStage.COMING,
    muster_pb2.REPLACEMENT_STAGE_JOINED: ReplacementStage.JOINED,
    muster_pb2.REPLACEMENT_STAGE_GIVEN_UP: ReplacementStage.GIVEN_UP,
}


def replacements_of(observed: attach_pb2.Observed, wrong: Violations, at: str) -> tuple[ObservedReplacement, ...]:
    """The values; what does not fit is added to `wrong`."""
    told = observed.replacements
    wrong.count(f"{at}.replacements", len(told), MAX_REPLACEMENTS)
    return tuple(
        _replacement_of(one, wrong, f"{at}.replacements[{index}]") for index, one in enumerate(told[:MAX_REPLACEMENTS])
    )


def _replacement_of(one: muster_pb2.Replacement, wrong: Violations, at: str) -> ObservedReplacement:
    stage = STAGES.get(one.stage)
    if stage is None:
        wrong.add(f"{at}.stage", f"is {one.stage}; must be one of ReplacementStage, and not UNSPECIFIED")
    wrong.between(f"{at}.number", one.number, 1, MAX_NUMBER)
    wrong.between(f"{at}.rank", one.rank, 0, MAX_RANK)
    wrong.between(f"{at}.iteration", one.iteration, 0, MAX_NUMBER)
    why = because_from_proto(one.because, Reason.OBSERVED)
    return ObservedReplacement(
        number=one.number,
        rank=Rank(one.rank),
        iteration=one.iteration,
        because=Because(why.code, why.sentence[:MAX_SENTENCE_CHARACTERS]),
        lost_at=_wall_of(one, "lost_at", wrong, at),
        stage=stage or ReplacementStage.WANTED,
        lost_pid=one.lost_pid,
        pid=one.pid,
        settled_at=_wall_of(one, "settled_at", wrong, at) if one.HasField("settled_at") else None,
        sentence=one.sentence[:MAX_SENTENCE_CHARACTERS],
    )


def _wall_of(one: muster_pb2.Replacement, field: str, wrong: Violations, at: str) -> Wall:
    stamp = one.lost_at if field == "lost_at" else one.settled_at
    wrong.between(f"{at}.{field}", stamp.seconds, 0, MAX_WALL_S)
    return Wall(stamp.seconds + stamp.nanos / 1e9)


def replacing_to_proto(said: Replacing) -> muster_pb2.Replacing:
    """What a member is told."""
    return muster_pb2.Replacing(granted=said.granted, refused_upto=said.refused_upto, sentence=said.sentence)


def replaced_to_proto(one: ReplacedRank) -> rendezvous_pb2.ReplacedRank:
    """The durable record of one, for people."""
    return rendezvous_pb2.ReplacedRank(
        node_id=one.node,
        rank=one.rank,
        generation=one.generation,
        cycle=one.cycle,
        attempt=one.attempt,
        iteration=one.iteration,
        because=because_to_proto(one.because),
        lost_at=timestamp(one.lost_wall),
        granted_at=timestamp(one.granted_wall),
        settled_at=None if one.settled_wall is None else timestamp(one.settled_wall),
        came=one.came,
        sentence=one.sentence,
        lost_pid=one.lost_pid,
        pid=one.pid,
    )
