"""What launchers say of guards that have fired: proto to core values, checked. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from resurge_api.rendezvous.v1 import abort_pb2
from resurge_libs.core.ids import Rank
from resurge_libs.rpc.validation import Violations
from resurge_rendezvous.core.values import AbortNotice

MAX_NOTICES = 64
MAX_RANK = 10_000_000
MAX_NUMBER = 2**53
MAX_PHASE_CHARACTERS = 1_024
MAX_LEFT_S = 60


def aborts_of(aborts: Sequence[abort_pb2.AbortNotice], wrong: Violations, at: str) -> tuple[AbortNotice, ...]:
    """The values; what does not fit is added to `wrong`."""
    wrong.count(at, len(aborts), MAX_NOTICES)
    return tuple(_notice(one, wrong, f"{at}[{index}]") for index, one in enumerate(aborts[:MAX_NOTICES]))


def _notice(notice: abort_pb2.AbortNotice, wrong: Violations, at: str) -> AbortNotice:
    wrong.between(f"{at}.rank", notice.rank, 0, MAX_RANK)
    wrong.between(f"{at}.number", notice.number, 0, MAX_NUMBER)
    wrong.between(f"{at}.left", notice.left.seconds, 0, MAX_LEFT_S)
    left_s = notice.left.seconds + notice.left.nanos / 1e9
    return AbortNotice(Rank(notice.rank), notice.number, notice.phase[:MAX_PHASE_CHARACTERS], left_s)
