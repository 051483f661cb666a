"""The session: what it writes, when it is silent, and that it never stands in the way."""

import logging
import math
import os
import socket
import threading
import timeit

import pytest

from resurge import FenceLost, FenceState
from resurge.environment import WorkerEnvironment
from resurge.frames import Event, FrameDecoder, Hello, Milestone
from resurge.page import PAGE_BYTES, Cell, LauncherCells
from resurge.worker_session import Session


def test_attaching_says_who_and_when(worker):
    session = worker.session(beat_limit_s=2.0, cycle=1)
    view = worker.view()
    assert (view.pid, view.beat_limit_ns, view.beat_ns) == (os.getpid(), 2_000_000_000, 0)
    assert view.started_ns > 0
    assert (session.rank, session.world_size, session.generation, session.cycle) == (3, 4, 7, 1)
    assert session.armed


def test_beats_count_and_carry_the_step(worker):
    session = worker.session()
    session.beat(0)
    first = worker.view()
    session.beat()
    session.beat(2)
    last = worker.view()
    assert (first.beat_step, first.beat_count) == (0, 1)
    assert (last.beat_step, last.beat_count) == (2, 3)
    assert last.beat_ns >= first.beat_ns > 0


def test_a_committed_step_is_a_beat_and_the_first_is_kept(worker):
    session = worker.session()
    session.step_committed(41)
    session.step_committed(42)
    view = worker.view()
    assert (view.committed_step, view.first_commit_step, view.beat_step, view.beat_count) == (42, 41, 42, 2)
    assert view.commit_ns >= view.first_commit_ns > 0


def test_the_first_call_of_a_milestone_counts(worker):
    session = worker.session()
    session.process_group_ready()
    session.checkpoint_restored(10)
    before = worker.view()
    session.process_group_ready()
    session.checkpoint_restored(99)
    assert worker.view() == before
    assert before.checkpoint_restored_step == 10
    assert before.process_group_ready_ns > 0


def test_phases_nest_and_the_earliest_deadline_holds(worker):
    session = worker.session(beat_limit_s=2.0)
    with session.phase("checkpoint", limit=10):
        outer = worker.view().phase
        with session.phase("upload", limit=600):
            inner = worker.view().phase
        again = worker.view().phase
    assert (outer.name, outer.depth, outer.limit_ns) == ("checkpoint", 1, 10_000_000_000)
    assert (inner.name, inner.depth) == ("upload", 2)
    assert inner.deadline_ns == outer.deadline_ns == outer.opened_ns + outer.limit_ns
    assert again == outer
    view = worker.view()
    assert view.phase is None
    assert view.beat_count == 2, "leaving a phase is a beat"


def test_a_phase_ends_when_its_block_raises(worker):
    session = worker.session()
    with pytest.raises(KeyError):
        with session.phase("checkpoint"):
            raise KeyError
    assert worker.view().phase is None


def test_phases_of_two_threads_end_in_any_order(worker):
    session = worker.session()
    first_open, let_go = threading.Event(), threading.Event()

    def upload():
        with session.phase("upload"):
            first_open.set()
            let_go.wait(10)

    thread = threading.Thread(target=upload)
    thread.start()
    assert first_open.wait(10)
    with session.phase("evaluate"):
        let_go.set()
        thread.join(10)
        assert worker.view().phase.name == "evaluate"
    assert worker.view().phase is None


def test_the_outermost_with_closes(worker):
    session = worker.session()
    with session as outer, outer as inner:
        assert inner is session
    assert worker.view().closed_ns > 0
    with session:
        assert worker.view().closed_ns == 0


def test_leaving_by_an_exception_keeps_the_limits(worker):
    with pytest.raises(RuntimeError):
        with worker.session(beat_limit_s=1.0) as session:
            session.beat(1)
            raise RuntimeError
    assert worker.view().closed_ns == 0
    assert worker.view().hung_at_ns is not None


@pytest.mark.parametrize("step", ["one", None, -5, 2**80, [1]])
def test_a_bad_step_is_ignored_with_one_warning(worker, step, caplog):
    session = worker.session()
    caplog.set_level(logging.WARNING, "resurge")
    for _ in range(3):
        session.step_committed(step)
    assert len(caplog.records) == 1
    assert worker.view().first_commit_ns == 0


def test_without_a_launcher_nothing_happens():
    session = Session(WorkerEnvironment())
    assert not session.armed
    with session, session.phase("checkpoint", limit=1):
        session.beat(1)
        session.process_group_ready()
        session.checkpoint_restored(1)
        session.step_committed(1)
        session.event("note", value=1)
    answer = session.fence()
    assert (answer.state, answer.for_s, answer.holds) == (FenceState.HOLDS, math.inf, True)


@pytest.mark.parametrize("content", [None, b"", b"x" * PAGE_BYTES])
def test_a_broken_page_disarms_with_one_warning(tmp_path, content, caplog):
    path = tmp_path / "page"
    if content is not None:
        path.write_bytes(content)
    session = Session(WorkerEnvironment(page=str(path), socket=str(tmp_path / "none")))
    session.beat(1)
    session.step_committed(1)
    with session.phase("x", limit=1):
        session.process_group_ready()
    assert not session.armed
    assert len(caplog.records) == 1
    with pytest.raises(FenceLost, match="NO_PAGE"):
        session.fence()
    assert session.fence(strict=False).state is FenceState.UNKNOWN


def test_the_page_of_another_living_process_is_left_alone(worker):
    worker.session().beat(1)
    with open(worker.path, "r+b") as page:
        page.seek(Cell.PID * 8)
        page.write(os.getppid().to_bytes(8, "little"))
    before = worker.view()
    other = worker.session()
    other.beat(9)
    assert not other.armed
    assert worker.view() == before


