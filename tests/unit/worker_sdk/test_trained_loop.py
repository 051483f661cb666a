"""A framework's loop as its callbacks tell of it: sections, limits, guards, checkpoints, ends. Without a framework."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from resurge import CollectiveAborted, FenceLost, sections, trained_loop, worker_session
from resurge.limits import GivenLimits
from resurge.sections import LEARNED_FLOOR_S, Sections
from resurge.trained_loop import LoopEnd, Protection, TrainedLoop
from resurge.worker_session import Session
from resurge_libs.testing import wait_until

S = 1_000_000_000


@dataclass
class Clock:
    """Stands still until it is told to go on."""

    now_ns: int = 1_000 * S

    def monotonic_ns(self) -> int:
        return self.now_ns

    def go(self, seconds: float) -> None:
        self.now_ns += int(seconds * S)


@dataclass
class Stage:
    """A loop under a launcher's page, on a clock of its own."""

    worker: object
    monkeypatch: pytest.MonkeyPatch
    clock: Clock = field(default_factory=Clock)
    own: Session | None = None

    def loop(self, protection: Protection | None = None, **told) -> TrainedLoop:
        self.own = self.own or self.worker.session(**told)
        self.monkeypatch.setattr(trained_loop, "session", lambda: self.own)
        return TrainedLoop(protection or Protection(crash_guard=False))

    def freeze(self) -> None:
        for module in (sections, "resurge.phases"):
            self.monkeypatch.setattr(f"{module if isinstance(module, str) else module.__name__}.time", self.clock)
        self.monkeypatch.setattr(worker_session, "_monotonic_ns", self.clock.monotonic_ns)

    def due_s(self) -> float | None:
        at_ns = self.worker.view().hung_at_ns
        return None if at_ns is None else (at_ns - self.clock.now_ns) / S

    @property
    def phase(self) -> str:
        phase = self.worker.view().phase
        return "" if phase is None else phase.name


@pytest.fixture
def stage(worker, monkeypatch):
    return Stage(worker, monkeypatch)


class Group:
    """Blocks until it is aborted."""

    def __init__(self) -> None:
        self.broken = threading.Event()

    def abort(self) -> None:
        self.broken.set()


def test_each_part_of_the_loop_is_a_section_and_each_step_is_committed(stage):
    loop = stage.loop()
    loop.begin()
    assert stage.phase == "setup"
    loop.restored(40)
    loop.step_begins()
    assert stage.phase == "step"
    assert loop.step_ends(41) is False
    loop.evaluation_begins()
    assert stage.phase == "evaluation"
    loop.evaluation_ends()
    loop.checkpoint_begins()
    assert stage.phase == "checkpointing"
    loop.checkpoint_ends()
    assert stage.phase == "" and loop.end is None
    loop.completed()
    view = stage.worker.view()
    assert (view.checkpoint_restored_step, view.committed_step, loop.end) == (40, 41, LoopEnd.COMPLETED)
    assert view.process_group_ready_ns > 0 and view.closed_ns > 0, "no beat is due after the end"


def test_a_batch_whose_gradients_are_kept_is_a_beat_and_no_step(stage):
    loop = stage.loop()
    loop.restored(0)
    loop.step_begins()
    before = stage.worker.view().beat_count
    loop.part_ends()
    assert loop.step_ends(0) is False
    view = stage.worker.view()
    assert view.committed_step is None and view.beat_count > before


def test_a_section_with_a_limit_has_it_instead_of_the_beats_and_one_without_is_left_to_them(stage):
    stage.freeze()
    loop = stage.loop(Protection(sections={"step": 5.0}, crash_guard=False), beat_limit_s=60.0)
    loop.restored(0)
    loop.step_begins()
    assert stage.due_s() == 5
    loop.step_ends(1)
    assert stage.due_s() == 60
    loop.evaluation_begins()
    stage.clock.go(10)
    assert stage.due_s() == 50
    loop.checkpoint_begins()
    assert stage.due_s() == 600, "no checkpoint is without a limit, nor under that of the beats"


def test_limits_of_the_script_come_before_the_launchers_and_the_first_steps_may_take_longer(stage):
    stage.freeze()
    told = GivenLimits(sections_s={"step": 7.0, "setup": 90.0, "warmup": 50.0, "unknown": 1.0}, warmup_steps=2)
    loop = stage.loop(Protection(sections={"setup": 30.0}, crash_guard=False), limits=told)
    loop.begin()
    assert stage.due_s() == 30
    loop.restored(0)
    seen = []
    for step in range(4):
        loop.step_begins()
        seen.append(stage.due_s())
        loop.step_ends(step + 1)
    assert seen == [50, 50, 7, 7]


