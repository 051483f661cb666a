"""Everything that can happen to rendezvous. Each event carries a `Stamp`: time of people, an unused id and chance.

Values only; wire.py has checked all outside input before it becomes one of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import FencingToken, IncidentId, NodeId, Rank, RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.core.values import quick
from resurge_libs.core.verdict import Verdict
from resurge_rendezvous.core.values import ControlAction, Hello, Observed, Stamp


@quick
@dataclass(frozen=True, slots=True)
class HelloReceived:
    """A new stream introduced itself. The observed state of the same message follows as `ObservedReceived`."""

    stamp: Stamp
    stream: str
    """Unique over the life of the service process."""
    hello: Hello
    revision_seen: int = 0
    """Of the same message: revisions on this stream start above it."""


@quick
@dataclass(frozen=True, slots=True)
class ObservedReceived:
    """A launcher's whole observed state arrived on its stream."""

    stamp: Stamp
    stream: str
    node: NodeId
    observed: Observed


@quick
@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A stream is closed. `by_peer`: its kernel closed or reset it; False when this side gave it up (ping timeout)."""

    stamp: Stamp
    stream: str
    node: NodeId
    by_peer: bool = True


@quick
@dataclass(frozen=True, slots=True)
class BeatReceived:
    """A beat: renews the lease; `clock_offset_s` is service clock minus launcher clock."""

    stamp: Stamp
    stream: str
    node: NodeId
    sequence: int
    launcher_sent: float
    clock_offset_s: float | None = None
    clock_error_s: float | None = None
    direct: int = 0
    """Launchers that now beat on streams of their own, if this one does; 0 for one behind a relay."""


@quick
@dataclass(frozen=True, slots=True)
class BeatsReceived:
    """Beats of many launchers in one message of a relay."""

    stamp: Stamp
    beats: tuple[BeatReceived, ...]


@dataclass(frozen=True, slots=True)
class StreamsHeard:
    """What launchers said at about the same time, in order: as if each had come alone, in one step."""

    stamp: Stamp
    heard: tuple[HelloReceived | ObservedReceived | StreamClosed | BeatReceived | BeatsReceived, ...]


@dataclass(frozen=True, slots=True)
class VerdictArrived:
    """Policy answered `AskPolicy` of this incident and round."""

    stamp: Stamp
    incident: IncidentId
    round: int
    verdict: Verdict
    question: int = 0
    """Which question it answers; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class VerdictUnavailable:
    """Policy cannot be asked; `why` in words."""

    stamp: Stamp
    incident: IncidentId
    round: int
    why: str
    question: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline has come."""

    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Paused:
    """The service itself did not run for so long; everybody's time is extended by it."""

    stamp: Stamp
    for_s: float


@dataclass(frozen=True, slots=True)
class ExcludeAsked:
    """An operator wants a node out of later rounds."""

    stamp: Stamp
    request: RequestId
    node: NodeId
    reason: str
    lasts_s: float | None = None
    by: str = ""
    """Who asks, in words."""


@dataclass(frozen=True, slots=True)
class ReadmitAsked:
    """An operator wants an exclusion ended."""

    stamp: Stamp
    request: RequestId
    node: NodeId
    by: str = ""
    """Who asks, in words."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """An operator wants the job ended."""

    stamp: Stamp
    request: RequestId
    reason: str


@dataclass(frozen=True, slots=True)
class RecommendationMade:
    """Attribution recommends something, by way of policy."""

    stamp: Stamp
    request: RequestId
    said: Recommendation


@dataclass(frozen=True, slots=True)
class ControlAsked:
    """A worker asked its launcher for something; `at` by the node's clock."""

    stamp: Stamp
    request: RequestId
    token: FencingToken
    """Of the worker."""
    node: NodeId
    rank: Rank
    action: ControlAction
    reason: str
    at: Wall


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """An operator wants the ranks of a node, or all, to save and stop."""

    stamp: Stamp
    request: RequestId
    node: NodeId | None
    reason: str
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class StorePutAsked:
    """Write a key."""

    stamp: Stamp
    request: RequestId
    token: FencingToken
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class StoreAddAsked:
    """Add to a counter."""

    stamp: Stamp
    request: RequestId
    token: FencingToken
    key: str
    delta: int


@dataclass(frozen=True, slots=True)
class StoreCompareAndSetAsked:
    """Write a key if its value is as expected; None means that the key must not exist."""

    stamp: Stamp
    request: RequestId
    token: FencingToken
    key: str
    expected: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class StoreDeleteAsked:
    """Remove a key."""

    stamp: Stamp
    request: RequestId
    token: FencingToken
    key: str


StoreAsked = StorePutAsked | StoreAddAsked | StoreCompareAndSetAsked | StoreDeleteAsked

Request = ExcludeAsked | ReadmitAsked | ShutdownAsked | DrainAsked | RecommendationMade | ControlAsked | StoreAsked
"""Unary requests: each is answered once it is durable, or refused."""

Event = (
    HelloReceived
    | ObservedReceived
    | StreamClosed
    | BeatReceived
    | BeatsReceived
    | VerdictArrived
    | VerdictUnavailable
    | Tick
    | Paused
    | Request
)
