"""Rules of a launcher about signals, crashes, hangs and clocks, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_launcher.core import aborts, clocks, crashes, hangs, notices, passing_on, struck
from tests.sim.edits import Edit

GUARDS: tuple[Edit, ...] = (
    Edit("struck: before whoever ended well", struck.struck_before, "if not exit_code:", "if exit_code is None:"),
    Edit("struck: before whoever a signal ended", struck.struck_before, "if not exit_code:", "if exit_code == 0:"),
    Edit("struck: by any signal", struck.struck_before, "if signal == SIGKILL", "if signal"),
    Edit("struck: at the same moment", struck.struck_before, "at - APART_S", "at + 0.0"),
    Edit("clocks: the newest beat holds alone", clocks.narrowed, "if known is None:", "if True:"),
    Edit(
        "clocks: clocks do not drift apart",
        clocks.narrowed,
        "known.error_s + DRIFT * max(0.0, news.at - known.at)",
        "known.error_s",
    ),
    Edit("clocks: a clock that was set is held to what was known", clocks.narrowed, "if low_s > high_s:", "if False:"),
    Edit(
        "clocks: what was known is forgotten below",
        clocks.narrowed,
        "max(known.offset_s - error_s, news.offset_s - news.error_s)",
        "news.offset_s - news.error_s",
    ),
    Edit(
        "clocks: what was known is forgotten above",
        clocks.narrowed,
        "min(known.offset_s + error_s, news.offset_s + news.error_s)",
        "news.offset_s + news.error_s",
    ),
    Edit(
        "clocks: an offset that nothing needs is told",
        clocks.ClockOffset.simplest,
        "if abs(self.offset_s) > self.error_s:",
        "if True:",
    ),
    Edit(
        "clocks: an offset that is needed is not told",
        clocks.ClockOffset.simplest,
        "if abs(self.offset_s) > self.error_s:",
        "if False:",
    ),
    Edit(
        "clocks: no offset is as sure as the middle",
        clocks.ClockOffset.simplest,
        "self.error_s + abs(self.offset_s)",
        "self.error_s",
    ),
    Edit(
        "clocks: the time at rendezvous counts as under way", clocks.measured, "- (answered - received)) / 2)", ") / 2)"
    ),
    Edit(
        "clocks: an error of less than nothing",
        clocks.measured,
        "max(0.0, ((back - sent) - (answered - received)) / 2)",
        "((back - sent) - (answered - received)) / 2",
    ),
    Edit(
        "passed on: to workers that are gone",
        passing_on.received,
        "if crew is not None and living else ()",
        "if crew is not None else ()",
    ),
    Edit(
        "passed on: to those that run it comes twice",
        passing_on.received,
        "if isinstance(state.phase, Running):",
        "if False:",
    ),
    Edit("passed on: it is kept by a launcher that leaves", passing_on.received, "and not leaves", ""),
    Edit(
        "passed on: it is kept where no workers are to run",
        passing_on.received,
        "isinstance(state.goal, (RunGoal, DownGoal)) and",
        "True and",
    ),
    Edit("passed on: one signal is kept twice", passing_on.received, "if kept.signal != signal", "if True"),
    Edit("passed on: old news", passing_on.started, "if now - kept.at <= KEPT_LIMIT_S", "if True"),
    Edit(
        "passed on: to every generation that follows",
        passing_on.started,
        "kept_signals=()",
        "kept_signals=state.kept_signals",
    ),
    Edit("notice: any signal", notices.given, "signal not in rules.drain_signals or", ""),
    Edit("notice: a second one", notices.given, "state.notice is not None or", ""),
    Edit(
        "notice: after the end",
        notices.given,
        "or isinstance(state.goal, (ExitGoal, EndGoal))",
        "",
        "a launcher that is to end is in no phase that waits with a notice",
    ),
    Edit("notice: where nobody can use it", notices.given, "if not _waits_with_notice(state, signal):", "if False:"),
    Edit(
        "notice: a newer early one moves the grace", notices.kept, " or (early is not None and now < early.ends_at)", ""
    ),
    Edit("notice: an early one is kept beside one that holds", notices.kept, "state.notice is not None or", ""),
    Edit("notice: an early one after the end", notices.kept, "or is_over", ""),
    Edit(
        "notice: an early one counts when its grace is over", notices.counts, " or now >= _kill_from(early, rules)", ""
    ),
    Edit("notice: an early one counts where no rank asks", notices.counts, " or not stops.asks(state.phase.crew)", ""),
    Edit(
        "notice: an early one counts at the end",
        notices.counts,
        "isinstance(state.goal, (ExitGoal, EndGoal))",
        "False",
        "a launcher that is to end runs nothing",
    ),
    Edit(
        "notice: the grace of an early one begins anew",
        notices.counts,
        "notice=early, early",
        "notice=replace(early, ends_at=after(now, rules.term_timeout_s)), early",
    ),
    Edit(
        "notice: workers are ended when the grace is over",
        notices._kill_from,
        "Instant(notice.ends_at - rules.limits.fault_grace_s)",
        "notice.ends_at",
    ),
    Edit("crash: of an older generation", crashes.heard, " or state.phase.crew.generation != event.generation", ""),
    Edit("crash: a world that is spared is ended", crashes.heard, "isinstance(event, CrashSpared)", "False"),
    Edit("crash: told twice", crashes.heard, "others != crew.condemned or", ""),
    Edit(
        "crash: of a rank of another node",
        crashes.heard,
        " or all(worker.rank != event.rank for worker in crew.workers)",
        "",
    ),
    Edit("crash: no world ends", crashes.over, "if one.due <= now", "if False"),
    Edit("crash: a world ends at once", crashes.over, "if one.due <= now", "if True"),
    Edit("crash: the end of another rank is its cause", crashes.ended, "if one.rank == rank", "if True"),
    Edit("crash: a rank that ended well ends its world", crashes.harmless, "if one.rank != rank", "if True"),
    Edit("crash: one is held against its rank twice", crashes._at_fault, "if one not in found", "if True"),
    Edit("hang: no look at the others", hangs.noticed, "if rules.captures is None:", "if True:"),
    Edit("hang: a look for whatever is ordered", hangs.ordered, "or because.code not in HANGS", ""),
    Edit("hang: a look beside another", hangs.ordered, " or crew.inspection is not None", ""),
    Edit(
        "hang: a look at nobody",
        hangs.ordered,
        "if not any(isinstance(w.state, Alive) and w.state.watch.reading is not None for w in crew.workers):",
        "if False:",
    ),
    Edit("hang: what is clear elsewhere is watched for long", hangs.ordered, "because.code in CLEAREST", "False"),
    Edit(
        "hang: a look has no end",
        hangs.is_looking,
        "and now < crew.inspection.until",
        "",
        "a look is given up by the tick at which its time is over",
    ),
    Edit("hang: a look that is over goes on", hangs.is_looking, "and not crew.inspection.is_over", ""),
    Edit("hang: one that moves again is ended", hangs.concluded, "if late is None:", "if False:"),
    Edit(
        "hang: whoever is late is to blame, whatever was seen",
        hangs.concluded,
        "_fault(culprit, now) if culprit is not None else late",
        "late",
    ),
    Edit(
        "hang: who was seen to hang is not told of",
        hangs.with_evidence,
        "crew.inspection is None or not crew.inspection.is_over",
        "True",
    ),
    Edit("hang: one is told of twice", hangs.with_evidence, "suspect.worker.rank not in known and", ""),
    Edit(
        "hang: all at one line are told of",
        hangs.with_evidence,
        "and _crowd(suspect.finding, crew.inspection.findings) < 2",
        "",
    ),
    Edit("hang: those within their limits are not looked at", hangs._culprit, "(*late, *others)", "late"),
    Edit(
        "hang: somebody is to blame where nobody is late",
        hangs._culprit,
        "if late else None",
        "if late or others else None",
    ),
    Edit(
        "hang: one that beat lately is to blame",
        hangs._clearly_hung,
        "if _is_late(s.reading, now) or _is_silent_for(s.reading, bound_s, now)]",
        "if True]",
    ),
    Edit(
        "hang: one that is not clear is to blame within its limit",
        hangs._clearly_hung,
        "if s.finding.how in CLEAR]",
        "if True]",
    ),
    Edit("hang: half of the silence of the latest is not enough", hangs._bound_s, "max(late) / 2", "max(late)"),
    Edit("hang: work is held to be a hang", hangs._bound_s, "min(limits) / 2", "0.0"),
    Edit(
        "hang: where nobody is late nobody hangs",
        hangs._bound_s,
        "return min(limits) / 2 if limits else None",
        "return None",
    ),
    Edit("hang: what is seen does not matter", hangs._order, "found.place, _crowd", "0, _crowd"),
    Edit("hang: a crowd at one line is to blame", hangs._order, "_crowd(found, findings),", "1,"),
    Edit(
        "hang: one within its limit before one past it", hangs._order, "not _is_late(reading, now), step", "False, step"
    ),
    Edit("hang: the furthest is to blame", hangs._order, " step, due", " -step, due"),
    Edit("hang: two at unknown lines are at one", hangs._crowd, " or not finding.where", ""),
    Edit("hang: any way to hang makes a crowd", hangs._crowd, "finding.how is not How.BLOCKED or", ""),
    Edit(
        "hang: one that never beat is silent for ever",
        hangs._is_silent_for,
        "and silent_s is not None and silent_s >= bound_s",
        "and (silent_s is None or silent_s >= bound_s)",
    ),
    Edit(
        "guards: a guard of an older generation",
        aborts.fired,
        " or state.phase.crew.generation != event.generation",
        "",
    ),
    Edit("guards: what is known is heard again", aborts.fired, "notice.key in state.phase.crew.aborts.heard", "False"),
    Edit(
        "guards: what is known is followed again", aborts.followed, "if notice.key not in crew.aborts.heard", "if True"
    ),
    Edit("guards: two orders for one phase", aborts._noted, "known or", ""),
    Edit("guards: an order that is over", aborts._noted, "notice.left_s <= 0 or", ""),
    Edit("guards: any number of phases", aborts._noted, " or len(fresh) >= FRESH_MOST", ""),
    Edit("guards: all that was ever heard is kept", aborts._noted, "[-HEARD_MOST:]", ""),
    Edit("guards: old news stays", aborts.over, "if now < one.until", "if True"),
    Edit("guards: what others said is told on", aborts.observed, "if one.is_own", "if True"),
)
