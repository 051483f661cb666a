"""Guards of the launcher, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_launcher.core import absorb, control, crew, notices, pursue, stops, teardown
from resurge_launcher.core import step as launcher_step
from resurge_launcher.core.step import LauncherMachine
from resurge_launcher.core.ways import Ways
from tests.sim.edits import Edit, without

GUARDS: tuple[Edit, ...] = (
    # the lease and the way to rendezvous
    Edit(
        "a broken stream leaves the lease as it is",
        control.lost,
        "control.lease.shortened_to(after(now, resume_window_s))",
        "control.lease",
    ),
    Edit(
        "a lease counts from the answer",
        control.acknowledged,
        "held_since = control",
        "sent_at, held_since = now, control",
    ),
    Edit("workers without a lease go on for ever", control.stop_workers, "if due is None or now < due:", "if True:"),
    Edit(
        "the lease's end ends idle and busy workers alike",
        control.stop_at,
        "None if progress is None else max(control.lease.until, after(progress, rules.limits.hang_limit_s))",
        "control.lease.until",
    ),
    Edit(
        "a launcher without control never ends",
        control.end_without_control,
        "if due is None or now < due or control.lost_at is None:",
        "if True:",
    ),
    Edit(
        "the time without control counts from its first loss",
        control.lost,
        "now if control.lost_at is None else control.lost_at",
        "now",
    ),
    Edit("a relay without a root is gone around", Ways.failed, "if isinstance(problem, Unready):", "if False:"),
    # what is wanted
    Edit("an older order is obeyed", absorb._desired, "event.revision < state.revision_seen", "False"),
    Edit("a fenced generation is started", absorb._desired, "goal.generation < event.current_generation", "False"),
    Edit(
        "the end of the launcher is taken back",
        absorb._holds,
        "isinstance(present, (ExitGoal, EndGoal)) and not",
        "False and not",
    ),
    Edit("a fenced store is not told", absorb._desired, "event.current_generation > crew.generation", "False"),
    Edit(
        "the highest number seen is not remembered",
        absorb._desired,
        "max(state.highest_generation, event.current_generation, _generation(goal))",
        "state.highest_generation",
    ),
    Edit("a new stream goes on from the old revision", absorb._from_rendezvous, ", revision_seen=0)", ")"),
    # workers
    Edit("a start of another generation is taken", absorb._spawned, "crew.generation != event.generation or", ""),
    Edit("a start is taken twice", absorb._spawned, "if not crews.any_awaited(crew):", "if False:"),
    Edit(
        "workers that could not be started are no fault",
        absorb._spawned,
        "replace(crew, faults=(*crew.faults, Fault(event.because, now)))",
        "crew",
    ),
    Edit(
        "an end of another generation is taken",
        absorb._exited,
        "crew is None or crew.generation != event.generation",
        "crew is None",
    ),
    without("a worker that fails is no fault", crew.failure),
    Edit(
        "ends that the launcher brought about are faults",
        crew.failure,
        "record.succeeded or record.ended_by_launcher",
        "record.succeeded",
    ),
    Edit("silence without a lease is a hang", absorb._pages, " or not state.control.holds(now)", ""),
    Edit(
        "silence while the launcher stood still is a hang",
        absorb._pages,
        "state.judge_after is not None and now < state.judge_after",
        "False",
    ),
    Edit(
        "a hang limit goes on without a lease",
        crew._hung_at,
        "max(reading.hung_at, after(held_since, reading.hung_at - reading.last_beat_at))",
        "reading.hung_at",
    ),
    without("local ranks that end while others run are not missed", crew.finish_skew),
    Edit("milestones are told twice", crew._with_fresh, "if (m.rank, m.kind) not in known", "if True"),
    Edit("a stopped worker is not seen in a teardown", crew.with_stopped, "watch.reading.stopped and", "False and"),
    Edit(
        "pages are written when nothing moved",
        launcher_step._leased,
        "if until == old_until and not fresh:",
        "if False:",
        "a lease that is written once more says the same",
    ),
    # teardown
    Edit(
        "workers of a fenced generation go on",
        pursue._ordered_down,
        "generation >= crew.generation:\n            return because",
        "generation >= crew.generation:\n            return None",
    ),
    Edit(
        "a parked node's workers go on",
        pursue._ordered_down,
        "case ParkGoal(because):\n            return because",
        "case ParkGoal(because):\n            return None",
    ),
    Edit(
        "a newer generation starts beside the older",
        pursue._ordered_down,
        "case RunGoal(generation) if generation > crew.generation:",
        "case RunGoal(generation) if False:",
    ),
    Edit("a fault of a worker ends nobody", pursue._from_crew, "if found is not None:", "if False:"),
    Edit("a teardown is over before a look", pursue._from_teardown, "if teardown.over:", "if True:"),
    Edit(
        "what an older launcher left is not looked for",
        teardown.begin_leftovers,
        "return climb(Teardown(None, Generation(0), because, AT_ONCE, now), now)",
        "return nothing_left(Generation(0), because, now), ()",
    ),
    Edit("a look for another generation counts", absorb._strays_gone, "teardown.generation != generation or", ""),
    Edit(
        "nothing is looked for when the last worker is gone",
        teardown._swept,
        "replace(teardown, sweeping=True), (*actions, SweepStrays(teardown.generation, teardown.ladder.strays))",
        "replace(teardown, over=True), actions",
    ),
    Edit("newcomers in a teardown get no signal", teardown.workers_changed, "if newcomers:", "if False:"),
    Edit(
        "a node that cannot end its workers waits for ever",
        pursue._from_teardown,
        "if isinstance(phase, TearingDown) and now >=",
        "if False and now >=",
    ),
    Edit(
        "a spent offer of a port is offered again",
        pursue._from_teardown,
        "offer=None), (h.ReserveStore(), *looks)",
        "offer=state.offer), looks",
    ),
    Edit("an open checkpoint is not waited for", teardown.climb, "if teardown.held_until is not None:", "if False:"),
    Edit("destructors are waited for", teardown.climb, "if teardown.ladder.aborts and", "if False and"),
    Edit("a drain's workers are killed as they tidy up", teardown.climb, "teardown.ladder.aborts and", ""),
    Edit("one script that is over is enough", teardown._only_tidies, "w.state.pid in crew.tidying", "True"),
    Edit("all are killed where none is left", teardown._only_tidies, "not crews.any_alive(crew)", "False"),
    Edit("a script of another generation is over", absorb._tidies, "crew.generation != event.generation or", ""),
    Edit("a launcher leaves before its workers", pursue._gone, "return teardown.over or", "return True or"),
    Edit(
        "a launcher leaves before all know the end",
        pursue._from_exiting,
        "phase.decided and not acknowledged and now < phase.wait_until",
        "False",
    ),
    Edit(
        "a parked node that is excluded stays", pursue._from_ready, "because.code == Reason.EXCLUDED and", "False and"
    ),
    # leaving and stopping
    Edit(
        "a second interrupt is not obeyed at once", absorb._signalled, "if not crews.is_interrupt(signal):", "if True:"
    ),
    Edit(
        "a rank that has passed the border is not seen",
        stops.looked,
        "if any(_has_passed(reading, stop.held) for reading in _readings(crew)):",
        "if False:",
    ),
    Edit(
        "the look at a border comes too soon", stops.looked, "if now < after(stop.held_at, HOLD_LOOK_S):", "if False:"
    ),
    Edit("a launcher never decides for its own ranks", stops.followed, "if due is None or now < due:", "if True:"),
    Edit("a decided stop is decided again", stops.followed, "if stop.decided is not None:", "if False:"),
    Edit("a launcher told to leave never leaves", notices.over, "notice is None or due is None or now < due", "True"),
    Edit(
        "an exit waits for one of its two bounds", LauncherMachine._exit_deadline, "max(due, phase.wait_until)", "due"
    ),
)
