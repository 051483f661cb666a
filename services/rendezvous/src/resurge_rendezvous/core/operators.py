"""What people order: exclude a node, readmit it, end the job. Each order is taken once per request id."""

from __future__ import annotations

from typing import assert_never

from resurge_libs.core.instant import Wall, after, earliest
from resurge_libs.core.machine import Reply
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Unready
from resurge_libs.core.verdict import EXIT_SUCCESS
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.drains import drain_node
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.events import DrainAsked, ExcludeAsked, ReadmitAsked, ShutdownAsked
from resurge_rendezvous.core.excluding import exclude, readmit, risk_of_order
from resurge_rendezvous.core.job import Ended, OrderTaken
from resurge_rendezvous.core.nodes import Exclusion, NodeEntry
from resurge_rendezvous.core.store import another_call, answer_to

Order = ExcludeAsked | ReadmitAsked | ShutdownAsked | DrainAsked


def on_order(d: Draft, event: Order) -> None:
    """Take an order. Raises BadRequest for what cannot be, Unready before the job is open."""
    if d.job.spec is None:
        raise Unready(Because(Reason.BELOW_MIN_NODES, "no launcher has opened a job yet"))
    match event:
        case ExcludeAsked():
            on_exclude(d, event)
        case ReadmitAsked():
            on_readmit(d, event)
        case ShutdownAsked():
            on_shutdown(d, event)
        case DrainAsked():
            on_drain(d, event)
        case _:
            assert_never(event)


def on_exclude(d: Draft, event: ExcludeAsked) -> None:
    """Keep a node's machine out of later rounds; the answer says what that risks. Raises BadRequest for an unknown
    node."""
    entry = _known(d, event.node)
    known = _repeated(d, event)
    if known is None:
        if event.lasts_s is not None and event.lasts_s <= 0:
            raise BadRequest.of("lasts", f"must be longer than 0 s, got {event.lasts_s:g}")
        until = None if event.lasts_s is None else Wall(d.stamp.wall + event.lasts_s)
        because = Because(Reason.EXCLUDED, event.reason or "excluded by an operator")
        known = _taken(event, risk_of_order(d, entry))
        exclude(d, entry.node, Exclusion(because, until, event.by, d.stamp.wall))
        if event.lasts_s is not None:
            ends = after(d.now, event.lasts_s)
            d.set_timers(exclusion_at=earliest(d.seen.timers.exclusion_at, ends))
        d.record(f.RequestAnswered(event.request, known))
        d.because = because
    d.do(Reply(known))


def on_readmit(d: Draft, event: ReadmitAsked) -> None:
    """End an exclusion. Raises BadRequest for an unknown node."""
    entry = _known(d, event.node)
    if _repeated(d, event) is None:
        under_name = any(one.identity.node == entry.node for one in d.job.exclusions)
        if entry.exclusion is not None or entry.would_exclude is not None or under_name:
            readmit(d, entry, Because(Reason.READMITTED, f"readmitted by {event.by or 'an operator'}"))
        d.record(f.RequestAnswered(event.request, _taken(event)))
    d.do(Reply(_taken(event)))


def on_shutdown(d: Draft, event: ShutdownAsked) -> None:
    """End the job with success, as somebody asked for it. The answer is the decision that holds."""
    if _repeated(d, event) is None:
        d.record(f.RequestAnswered(event.request, _taken(event)))
        terminate(d, EXIT_SUCCESS, Because(Reason.SHUTDOWN_REQUESTED, event.reason or "a shutdown was requested"))
    stage = d.job.stage
    d.do(Reply(stage.decision if isinstance(stage, Ended) else _taken(event)))


def on_drain(d: Draft, event: DrainAsked) -> None:
    """Have ranks save and stop. The answer says how it goes on. Raises BadRequest for an unknown node."""
    node = None if event.node is None else _known(d, event.node).node
    if not _repeated(d, event):
        d.record(f.RequestAnswered(event.request, _taken(event)))
        what = "the job" if node is None else node
        because = Because(Reason.DRAINING, f"{what} is drained: {event.reason or 'by an operator'}")
        drain_node(d, node, because, event.grace_s or d.limits.drain_grace_s)
    d.do(Reply(_taken(event)))


def _known(d: Draft, node: str) -> NodeEntry:
    entry = d.job.nodes.get(node)
    if entry is None:
        known = ", ".join(sorted(entry.node for entry in d.job.nodes)[:8]) or "none"
        raise BadRequest.of("node_id", f"{node!r} is not known to the job; known are: {known}")
    return entry


def _taken(event: Order, warning: str = "") -> OrderTaken:
    return OrderTaken(type(event).__name__, warning)


def _repeated(d: Draft, event: Order) -> OrderTaken | None:
    """The answer when this very order was taken before. Raises BadRequest for an id of another call."""
    known = answer_to(d.job, event.request, OrderTaken)
    if isinstance(known, OrderTaken) and known.order not in ("", type(event).__name__):
        raise another_call(event.request)
    return known if isinstance(known, OrderTaken) else None
