"""Many launchers at once: what they said at about the same time is taken in one step, and written down as one entry.

One by one and in order, with the same outcome as in steps of their own; only the picture of the job, the digest and the
journal entry are made once. So whatever holds of single events holds of a crowd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from resurge_libs.core.reasons import Because
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.events import (
    BeatReceived,
    BeatsReceived,
    Event,
    HelloReceived,
    ObservedReceived,
    StreamClosed,
    StreamsHeard,
)

Heard = HelloReceived | ObservedReceived | StreamClosed | BeatReceived | BeatsReceived
_HEARD = (HelloReceived, ObservedReceived, StreamClosed, BeatReceived, BeatsReceived)
_USUAL = (f.NodeAdmitted, f.NodesAdmitted, f.NodeReturned, f.NodeFinished, f.MilestoneKnown, f.TimeBooked)
"""Facts that a crowd brings by the hundred; a step with any other is told by that one's reason."""


def may_be_one_of_many(event: object) -> bool:
    """Whether an event may be taken together with others."""
    return isinstance(event, _HEARD)


def is_patient(event: object) -> bool:
    """Whether an event may wait a moment for others: a lease counts from the sending of a beat and lasts seconds."""
    return isinstance(event, (BeatReceived, BeatsReceived))


def together(events: Sequence[Heard]) -> StreamsHeard:
    """The one event that stands for several."""
    return StreamsHeard(events[0].stamp, tuple(events))


def on_many(d: Draft, events: Iterable[Heard], decide: Callable[[Draft, Event], None]) -> None:
    """Decide about each, in order, each at its own time."""
    because, weight, count = d.because, -1, 0
    for event in events:
        d.turn_to(event.stamp)
        decide(d, event)
        count += 1
        now = _weight(d.facts)
        if now >= weight:
            because, weight = d.because, now
    together = f" ({count} messages together)" if weight > 0 else ""
    d.because = Because(because.code, because.sentence + together)


def _weight(facts: Sequence[f.Fact]) -> int:
    if not facts:
        return 0
    return 1 if all(isinstance(fact, _USUAL) for fact in facts) else 2


def compact(facts: Iterable[f.Fact]) -> tuple[f.Fact, ...]:
    """The same facts with fewer words: nodes that were admitted one after the other stand together."""
    kept: list[f.Fact] = []
    for is_admission, run in groupby(facts, lambda fact: isinstance(fact, f.NodeAdmitted)):
        found = list(run)
        if is_admission and len(found) > 1:
            kept.append(f.NodesAdmitted(tuple(fact.entry for fact in found if isinstance(fact, f.NodeAdmitted))))
        else:
            kept += found
    return tuple(kept)