def test_the_time_between_sections_has_its_limit_from_the_first_step_on(stage):
    stage.freeze()
    loop = stage.loop(Protection(out_of_section_s=20.0, crash_guard=False))
    loop.restored(0)
    assert loop.sections is not None
    loop.sections.end("setup")
    assert stage.due_s() is None, "what comes before the first step takes its time"
    loop.step_begins()
    assert stage.due_s() is None
    loop.step_ends(1)
    assert stage.due_s() == 20
    stage.clock.go(8)
    assert stage.due_s() == 12
    loop.step_begins()
    assert stage.due_s() is None
    loop.completed()
    assert stage.due_s() is None


def test_what_was_learned_is_saved_and_holds_after_the_next_start(stage):
    stage.freeze()
    plan = Protection(sections={"setup": 500.0}, learn=True, crash_guard=False)
    loop = stage.loop(plan, limits=GivenLimits(safety_factor=3.0))
    loop.restored(0)
    for step, took_s in enumerate((8.0, 6.0)):
        loop.step_begins()
        stage.clock.go(took_s)
        loop.step_ends(step + 1)
        stage.clock.go(30.0)
    loop.checkpoint_begins()
    saved = loop.state_dict()
    loop.checkpoint_ends()
    loop.completed()

    again = stage.loop(plan)
    again.load_state_dict(saved)
    again.begin()
    assert stage.due_s() == LEARNED_FLOOR_S, "setup took no time at all, and no limit is shorter than the floor"
    again.restored(2)
    again.step_begins()
    assert stage.due_s() == 24
    again.step_ends(3)
    assert stage.due_s() == 90
    again.checkpoint_begins()
    assert stage.due_s() == 600, "no checkpoint had ended when this was learned"


def test_a_section_that_was_never_seen_learns_nothing(worker):
    nothing = Sections(worker.session(), {})
    nothing.learn()
    assert nothing.state_dict() == {}
    nothing.load_state_dict({})
    assert nothing.limits.section == {"checkpointing": 600.0}


def test_a_fenced_rank_writes_no_checkpoint(stage):
    loop = stage.loop()
    loop.restored(3)
    stage.worker.launcher.set_fenced()
    with pytest.raises(FenceLost):
        loop.checkpoint_begins()
    assert stage.phase == "setup"


def test_a_checkpoint_of_a_function_that_restarts_in_place_is_atomic_until_it_ends_or_the_next_step(stage):
    depth = []

    class Call:
        def atomic(self):
            import contextlib

            @contextlib.contextmanager
            def inside():
                depth.append("in")
                yield
                depth.append("out")

            return inside()

    loop = stage.loop(Protection(call=Call()))
    loop.restored(0)
    loop.checkpoint_begins()
    loop.checkpoint_begins()
    assert depth == ["in"], "a save inside a save is the same one"
    loop.checkpoint_ends()
    assert depth == ["in", "out"]
    loop.checkpoint_begins()
    loop.step_begins()
    assert depth == ["in", "out"] * 2, "a save that nobody told the end of has ended"
    loop.checkpoint_begins()
    loop.failed(OSError("disk full"))
    assert depth == ["in", "out"] * 3


def test_a_step_that_is_stuck_is_aborted_and_not_committed(stage):
    group = Group()
    loop = stage.loop(Protection(deadlines={"step": 0.05}, groups=lambda: [group, None], crash_guard=False))
    loop.restored(0)
    loop.step_begins()
    assert group.broken.wait(20)
    with pytest.raises(CollectiveAborted, match="step passed its deadline"):
        loop.step_ends(1)
    assert stage.worker.view().committed_step is None


def test_an_error_after_the_deadline_is_told_as_what_the_guard_made_of_it(stage):
    group = Group()
    loop = stage.loop(Protection(deadlines={"evaluation": 0.05}, groups=lambda: [group], crash_guard=False))
    loop.restored(0)
    loop.evaluation_begins()
    assert group.broken.wait(20)
    error = RuntimeError("connection closed")
    aborted = loop.failed(error)
    assert isinstance(aborted, CollectiveAborted) and aborted.__cause__ is error
    assert loop.end is LoopEnd.FAILED and stage.phase == ""
    assert stage.worker.view().closed_ns == 0, "its limits stay, for a process that hangs while it dies"
    assert loop.failed(error) is None


