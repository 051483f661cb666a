"""Rules of a launcher for ranks that restart in place, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_launcher.core import musters
from tests.sim.edits import Edit

GUARDS: tuple[Edit, ...] = (
    Edit(
        "in place: a rank of an old generation is heard",
        musters.heard,
        "or state.phase.crew.generation != event.generation",
        "",
    ),
    Edit(
        "in place: fresh processes where the launcher has no fork server",
        musters.heard,
        "if not rules.replaces:",
        "if False:",
    ),
    Edit(
        "in place: the words of the process before are a newcomer's",
        musters._joined,
        "muster.is_running or event.pid not in (0, newcomer.pid)",
        "muster.is_running",
    ),
    Edit(
        "in place: a world that cannot be gathered is not refused",
        musters._joined,
        "if muster is None and (sentence := _why_refused(crew, event)):",
        "if False:",
    ),
    Edit(
        "in place: orders are known no more in a second call",
        musters._joined,
        "muster.acted if muster is not None else MusterOrder() if _is_spread(crew) else None",
        "MusterOrder() if _is_spread(crew) else None",
    ),
    Edit(
        "in place: a wait for fresh processes without end",
        musters._joined,
        "min(max(event.replace_s, 0.0), LIMIT_MOST_S) if is_first",
        "max(event.replace_s, 0.0) if is_first",
        "nobody is waited for longer than for the ranks that live",
    ),
    Edit(
        "in place: a fresh process in a later call",
        musters._joined,
        "if is_first else 0.0",
        "if True else 0.0",
        "where ranks are not given anew none is waited for",
    ),
    Edit(
        "in place: a call with too few ranks waits without end",
        musters._joined,
        "if not _can_suffice(crew, muster):",
        "if False:",
    ),
    Edit(
        "in place: one node is gathered by rendezvous",
        musters._is_spread,
        "crew.run.world_size != len(crew.workers)",
        "True",
    ),
    Edit(
        "in place: several nodes are gathered by each",
        musters._is_spread,
        "crew.run.world_size != len(crew.workers)",
        "False",
    ),
    Edit("in place: one node's world is refused", musters._why_refused, "if not _is_spread(crew):", "if False:"),
    Edit(
        "in place: rendezvous that gathers no ranks is trusted",
        musters._why_refused,
        "if crew.run.muster is None:",
        "if False:",
    ),
    Edit(
        "in place: a store that dies with rank 0 is trusted",
        musters._why_refused,
        "if not crew.run.store_is_served:",
        "if False:",
    ),
    Edit(
        "in place: an SDK that joins one node's ranks is trusted",
        musters._why_refused,
        "if not event.spans_nodes:",
        "if False:",
    ),
    Edit(
        "in place: a launcher starts what rendezvous gathers",
        musters.gathered,
        "muster.acted is not None or muster.is_running",
        "muster.is_running",
    ),
    Edit(
        "in place: what runs is started again",
        musters.gathered,
        "or muster.is_running or muster.is_over or",
        "or muster.is_over or",
        "ranks that run have joined nothing yet",
    ),
    Edit(
        "in place: what is over is started again",
        musters.gathered,
        "or muster.is_over or",
        "or",
        "nothing that is over is gathered",
    ),
    Edit(
        "in place: a start does not wait for fresh processes",
        musters.gathered,
        " or replacements.awaited(muster):",
        ":",
    ),
    Edit(
        "in place: a start before all workers are",
        musters.gathered,
        "not all_started or",
        "",
        "a launcher runs once all of its workers have been started",
    ),
    Edit("in place: a start with too few", musters.gathered, "not _can_suffice(crew, muster) or", ""),
    Edit("in place: a start before all have come", musters.gathered, "or not muster.joined.issuperset(living)", ""),
    Edit(
        "in place: nobody goes on when one has ended well",
        musters.finished,
        "if muster is None or muster.is_running or muster.is_over or not muster.joined:",
        "if True:",
    ),
    Edit(
        "in place: an end before anybody joined starts a world",
        musters.finished,
        " or not muster.joined:",
        ":",
        "with nobody left there are too few for any world",
    ),
    Edit(
        "in place: an abort is told too late where the next is gathered for",
        musters._aborted,
        "(muster.iteration, muster.iteration - 1)",
        "(muster.iteration,)",
    ),
    Edit(
        "in place: a rank in reserve of an old iteration",
        musters._reserved,
        "or muster.iteration != event.iteration",
        "",
    ),
    Edit(
        "in place: milestones of the lost are waited for",
        musters.excused,
        "frozenset(muster.lost) | muster.reserve if",
        "muster.reserve if",
    ),
    Edit(
        "in place: milestones of those in reserve are waited for",
        musters.excused,
        "frozenset(muster.lost) | muster.reserve if",
        "frozenset(muster.lost) if",
    ),
    Edit(
        "in place: a break of another iteration breaks this one", musters.broken, "or muster.iteration != iteration", ""
    ),
    Edit("in place: no bound for the way to the next iteration", musters.broken, "until=until,", "until=None,"),
    Edit(
        "in place: who finished another iteration has finished this one",
        musters._done,
        "or muster.iteration != event.iteration",
        "",
    ),
    Edit("in place: over when one has finished", musters._done, "or len(muster.done) < event.needed", ""),
    Edit(
        "in place: an end is forgiven after it is over",
        musters.forgiven,
        "muster.is_over or",
        "",
        "nothing that is over runs, or has a bound",
    ),
    Edit(
        "in place: an end is forgiven though too few are left",
        musters.forgiven,
        "_can_lose(crew, muster, {record.rank}) or",
        "True or",
    ),
    Edit(
        "in place: nobody is lost for a fresh process",
        musters._can_lose,
        "or replacements.are_possible(crew, muster)",
        "",
    ),
    Edit("in place: a node goes on without a rank of its own", musters.is_enough, "here > 0 and", ""),
    Edit(
        "in place: the ranks of other nodes are not counted",
        musters.is_enough,
        "here if muster.acted is None else",
        "here if True else",
    ),
    Edit("in place: a loss breaks nothing", musters.bereaved, "if muster.is_running:", "if False:"),
    Edit(
        "in place: those that cannot be ended are waited for",
        musters.overdue,
        "[rank for rank in living if rank in known]",
        "[]",
    ),
    Edit(
        "in place: those of this node are late where others are waited for",
        musters.overdue,
        "and (muster.is_running or muster.acted is not None):",
        "and muster.is_running:",
    ),
    Edit("in place: a rank is ended twice", musters.overdue, "known.isdisjoint(missing) and", ""),
    Edit(
        "in place: late ranks are ended though too few are left",
        musters.overdue,
        "and _can_lose(crew, muster, set(missing)):",
        "and True:",
    ),
    Edit(
        "in place: no bound for those that are ended",
        musters.evicted,
        "until=after(now, muster.limit_s)",
        "until=muster.until",
    ),
    Edit(
        "in place: any fault is a break",
        musters.hung,
        " or any(fault.because.code not in HANGS for fault in fresh)",
        "",
        "a look finds nothing but hangs",
    ),
    Edit(
        "in place: those that clearly cannot follow are waited for", musters.hung, "    if unable:\n", "    if False:\n"
    ),
)
