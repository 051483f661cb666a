"""Restarts that are given back: one for each healthy period, the newest first, never more than were spent.

A period is counted from the start of the running generation, from the last refund, or from the last rank of it that was
given a fresh process, and only a generation whose recovery is over counts as healthy. A fault begins it anew. The walls
in the journal tell a restarted service how much of it had passed.
"""

from __future__ import annotations

from resurge_libs.core.instant import Wall, after
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.job import Formation, Job, Proving, Running

LEAST_WAIT_S = 0.1
"""A clock that was set back must not make the service spin."""


def await_refund(d: Draft) -> None:
    """Wait for the next refund, if there is anything to give back."""
    period_s = d.spec.restarts.refund_after_s
    if period_s > 0 and owes(d.job):
        d.set_timers(refund_at=after(d.now, period_s))


def owes(job: Job) -> bool:
    """Whether a restart was spent that was not given back."""
    return job.restarts_spent > job.refunded


def refund_due(d: Draft) -> None:
    """A period may be over: give a restart back, or wait for what is left of it."""
    period_s = d.spec.restarts.refund_after_s
    match d.job.stage:
        case Running(formation) if period_s > 0 and owes(d.job):
            since = _healthy_since(d.job, formation)
            left_s = period_s - (d.stamp.wall - since)
            if left_s > 0:
                d.set_timers(refund_at=after(d.now, min(period_s, max(LEAST_WAIT_S, left_s))))
                return
            d.record(f.RestartRefunded(Wall(d.stamp.wall)))
            sentence = f"healthy for {period_s:g} s: a restart is given back, {d.job.refunded} so far"
            d.because = Because(Reason.RESTART_REFUNDED, sentence)
            await_refund(d)
        case Proving():
            await_refund(d)
        case _:
            return


def _healthy_since(job: Job, formation: Formation) -> float:
    granted = (float(one.granted_wall) for one in job.replaced if one.generation == formation.generation)
    return max(float(formation.closed_wall), job.refunded_wall, *granted)
