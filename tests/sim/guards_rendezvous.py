"""Guards of rendezvous, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_libs.core.lease import Lease
from resurge_rendezvous.core import (
    budgets,
    clearing,
    drains,
    endings,
    excluding,
    exclusions,
    faults,
    goals,
    hello,
    identity,
    losses,
    observing,
    operators,
    refunds,
    rounds,
    rules,
    starts,
    step,
    store,
    ticking,
    verdicts,
)
from resurge_rendezvous.relay.batch import UpBatch
from resurge_rendezvous.relay.links import Links
from tests.sim.edits import Edit, without

GUARDS: tuple[Edit, ...] = (
    # who is heard and let in
    Edit(
        "an old stream is heard", observing.heard_on, "seat is not None and seat.stream == stream", "seat is not None"
    ),
    Edit("a second launcher is let in", hello._wrong_launcher, "seat is None or seat.lease is None", "True"),
    Edit("an older incarnation is let in", hello._wrong_launcher, "hello.incarnation < entry.incarnation", "False"),
    Edit("an attached launcher is told to ask again", hello._wrong_launcher, "seat.stream is not None", "False"),
    Edit("a broken stream on another host is no claim", hello._wrong_launcher, "d.now >= returns_by", "True"),
    Edit("a silent launcher's place is free", hello._wrong_launcher, "hello.boot_id != entry.boot_id and", "True or"),
    Edit("an older attempt is let in", hello._wrong_job, "0 < presented.attempt < served.attempt", "False"),
    Edit("another job is let in", hello._wrong_job, "presented.job_id != served.job_id", "False"),
    Edit("specifications may differ", hello._wrong_job, "if field is None:", "if True:"),
    Edit("a specification is not looked at", hello._refused, "if violation is not None:", "if False:"),
    Edit("another protocol is let in", hello._refused, "hello.protocol_version != PROTOCOL_VERSION", "False"),
    Edit("an end not told to all is rerun", hello._begins_attempt, " or len(d.seen.unacknowledged) > 0", ""),
    Edit("a running attempt is rerun", hello._begins_attempt, "not isinstance(d.job.stage, Ended) or", "False or"),
    Edit("a lost node gets a lease by coming", hello._seat, "None if lost else renewed_lease", "renewed_lease"),
    Edit(
        "a newcomer inherits what was observed",
        hello._seat,
        "old is not None and same else NOTHING",
        "old is not None else NOTHING",
    ),
    Edit("a newcomer's predecessor is no fault", hello._seat, "if not same and old is not None:", "if False:"),
    Edit("a latecomer takes the leave back", hello._await_acknowledgement, "and len(d.seen.unacknowledged) > 0", ""),
    # leases
    Edit("a pause of the service is counted", ticking.on_paused, "max(0.0, event.for_s)", "0.0"),
    Edit(
        "a pause is counted to the predecessor",
        ticking._extended,
        "None if until is None else Instant(until + for_s)",
        "until",
    ),
    Edit("a late beat shortens a lease", Lease.renewed, "max(self.until, Instant(at + ttl_s))", "Instant(at + ttl_s)"),
    Edit(
        "a doomed node's beats count",
        observing._beaten,
        "lease is not None and seat.doomed is None",
        "lease is not None",
    ),
    Edit(
        "a stuck node goes on to hold its lease",
        observing._give_up_if_stuck,
        "seat.observed.phase is not NodePhase.STUCK",
        "True",
    ),
    Edit(
        "a teardown is waited for without end",
        ticking._give_up_teardown,
        "seat is not None and seat.doomed is None",
        "False",
    ),
    Edit("a lost runner does not get its lease back", losses._holds_running, "running is not None\n", "False\n"),
    Edit(
        "a runner of an older generation gets its lease back",
        losses._holds_running,
        "and seat.observed.generation == running.generation",
        "",
    ),
    Edit(
        "a finished node's loss is a fault",
        losses._fault_of_loss,
        "if seat.node not in d.seen.unfinished:",
        "if False:",
    ),
    Edit("a lost node need still acknowledge the end", losses.lose, "    acknowledged(d, seat)\n", ""),
    # clear, and the round
    Edit(
        "a member is clear before it was told",
        clearing.is_clear,
        "told_down or seat.observed.generation >= last.generation",
        "True",
    ),
    Edit(
        "the predecessor may still run",
        clearing.is_clear,
        "seat.predecessor_until is not None and d.now < seat.predecessor_until",
        "False",
    ),
    Edit("a round needs no verdict", rounds._outlook, "incident is not None and incident.verdict is None", "False"),
    Edit("a round waits for no teardown", rounds._outlook, "len(d.seen.busy) > 0", "False"),
    Edit("a round waits for no backoff", rounds._outlook, "not_before is not None and d.now < not_before", "False"),
    Edit("no last call", rounds._last_call, "if d.seen.last_call_over:", "if True:"),
    Edit("the last call has no end", rounds.last_call_over, "last_call_over=True", "last_call_over=False"),
    without("unreachable nodes are waited for without end", rounds.all_lost_over),
    Edit("a job without the strict fence goes on unseen", rounds.all_lost_over, "if d.spec.strict_fence:", "if True:"),
    Edit("a lease of the dead is not waited for", rounds._split_possible, "if d.now < last:", "if False:"),
    Edit(
        "the early look at MIN",
        rounds._outlook,
        "len(d.seen.ready) < d.spec.min_nodes",
        "False",
        "the plan looks at MIN again: this look only saves it the sorting",
    ),
    Edit("spares go before survivors", rules._survivors_first, "if entry.node in before][:count]", "if False][:count]"),
    # faults
    Edit(
        "a fault is not held while some have finished", faults.raise_faults, "if hold and some_finished:", "if False:"
    ),
    Edit("a held fault is never fenced", ticking._fence_held, "if d.seen.held_faults and", "if False and"),
    Edit("one claim is many faults", faults._new_faults, "if _claim(fault) not in seen:", "if True:"),
    Edit(
        "times of launchers are believed",
        faults.corrected,
        "max(0.0, min(at + offset_s, d.stamp.wall))",
        "at + offset_s",
    ),
    Edit("clocks are not corrected", faults.corrected, "seat.clock.offset_s if seat.clock is not None else 0.0", "0.0"),
    Edit(
        "workers that a launcher ended by itself are no fault",
        faults.faults_observed,
        "if not found and",
        "if False and",
    ),
    Edit(
        "workers of another generation are blamed",
        faults.faults_observed,
        "if observed.generation == formation.generation:",
        "if True:",
    ),
    without("a start is waited for without end", starts.start_phase_over),
    Edit(
        "a slow start is a fault for a script that tells nothing", starts.start_phase_over, "if not armed:", "if False:"
    ),
    # the verdict
    Edit("a verdict that nobody awaits is latched", verdicts._is_awaited, "incident.verdict is None and", ""),
    Edit(
        "a verdict of another round is latched",
        verdicts._is_awaited,
        "(incident.incident, incident.round) == (name, number)",
        "True",
    ),
    Edit("the budget is the policy's to hold", verdicts._held, "if budget.is_exhausted:", "if False:"),
    Edit(
        "the budget of a cause is the policy's to hold",
        verdicts._held,
        "bound is not None and bound.is_exhausted",
        "False",
    ),
    Edit("a latched STOP is forgotten", verdicts._held, "if d.job.no_restart is not None:", "if False:"),
    Edit(
        "a late STOP is not latched",
        verdicts._latch_late,
        "case VerdictKind.STOP if d.job.no_restart is None:",
        "case VerdictKind.STOP if False:",
    ),
    Edit(
        "a late verdict of another incident is taken", verdicts._latch_late, "if not _belongs(d, event):", "if False:"
    ),
    Edit(
        "policy is not asked again after a restart of the service",
        verdicts.verdict_due,
        "if not d.seen.policy_asked:",
        "if False:",
    ),
    # exclusions
    Edit(
        "an exclusion by a verdict may leave too few",
        excluding.exclude_by_verdict,
        "if not is_enough and",
        "if False and",
    ),
    Edit("an exclusion never ends", excluding.exclusions_over, "if wait_s <= 0:", "if False:"),
    Edit(
        "a machine is excluded twice",
        excluding._to_exclude,
        "machine if exclusion_of(d.job, machine) is None else None",
        "machine",
    ),
    Edit(
        "one machine under two names is excluded twice",
        excluding.exclude_by_verdict,
        "if exclusion_of(d.job, machine) is not None:",
        "if False:",
    ),
    Edit(
        "readmission frees one name only",
        exclusions.readmitted,
        "entry.node == node.node or any(",
        "entry.node == node.node or False and any(",
    ),
    Edit(
        "the exclusion does not follow the machine",
        exclusions.admitted,
        "exclusion_of(job, entry.identity), None",
        "None, None",
    ),
    Edit("the breaker forgets what was readmitted", exclusions.excluded, "if exclusion.is_automatic:", "if False:"),
    Edit(
        "an id given by hand is an id like others",
        identity.same_machine,
        "one.is_id_given or other.is_id_given",
        "False",
    ),
    # ends, refunds, drains
    Edit(
        "a second end replaces the first",
        endings.terminate,
        "isinstance(d.job.stage, (Ended, Unopened))",
        "isinstance(d.job.stage, Unopened)",
    ),
    Edit(
        "a job ends when one node has finished",
        endings.succeed_if_all_finished,
        "running is None or len(d.seen.unfinished) > 0",
        "running is None or len(d.seen.unfinished) == len(d.seen.members)",
    ),
    Edit(
        "all may leave before all know",
        goals.goal_of,
        "acknowledged = len(seen.unacknowledged) == 0",
        "acknowledged = True",
    ),
    Edit(
        "leftovers of a node that comes back may stay",
        goals._cleared,
        "seat.observed.phase not in _CLEAR or",
        "False and",
    ),
    Edit("more is given back than was spent", refunds.owes, "job.restarts_spent > job.refunded", "True"),
    Edit("a restart is given back too soon", refunds.refund_due, "if left_s > 0:", "if False:"),
    Edit("a second order to leave replaces the first", drains.order_drain, " or d.job.drain is not None:", ":"),
    Edit(
        "ranks are held before all have offered",
        drains._agree,
        "if known == 0 or known < len(d.seen.unfinished):",
        "if known == 0:",
    ),
    Edit("ranks stop before all are held", drains._agree, "counts.holding(hold) == known", "True"),
    Edit(
        "a drain has no restart that was given back",
        drains._has_restart,
        "may_restart_for(d.job, d.spec, cause_of(Reason.NODE_LEFT))",
        "d.job.restarts_spent < d.spec.max_restarts",
    ),
    Edit(
        "restarts given back are not left",
        budgets.budget_of,
        "max_restarts, spent, job.refunded",
        "max_restarts, spent, 0",
    ),
    Edit("a bound of a cause is none", budgets.may_restart_for, "bound.is_exhausted", "False"),
    Edit(
        "an offer that changes counts twice",
        drains._counts,
        "counts.changed(was, now)",
        "counts.changed(None, now)",
    ),
    Edit("whoever lost its seat has offered", losses.lose, "d.restated[node] = None", "pass"),
    # the store and orders
    Edit("a repeated write is written again", store.on_store, "if known is not None:", "if False:"),
    Edit(
        "a repeated order is carried out again",
        operators._repeated,
        "known if isinstance(known, OrderTaken) else None",
        "None",
    ),
    Edit(
        "an id of another call is taken",
        operators._repeated,
        "isinstance(known, OrderTaken) and known.order not in",
        "False and known.order not in",
    ),
    Edit("the key of the end may be written", store._violation, "if event.key == SHUTDOWN_KEY:", "if False:"),
    Edit(
        "beats move everything",
        step._decide,
        "if not isinstance(event, (e.BeatReceived, e.BeatsReceived)):",
        "if True:",
        "what a beat may not move does not move without news: the guard saves ten thousand looks",
    ),
    # a relay's
    Edit(
        "a relay keeps its launchers without a root",
        Links.let_go,
        "tuple(self._streams.values()), {}",
        "(), self._streams",
    ),
    Edit("a relay serves without a root", Links.open, "if not self.is_up:", "if False:"),
    Edit("a relay takes any number of launchers", Links.open, "len(self._streams) >= self._most", "False"),
    Edit(
        "a relay passes on what comes on a link that is over", Links.say, "if link not in self._streams:", "if False:"
    ),
    Edit("a relay does not tell that a launcher has gone", Links.go, "self.batch.go(link, by_peer)", "pass"),
    Edit(
        "a relay says that whoever has gone was cut off",
        UpBatch.go,
        "self._gone[link] = by_peer",
        "self._gone[link] = False",
    ),
    Edit("a relay forgets who introduces itself", UpBatch.say, "waiting.hello", "None"),
    Edit(
        "a relay passes on what the root has ended",
        UpBatch.forget,
        "said is not None and said.hello is not None",
        "False",
    ),
)
