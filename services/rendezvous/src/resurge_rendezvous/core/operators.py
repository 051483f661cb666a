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
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.events import ExcludeAsked, ReadmitAsked, ShutdownAsked
from resurge_rendezvous.core.job import Ended, OrderTaken
from resurge_rendezvous.core.nodes import Exclusion, NodeEntry
from resurge_rendezvous.core.store import was_taken
from resurge_rendezvous.core.verdicts import exclude

Order = ExcludeAsked | ReadmitAsked | ShutdownAsked


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
        case _:
            assert_never(event)


def on_exclude(d: Draft, event: ExcludeAsked) -> None:
    """Keep a node out of later rounds. Raises BadRequest for an unknown node."""
    entry = _known(d, event.node)
    if not _repeated(d, event):
        if event.lasts_s is not None and event.lasts_s <= 0:
            raise BadRequest.of("lasts", f"must be longer than 0 s, got {event.lasts_s:g}")
        until = None if event.lasts_s is None else Wall(d.stamp.wall + event.lasts_s)
        because = Because(Reason.EXCLUDED, event.reason or "excluded by an operator")
        exclude(d, entry.node, Exclusion(because, until))
        if event.lasts_s is not None:
            ends = after(d.now, event.lasts_s)
            d.set_timers(exclusion_at=earliest(d.seen.timers.exclusion_at, ends))
        d.record(f.RequestAnswered(event.request, _taken(event)))
        d.because = because
    d.do(Reply(_taken(event)))


def on_readmit(d: Draft, event: ReadmitAsked) -> None:
    """End an exclusion. Raises BadRequest for an unknown node."""
    entry = _known(d, event.node)
    if not _repeated(d, event):
        if entry.exclusion is not None or entry.would_exclude is not None:
            readmit(d, entry, Because(Reason.READMITTED, "readmitted by an operator"))
        d.record(f.RequestAnswered(event.request, _taken(event)))
    d.do(Reply(_taken(event)))


def on_shutdown(d: Draft, event: ShutdownAsked) -> None:
    """End the job with success, as somebody asked for it. The answer is the decision that holds."""
    if not _repeated(d, event):
        d.record(f.RequestAnswered(event.request, _taken(event)))
        terminate(d, EXIT_SUCCESS, Because(Reason.SHUTDOWN_REQUESTED, event.reason or "a shutdown was requested"))
    stage = d.job.stage
    d.do(Reply(stage.decision if isinstance(stage, Ended) else _taken(event)))


def readmit(d: Draft, entry: NodeEntry, because: Because) -> None:
    """Let a node take part again."""
    d.record(f.NodeReadmitted(entry.node, because))
    d.mark_ready(entry.node)
    d.touch(entry.node)
    d.because = because


def exclusions_over(d: Draft) -> None:
    """Readmit the nodes whose time is over, and wait for the next one's."""
    due = [entry for entry in d.job.nodes if entry.exclusion is not None and entry.exclusion.until is not None]
    left: list[float] = []
    for entry in due:
        assert entry.exclusion is not None and entry.exclusion.until is not None
        wait_s = entry.exclusion.until - d.stamp.wall
        if wait_s <= 0:
            readmit(d, entry, Because(Reason.READMITTED, f"the exclusion of {entry.node} is over"))
        else:
            left.append(wait_s)
    d.set_timers(exclusion_at=after(d.now, min(left)) if left else None)


def _known(d: Draft, node: str) -> NodeEntry:
    entry = d.job.nodes.get(node)
    if entry is None:
        known = ", ".join(sorted(entry.node for entry in d.job.nodes)[:8]) or "none"
        raise BadRequest.of("node_id", f"{node!r} is not known to the job; known are: {known}")
    return entry


def _taken(event: Order) -> OrderTaken:
    return OrderTaken(type(event).__name__)


def _repeated(d: Draft, event: Order) -> bool:
    return was_taken(d.job, event.request, type(event).__name__)
