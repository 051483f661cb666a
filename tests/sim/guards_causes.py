"""Rules of what began a story, and of losses that are in sight only, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_rendezvous.core import (
    asking,
    budgets,
    causes,
    closing,
    faults,
    hello,
    losses,
    observing,
    progressing,
    verdicts,
)
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.questions import Questions
from tests.sim.edits import Edit

GUARDS: tuple[Edit, ...] = (
    # the order of causes
    Edit("blame: a loss seen late has one moment", causes._order, "if is_going else", "if False else"),
    Edit(
        "blame: a launcher whose successor tells of it has one moment",
        causes._order,
        "fault.because.code in GOING",
        "fault.because.code in GOING and fault.because.code.value != 'NODE_RETURNED'",
    ),
    Edit("blame: every fault goes back to the ends before it", causes._order, "if is_going else", "if True else"),
    Edit(
        "blame: a loss does not stand before the end it goes back to", causes._order, "at, not is_going,", "at, False,"
    ),
    Edit(
        "blame: a silence has its moment among what is known",
        causes._order,
        "vagueness(fault.because.code), at",
        "0, at",
    ),
    Edit(
        "blame: which rank of several is the first is by chance",
        causes._order,
        "-1 if fault.rank is None else fault.rank",
        "-1",
    ),
    Edit("blame: an end follows from its own node's loss", causes._may_be_of, "end.node == loss.node or", ""),
    Edit(
        "blame: an end follows from the loss of a later generation",
        causes._may_be_of,
        "or end.generation != loss.generation",
        "",
    ),
    Edit(
        "blame: an end follows from a loss after it was heard from",
        causes._may_be_of,
        "loss.at - (loss.clock_error_s or 0.0) <= end.at <= loss.at",
        "end.at <= loss.at",
    ),
    Edit("blame: a later end moves a loss", causes._may_be_of, "<= end.at <= loss.at", "<= end.at"),
    Edit(
        "blame: an exit follows from nothing",
        FaultRecord.may_follow,
        "Reason.WORKER_EXIT | Reason.WORKER_CRASHED",
        "Reason.WORKER_CRASHED",
    ),
    Edit(
        "blame: a crash of a loop follows from nothing",
        FaultRecord.may_follow,
        "Reason.WORKER_EXIT | Reason.WORKER_CRASHED",
        "Reason.WORKER_EXIT",
    ),
    Edit(
        "blame: an exit for lack of memory may follow",
        FaultRecord.may_follow,
        "return self.trouble not in OWN_TROUBLE",
        "return True",
    ),
    Edit("blame: any signal may follow", FaultRecord.may_follow, "self.signal in FOLLOWS and", ""),
    Edit(
        "blame: an abort of a broken device may follow",
        FaultRecord.may_follow,
        "FOLLOWS and self.trouble not in OWN_TROUBLE",
        "FOLLOWS",
    ),
    Edit("blame: a silence may follow", FaultRecord.may_follow, "return False", "return True"),
    Edit("blame: every fault is the end of a rank that may follow", causes.by_cause, "if fault.may_follow", ""),
    Edit(
        "blame: what a fault says of its cause is all",
        FaultRecord.trouble,
        "cause_of(self.because.code) if self.cause is FaultCause.OTHER else",
        "",
    ),
    Edit(
        "blame: what a fault says of its cause is nothing",
        FaultRecord.trouble,
        "if self.cause is FaultCause.OTHER else self.cause",
        "",
    ),
    Edit(
        "blame: a loss in sight stands before what has its own cause", causes.standing_before, "if fault.may_follow", ""
    ),
    Edit("blame: every loss in sight stands before", causes.standing_before, "if order < first", "if True"),
    Edit(
        "blame: losses in sight are told in any order",
        causes.standing_before,
        "key=lambda one: one[0]",
        "key=lambda one: 0",
    ),
    # losses in sight
    Edit(
        "blame: losses in sight are not told",
        closing.with_losses_in_sight,
        "*standing_before(in_sight, present)[:room]",
        "",
    ),
    Edit("blame: losses in sight are told beyond the room", closing.with_losses_in_sight, "[:room]", ""),
    Edit(
        "blame: a node that was told of is lost once more",
        closing.with_losses_in_sight,
        "and seat.node not in told",
        "",
    ),
    Edit("blame: a node is told of by the end of its rank", closing.with_losses_in_sight, "if fault.rank is None", ""),
    Edit(
        "blame: a round before hides a loss in sight",
        closing.with_losses_in_sight,
        "if fault.generation == formation.generation",
        "",
    ),
    Edit(
        "blame: a stream that its kernel did not close is a loss in sight",
        closing.with_losses_in_sight,
        "seat.closed_by_peer_at is not None and",
        "",
    ),
    Edit("blame: a node that was given up is a loss in sight", closing._in_sight, "seat.doomed is not None or", ""),
    Edit(
        "blame: a node without a lease is a loss in sight",
        closing._in_sight,
        " or seat.lease is None",
        "",
        "a seat without a lease goes when its stream is closed",
    ),
    Edit(
        "blame: a node that has finished is a loss in sight",
        closing._in_sight,
        "seat.node not in d.seen.unfinished or",
        "",
    ),
    # since when it may have been
    Edit("blame: a loss is seen when it happens", observing.on_closed, "unseen_s=unseen_s(d, known)", "unseen_s=0.0"),
    Edit(
        "blame: a beat says nothing of when its launcher lived",
        faults.unseen_s,
        "late_s if seat.said_at is None else",
        "late_s if True else",
    ),
    Edit(
        "blame: a launcher lived only when its last beat was heard",
        faults.unseen_s,
        "min(late_s, d.stamp.wall - seat.said_at)",
        "d.stamp.wall - seat.said_at",
    ),
    Edit(
        "blame: a beat from the future makes an interval of less than nothing",
        faults.unseen_s,
        "max(0.0, min(late_s, d.stamp.wall - seat.said_at))",
        "min(late_s, d.stamp.wall - seat.said_at)",
    ),
    Edit(
        "blame: a beat's clock is without error",
        observing._beaten,
        "+ clock.offset_s - clock.error_s",
        "+ clock.offset_s",
    ),
    Edit(
        "blame: a beat's clock is the service's own",
        observing._beaten,
        "+ clock.offset_s - clock.error_s",
        "- clock.error_s",
    ),
    Edit(
        "blame: a lost node's stream ended when that was seen",
        losses.first_signal,
        "return seat.silent_since, seat.unseen_s",
        "return seat.silent_since, 0.0",
    ),
    Edit(
        "blame: an order to leave was given when it was heard",
        faults.faults_observed,
        "clock_error_s=unseen_s(d, seat)",
        "clock_error_s=0.0",
    ),
    # what follows of it
    Edit(
        "blame: policy judges by the faults alone",
        asking._blaming,
        "faults = with_losses_in_sight(d, formation, faults)",
        "pass",
    ),
    Edit(
        "blame: a restart is charged to what has none left",
        budgets.cause_to_charge,
        "bound is not None and bound.is_exhausted",
        "False",
    ),
    Edit(
        "blame: a restart is charged to what policy was told",
        budgets.cause_to_charge,
        "first_cause(incident.faults).trouble",
        "incident.view.cause",
    ),
    # launchers that go when the job is over
    Edit("after the end: one that has left is lost", losses._why_lost, "if _left_after_end(d, seat):", "if False:"),
    Edit(
        "after the end: whoever goes has left after it",
        losses._left_after_end,
        "return seat.silent_since >= d.job.stage.decision.at",
        "return True",
    ),
    Edit("after the end: a silent one has left", losses._left_after_end, "or seat.closed_by_peer_at is None", ""),
    # asking anew
    Edit("anew: a further fault is not asked about", faults.raise_faults, "joined_in(d, joined)", "pass"),
    Edit(
        "anew: a loss that comes into sight is not asked about", observing.on_closed, "closed_in_sight(d, seat)", "pass"
    ),
    Edit("anew: one that is back stays blamed", hello._seat, "back_in_place(d, hello.node)", "pass"),
    Edit("anew: a round that has its verdict is put anew", asking._waiting, "if incident.verdict is None and", "if"),
    Edit("anew: a round is put anew without end", asking._waiting, "and d.seen.questions.anew < ANEW_MAX", ""),
    Edit(
        "anew: what names the same culprit is asked once more",
        asking._put_anew,
        "if _blamed(view) == _blamed(incident.view):",
        "if False:",
    ),
    Edit("anew: what was not asked yet is asked at once", asking._put_anew, "if d.seen.policy_asked:", "if True:"),
    Edit("anew: policy is not asked", asking._put_anew, "if d.seen.policy_asked:", "if False:"),
    Edit(
        "anew: every fault that joins is looked at beside all losses",
        asking.joined_in,
        "and first_cause(of_round(*open_round)) in joined",
        "",
        "a fault that is not the first moves no loss to the front: the guard saves ten thousand looks",
    ),
    Edit(
        "anew: every loss is looked at beside all others",
        asking.closed_in_sight,
        "and stands_first(d, seat, *open_round)",
        "",
        "a loss that does not stand first changes nobody's blame: the guard saves ten thousand looks",
    ),
    Edit(
        "anew: every launcher that is back is looked at",
        asking.back_in_place,
        "and culprit.node == node",
        "",
        "one that was not blamed takes no blame away: the guard saves ten thousand looks",
    ),
    Edit(
        "anew: another rank of the node is the same culprit",
        asking._blamed,
        "culprit.rank, culprit.code",
        "None, culprit.code",
    ),
    Edit(
        "anew: another node with the same failure is the same culprit",
        asking._blamed,
        "culprit.node, culprit.rank",
        "None, culprit.rank",
    ),
    Edit(
        "anew: another reason of the same rank is the same",
        asking._blamed,
        "culprit.rank, culprit.code",
        "culprit.rank, None",
    ),
    Edit(
        "anew: whatever is known stands before a loss",
        closing.stands_first,
        "fault.at < since and vagueness(fault.because.code) == 0",
        "True",
    ),
    Edit(
        "anew: a silence stands before a loss",
        closing.stands_first,
        "and vagueness(fault.because.code) == 0",
        "",
    ),
    Edit(
        "anew: a loss lies where it was seen",
        closing.stands_first,
        "loss.at - (loss.clock_error_s or 0.0)",
        "loss.at",
    ),
    Edit(
        "anew: what clearly was before a loss is compared with it",
        closing.stands_first,
        "fault.at < since and",
        "False and",
        "the comparison says the same: the guard saves it where thousands close at once",
    ),
    Edit(
        "anew: a loss in sight before hides a sooner one",
        closing.stands_first,
        "[*faults, other]",
        "[]",
    ),
    Edit(
        "anew: a loss is not compared with the one that is blamed",
        closing.stands_first,
        "faults if other is None else [*faults, other]",
        "faults",
        "the whole look finds the same culprit: the guard saves ten thousand looks at ten thousand",
    ),
    Edit(
        "anew: a stream that its kernel did not close is looked at",
        closing.stands_first,
        "if seat.closed_by_peer_at is not None else None",
        "",
        "the whole look leaves it out",
    ),
    Edit(
        "anew: a loss without a fault of its round is looked at", causes.standing_before, "if not faults:", "if False:"
    ),
    Edit(
        "anew: an answer to a question that was withdrawn counts",
        verdicts._is_withdrawn,
        "if event.question not in d.seen.questions.withdrawn:",
        "if True:",
    ),
    Edit(
        "anew: a policy that could not be asked before is unreachable",
        verdicts.on_unavailable,
        "if _is_withdrawn(d, event):",
        "if False:",
    ),
    Edit(
        "anew: what was asked before stays asked",
        Questions.put_anew,
        "if was_asked else self.withdrawn",
        "if False else self.withdrawn",
    ),
    Edit("anew: what was never asked is withdrawn", Questions.put_anew, "if was_asked else self.withdrawn", ""),
    Edit("anew: a later round is put anew no more", Questions.of_new_round, "anew=0", "anew=self.anew"),
    Edit("anew: a question has the number of the one before", Questions.asked, "self.newest + 1", "1"),
    Edit(
        "anew: the limit of a verdict runs from the last question",
        progressing.put_question,
        "earliest(d.seen.timers.verdict_at, due)",
        "due",
    ),
    Edit("blame: a launcher that leaves is a loss in sight", closing._in_sight, "seat.leaving is not None or", ""),
    Edit(
        "blame: a launcher that was given no place is a loss in sight",
        closing._in_sight,
        "or member_of_last(d.seen, seat) is None",
        "",
    ),
)
