"""What the launcher makes of its control plane: its own lease, and when it was without for too long. Pure."""

from __future__ import annotations

from resurge_launcher.core import crew as crews
from resurge_launcher.core.goals import EndGoal
from resurge_launcher.core.model import (
    Control,
    Crew,
    OnLostControl,
    Rules,
)
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.lease import Lease
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

UNREACHABLE_EXIT_CODE = 2
"""Nothing was started, and what was given on the command line led nowhere: wrong input."""
CONTROL_LOST_EXIT_CODE = 1


def acknowledged(control: Control, sent_at: Instant, lease_ttl_s: float, now: Instant) -> Control:
    """A beat was answered: the lease counts from its sending."""
    held_since = control.held_since if control.holds(now) else now
    lease = (
        Lease.starting(sent_at, lease_ttl_s) if control.lease is None else control.lease.renewed(sent_at, lease_ttl_s)
    )
    return replace(control, lease=lease, held_since=held_since)


def lost(control: Control, problem: str, now: Instant, resume_window_s: float) -> Control:
    """The stream broke: others may take this node's place sooner than its lease says, so it must end sooner too."""
    lease = None if control.lease is None else control.lease.shortened_to(after(now, resume_window_s))
    lost_at = now if control.lost_at is None else control.lost_at
    return replace(control, lost_at=lost_at, lease=lease, problem=problem)


def found(control: Control) -> Control:
    """Rendezvous answers again."""
    return replace(control, lost_at=None, met=True, problem="")


def end_without_control(control: Control, crew: Crew | None, rules: Rules, now: Instant) -> EndGoal | None:
    """The launcher's own end where control never came, or was gone too long without progress of the workers."""
    due = end_at(control, crew, rules)
    if due is None or now < due or control.lost_at is None:
        return None
    without_s = now - control.lost_at
    if not control.met:
        tried = f"; the last try: {control.problem}" if control.problem else ""
        sentence = f"rendezvous did not answer within {without_s:.0f} s of the start{tried}"
        return EndGoal(UNREACHABLE_EXIT_CODE, Because(Reason.CONTROL_UNREACHABLE, sentence))
    sentence = f"no control plane for {without_s:.0f} s and no progress of workers within the limit"
    return EndGoal(CONTROL_LOST_EXIT_CODE, Because(Reason.CONTROL_LOST, sentence))


def end_at(control: Control, crew: Crew | None, rules: Rules) -> Instant | None:
    """When `end_without_control` would be due as things stand."""
    if control.lost_at is None:
        return None
    if not control.met:
        return after(control.lost_at, rules.limits.first_contact_limit_s)
    progress = crews.last_progress_at(crew) if crew is not None else None
    since = control.lost_at if progress is None else max(control.lost_at, progress)
    return after(since, rules.limits.lost_control_limit_s)


def stop_workers(control: Control, crew: Crew, rules: Rules, now: Instant) -> Because | None:
    """Why cut-off workers are to be ended now; None while they may go on."""
    due = stop_at(control, crew, rules)
    if due is None or now < due:
        return None
    if rules.on_lost_control is OnLostControl.STOP:
        return Because(Reason.CONTROL_LOST, "the lease is over and workers are to end with it")
    return Because(Reason.CONTROL_LOST, "the lease is over and the workers make no progress")


def stop_at(control: Control, crew: Crew, rules: Rules) -> Instant | None:
    """When `stop_workers` would be due as things stand. Workers that report no steps are not called idle."""
    if control.lost_at is None or control.lease is None:
        return None
    if rules.on_lost_control is OnLostControl.STOP:
        return control.lease.until
    progress = crews.last_progress_at(crew)
    return None if progress is None else max(control.lease.until, after(progress, rules.limits.hang_limit_s))