def test_a_guard_that_did_not_fire_leaves_an_error_as_it_is(stage):
    loop = stage.loop(Protection(deadlines={"step": 60.0}, groups=lambda: [Group()], crash_guard=False))
    loop.restored(0)
    loop.step_begins()
    assert loop.failed(ValueError("bad batch")) is None


@pytest.mark.usefixtures("kills")
def test_an_error_before_the_end_is_a_crash_and_one_after_it_is_none(stage, virtual):
    loop = stage.loop(Protection())
    loop.restored(0)
    loop.step_begins()
    loop.failed(ValueError("bad batch"))
    assert len(virtual.made) == 1, "the world of four ranks is to end"

    again = stage.loop(Protection())
    again.restored(0)
    again.completed()
    assert again.failed(ValueError("in teardown")) is None and again.end is LoopEnd.COMPLETED
    assert len(virtual.made) == 1


def test_a_loop_that_is_told_to_stop_says_so_at_its_end(stage):
    loop = stage.loop()
    loop.restored(0)
    loop.step_begins()
    stage.worker.launcher.stop_at(1)
    assert loop.step_ends(1) is True and loop.is_told
    loop.completed()
    assert loop.end is LoopEnd.STOPPED


def test_a_loop_begins_anew_after_its_end(stage):
    loop = stage.loop()
    loop.restored(0)
    loop.completed()
    loop.begin()
    assert stage.phase == "setup" and loop.end is None and stage.worker.view().closed_ns == 0


def test_a_loop_that_begins_once_more_without_an_end_keeps_what_was_begun(stage):
    loop = stage.loop(Protection(deadlines={"step": 60.0}, groups=lambda: [Group()], crash_guard=False))
    loop.begin()
    loop.restored(0)
    loop.step_begins()
    loop.restored(0)
    assert stage.phase == "", "as after a batch that was too large: setting up was over, and no step is open"
    loop.step_begins()
    assert stage.phase == "step"


def test_without_a_launcher_the_calls_go_through(monkeypatch):
    monkeypatch.setattr(trained_loop, "session", lambda: worker_session.Session(worker_session.WorkerEnvironment()))
    loop = TrainedLoop(Protection(sections={"step": 1.0}, learn=True))
    loop.part_ends()
    loop.step_begins()
    assert loop.step_ends(1) is False, "nothing has begun"
    loop.evaluation_ends()
    loop.checkpoint_begins()
    loop.completed()
    assert loop.end is None
    loop.restored(0)
    loop.step_begins()
    loop.step_ends(1)
    loop.checkpoint_begins()
    loop.checkpoint_ends()
    loop.completed()
    assert loop.end is LoopEnd.COMPLETED


def test_without_torch_there_is_no_group_to_abort(stage, monkeypatch):
    monkeypatch.setitem(trained_loop.sys.modules, "torch.distributed", None)
    loop = stage.loop(Protection(deadlines={"step": 60.0}, crash_guard=False))
    loop.restored(0)
    loop.step_begins()
    loop.step_ends(1)
    assert loop._members() == ()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sections": {"steps": 5}}, "no section 'steps'; known are setup, step, evaluation, checkpointing, warmup"),
        ({"sections": {"step": 0}}, r"sections, step\): 0 is no positive number of seconds"),
        ({"deadlines": {"setup": 5}}, "no section 'setup'"),
        ({"deadlines": {"step": float("inf")}}, "inf is no positive number"),
        ({"deadlines": {"step": "60"}}, "'60' is no positive number"),
        ({"out_of_section_s": -1}, r"Protection\(out_of_section_s\): -1 is no positive number"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Protection(**given)


def test_a_guard_that_fires_between_two_looks_is_seen_at_the_next(stage):
    group = Group()
    loop = stage.loop(Protection(deadlines={"checkpointing": 0.05}, groups=lambda: [group], crash_guard=False))
    loop.restored(0)
    loop.checkpoint_begins()
    wait_until(group.broken.is_set, 20, "the abort")
    with pytest.raises(CollectiveAborted, match="checkpointing"):
        loop.checkpoint_ends()