# -- the link


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(tmp_path / "launcher.sock"))
        server.listen()
        server.settimeout(10)
        yield server


def received(listener, count):
    decoder, frames = FrameDecoder(), []
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(10)
        while len(frames) < count:
            frames += decoder.feed(connection.recv(4096))
    return frames


def test_milestones_wake_the_launcher_and_agree_with_the_page(worker, listener):
    session = worker.session(socket=listener.getsockname(), traceparent="00-aa-bb-01")
    session.process_group_ready()
    session.checkpoint_restored(5)
    session.step_committed(6)
    session.step_committed(7)
    session.event("note", text="x")
    hello, ready, restored, first, note = received(listener, 5)
    view = worker.view()
    assert isinstance(hello, Hello)
    assert (hello.speaker.pid, hello.speaker.rank, hello.speaker.generation) == (os.getpid(), 3, 7)
    assert ready == Milestone(hello.speaker, "process_group_ready", view.process_group_ready_ns)
    assert restored == Milestone(hello.speaker, "checkpoint_restored", view.checkpoint_restored_ns, 5)
    assert first == Milestone(hello.speaker, "first_step", view.first_commit_ns, 6)
    assert isinstance(note, Event)
    assert all(frame.speaker.traceparent == "00-aa-bb-01" for frame in (hello, ready, restored, first, note))


def test_a_missing_socket_costs_one_warning_and_no_milestone(worker, tmp_path, caplog):
    session = worker.session(socket=str(tmp_path / ("none" * 60)))
    session.process_group_ready()
    session.checkpoint_restored(1)
    session.step_committed(2)
    assert len(caplog.records) == 1
    assert worker.view().first_commit_step == 2


def test_a_launcher_that_does_not_read_never_blocks(worker, listener, caplog):
    session = worker.session(socket=listener.getsockname())
    for _ in range(2_000):
        session.event("note", text="x" * 900)
    assert len(caplog.records) == 1
    session.step_committed(1)
    assert worker.view().committed_step == 1


def test_an_event_that_cannot_be_sent_is_only_a_warning(worker, listener, caplog):
    session = worker.session(socket=listener.getsockname())
    session.event("note", lock=threading.Lock())
    session.event("note", nan=math.nan)
    session.process_group_ready()
    assert len(received(listener, 2)) == 2


# -- the fence


def test_the_fence_says_for_how_long(worker):
    answer = worker.session().fence(wait=0)
    assert answer.holds
    assert 3000 < answer.for_s <= 3600


def test_a_fenced_generation_raises_at_once_whatever_the_lease(worker):
    worker.launcher.set_fenced()
    session = worker.session()
    for strict in (True, False):
        with pytest.raises(FenceLost) as lost:
            session.fence(wait=1000, strict=strict)
        assert lost.value.reason == "GENERATION_FENCED"


def test_a_lease_that_is_over(worker):
    worker.launcher.set_lease(1)
    session = worker.session()
    with pytest.raises(FenceLost, match="LEASE_OVER"):
        session.fence(wait=0.02)
    assert session.fence(wait=0.0, strict=False).state is FenceState.UNKNOWN


def test_the_fence_waits_as_long_as_the_launcher_set_unless_the_script_says(worker):
    worker.launcher.set_lease(1)
    session = worker.session(fence_wait_s=0.02)
    with pytest.raises(FenceLost, match=r"within 0\.02 s"):
        session.fence()
    with pytest.raises(FenceLost, match=r"within 0\.01 s"):
        session.fence(wait=0.01)


def test_the_fence_waits_for_the_lease_to_come_back(worker):
    worker.launcher.set_lease(1)
    session = worker.session(beat_limit_s=0.001)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(session.fence(wait=30)))
    thread.start()
    waiting = threading.Event()
    for _ in range(1000):
        phase = worker.view().phase
        if phase is not None:
            break
        waiting.wait(0.01)
    assert (phase.name, phase.limit_ns) == ("resurge.fence", 31_000_000_000), "a waiting fence is no hang"
    worker.launcher.set_lease(2**63)
    thread.join(10)
    assert answers[0].holds


def test_a_fence_that_falls_while_waiting_raises(worker):
    worker.launcher.set_lease(1)
    session = worker.session()
    timer = threading.Timer(0.05, worker.launcher.set_fenced)
    timer.start()
    with pytest.raises(FenceLost, match="GENERATION_FENCED"):
        session.fence(wait=30)
    timer.join()


# -- cost


def test_calls_are_cheap(worker):
    """Bounds are wide: they catch a system call or a lock in the loop, not a slow machine."""
    armed, idle = worker.session(), Session(WorkerEnvironment())
    calls = 20_000

    def us(call):
        return min(timeit.repeat(call, number=calls, repeat=5)) / calls * 1e6

    nothing_us = us(lambda: None)
    idle_us = us(lambda: idle.beat(7))
    beat_us = us(lambda: armed.beat(7))
    commit_us = us(lambda: armed.step_committed(7))
    print(f"empty call {nothing_us:.3f} us, idle {idle_us:.3f}, beat {beat_us:.3f}, step_committed {commit_us:.3f}")
    assert idle_us < 20 * nothing_us + 1.0
    assert beat_us < 100 * nothing_us + 5.0
    assert commit_us < 100 * nothing_us + 5.0


def test_the_page_survives_the_launchers_file_being_removed(worker):
    session = worker.session()
    os.unlink(worker.path)
    session.beat(1)
    assert worker.launcher.cells[Cell.BEAT_COUNT] == 1
    assert isinstance(worker.launcher, LauncherCells)
