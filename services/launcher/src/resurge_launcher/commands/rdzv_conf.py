"""The keys of --rdzv-conf: those that mean something here, those accepted without effect, all others refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from resurge_launcher.commands import values
from resurge_launcher.commands.sources import Sourced
from resurge_launcher.usage import UsageProblem, unknown

T = TypeVar("T")

LIMIT_OF: Mapping[str, str] = {
    "join_timeout": "quorum_wait_s",
    "store_connect_wait_seconds": "first_contact_limit_s",
}
WITHOUT_EFFECT = frozenset({
    "close_timeout", "keep_alive_interval", "keep_alive_max_attempt", "last_call_timeout",
    "read_timeout", "segment_check_interval", "store_type",
    "timeout", "upscaling_enabled", "use_libuv",
})  # fmt: skip
KNOWN = frozenset({*LIMIT_OF, *WITHOUT_EFFECT, "is_host", "segment"})


@dataclass(frozen=True, slots=True)
class RdzvConf:
    """What --rdzv-conf said."""

    is_host: bool | None = None  # None: not said
    segment: int | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def read(item: Sourced) -> RdzvConf:
    """The meaning of the pairs. Raises UsageProblem for an unknown key or a value that is none."""
    given: Mapping[str, str] = item.value or {}
    for key in given:
        if key not in KNOWN:
            raise unknown(f"{key} in {item.source}", "key", key, KNOWN)

    quiet = sorted(WITHOUT_EFFECT & given.keys())
    parse_segment = partial(values.whole, low=0, high=values.MAX_NODES)
    return RdzvConf(
        is_host=_parsed(item, "is_host", values.switch) if "is_host" in given else None,
        segment=_parsed(item, "segment", parse_segment) if "segment" in given else None,
        limits={name: _parsed(item, key, values.seconds) for key, name in LIMIT_OF.items() if key in given},
        notices=(f"{item.source}: {', '.join(quiet)} accepted, no effect.",) if quiet else (),
    )


def _parsed(item: Sourced, key: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(item.value[key])
    except values.Wrong as wrong:
        raise UsageProblem(f"{key} in {item.source}", wrong.problem, wrong.right) from None
