"""The parts of a restart in place: who gets which rank, and how a function is left."""

from __future__ import annotations

import dataclasses
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resurge.environment import RANK, WORLD_SIZE, WorkerEnvironment
from resurge.frames import FrameDecoder, FrameError, Mustered, Speaker, decode, encode
from resurge.inprocess import RankShouldRestart, RestartAbort, Wrapper, fill_gaps, shift_ranks
from resurge.inprocess.interrupting import SETTLE_S, Attempt
from resurge.inprocess.line import Line, LineLost
from resurge.inprocess.wrapper import _arrive, _Run
from resurge.muster import Answer, AnswerDecoder
from resurge_libs.testing import wait_until

Answers = Callable[[Mustered], list[Answer] | None]


@pytest.mark.parametrize(
    ("before", "living", "shifted", "filled"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 1, 2, 3], [0, 2, 3], [0, 2, 3], [0, 3, 2]),
        ([0, 1, 2, 3], [1, 2, 3], [1, 2, 3], [3, 1, 2]),
        ([0, 1, 2, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]),
        ([0, 1, 2, 3, 4], [2, 4], [2, 4], [4, 2]),
        ([0, 1, 2, 3], [0, 1], [0, 1], [0, 1]),
        ([3, 0, 2, 1], [0, 1, 2], [0, 2, 1], [1, 0, 2]),
        ([0, 1], [], [], []),
    ],
)
def test_ranks_are_given_from_who_is_left(before, living, shifted, filled):
    assert shift_ranks(before, living, 0) == shifted
    assert fill_gaps(before, living, 0) == filled


def test_a_loop_in_python_is_left_by_an_exception_and_nothing_comes_later():
    attempt = Attempt(3)
    entered = threading.Event()
    threading.Thread(target=lambda: (entered.wait(10), attempt.interrupt(3, "rank 1 died")), daemon=True).start()
    with pytest.raises(RankShouldRestart):
        while True:
            entered.set()
    attempt.left()
    for _ in range(100_000):
        pass
    assert attempt.sentence == "rank 1 died"


@pytest.mark.parametrize("wait", [threading.Event().wait, signal.pause], ids=["lock", "call"])
def test_a_wait_in_the_main_thread_is_left_too(wait):
    attempt = Attempt(0)
    threading.Thread(target=attempt.interrupt, args=(0, "now"), daemon=True).start()
    with pytest.raises(RankShouldRestart):
        wait()
    attempt.left()


def test_another_thread_is_interrupted_where_it_runs_python_code():
    seen = []

    def run() -> None:
        attempt = Attempt(0)
        threading.Thread(target=attempt.interrupt, args=(0, "now"), daemon=True).start()
        try:
            while True:
                pass
        except RankShouldRestart:
            attempt.left()
            seen.append("left")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert seen == ["left"]


def test_what_is_atomic_is_finished_first():
    attempt, done = Attempt(0), []
    entered = threading.Event()
    threading.Thread(target=lambda: (entered.wait(10), attempt.interrupt(0, "now")), daemon=True).start()
    with pytest.raises(RankShouldRestart):
        with attempt.atomic():
            entered.set()
            while not attempt.sentence:
                pass
            done.append("whole")
        while True:
            pass
    attempt.left()
    assert done == ["whole"]


def test_groups_are_aborted_before_anything_is_raised():
    class Group:
        def __init__(self) -> None:
            self.broken = threading.Event()

        def abort(self) -> None:
            self.broken.set()

    attempt, group = Attempt(0), Group()
    attempt.groups.append(group)
    threading.Thread(target=attempt.interrupt, args=(0, "now"), daemon=True).start()
    assert group.broken.wait(10)
    attempt.left()


def test_an_attempt_that_is_over_or_another_one_is_not_interrupted():
    attempt = Attempt(1)
    attempt.interrupt(0, "older")
    assert not attempt.sentence
    attempt.left()
    attempt.interrupt(1, "late")
    assert not attempt.sentence


def test_without_a_launcher_the_function_is_called_once_as_it_is():
    seen = []

    @Wrapper()
    def train(step, call):
        seen.append((step, call.iteration, call.rank, call.world_size))
        return "done"

    assert train(7) == "done" and seen == [(7, 0, 0, 1)]
    with pytest.raises(ZeroDivisionError):
        Wrapper()(lambda: 1 // 0)()


def test_words_and_answers_survive_the_socket():
    said = Mustered(Speaker(1, 2, 3), "broken", 4, "ValueError: x", 5, 6)
    assert decode(encode(said)[4:]) == said
    with pytest.raises(FrameError, match="one of join, broken, done, abort"):
        encode(Mustered(Speaker(1, 2, 3), "gone", 4))
    answers = [Answer("start", 2, "", (0, 3)), Answer("interrupt", 2, "rank 3 died")]
    data = b"".join(answer.encoded() for answer in answers)
    decoder = AnswerDecoder()
    assert decoder.feed(data[:9]) == [] and decoder.feed(data[9:]) == answers
    for broken in (b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff"):
        with pytest.raises(FrameError):
            AnswerDecoder().feed(broken)


class Launcher:
    """Hears one rank, and answers each of its words at once and in one write; closes the line at None."""

    def __init__(self, path: Path, answers: Answers) -> None:
        self.told = WorkerEnvironment(page=str(path / "page"), socket=str(path / "socket"), world_size=1)
        self.heard: list[tuple[str, int]] = []
        self._answers = answers
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.told.socket)
        self._server.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        decoder = FrameDecoder()
        with connection:
            while data := connection.recv(65536):
                for frame in decoder.feed(data):
                    if isinstance(frame, Mustered):
                        self.heard.append((frame.kind, frame.iteration))
                        answers = self._answers(frame)
                        if answers is None:
                            return
                        if answers:
                            connection.sendall(b"".join(answer.encoded() for answer in answers))

    def close(self) -> None:
        self._server.close()
        self._thread.join(20)


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answers], Launcher]]:
    made: list[Launcher] = []
    monkeypatch.setenv(RANK, "0")
    monkeypatch.setenv(WORLD_SIZE, "1")

    def make(answers: Answers) -> Launcher:
        made.append(Launcher(tmp_path, answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run_under(found: Launcher, function: Callable[..., object], plan: Wrapper | None = None) -> object:
    run = _Run(plan or Wrapper(), function, takes_call=True)
    run._told = found.told
    line = Line(found.told, run._interrupt)
    try:
        return run._iterate(line)
    finally:
        line.close()


@pytest.mark.parametrize(("local_world_size", "spans_nodes"), [(1, False), (2, True), (0, True)])
def test_whoever_joins_says_whether_it_meets_ranks_of_other_nodes(launcher, local_world_size: int, spans_nodes: bool):
    said: list[bool] = []

    def answers(word: Mustered) -> list[Answer]:
        said.append(word.spans_nodes)
        return [Answer("over" if word.kind == "done" else "start", word.iteration, "", (0,))]

    found = launcher(answers)
    found.told = dataclasses.replace(found.told, local_world_size=local_world_size)
    run_under(found, lambda call: None)
    assert said == [spans_nodes, False], "to join, and no more"


def test_a_fault_told_together_with_the_start_interrupts_too(launcher):
    def answers(word: Mustered) -> list[Answer]:
        start = Answer("start", word.iteration, "", (0,))
        if word.kind == "done":
            return [Answer("over", word.iteration)]
        return [start, Answer("interrupt", 0, "rank 1 died")] if word.iteration == 0 else [start]

    def function(call):
        if call.iteration == 0:
            threading.Event().wait(20)
            raise AssertionError("the iteration that was broken was not left")
        return call.iteration

    found = launcher(answers)
    assert run_under(found, function) == 1
    assert found.heard == [("join", 0), ("join", 1), ("done", 1)]


class Settling:
    """A group as of gloo: it is bounded first, and cut a while later."""

    def __init__(self) -> None:
        self.bounds: list[float] = []
        self.cut_at: list[float] = []
        self.cut = threading.Event()

    def enter_guard(self, deadline_s: float) -> None:
        self.bounds.append(deadline_s)

    def abort(self) -> None:
        self.cut_at.append(time.monotonic())
        self.cut.set()


def test_transfers_over_gloo_settle_before_a_connection_is_cut():
    attempt, group = Attempt(0), Settling()
    attempt.add(group)
    started_s = time.monotonic()
    threading.Thread(target=attempt.interrupt, args=(0, "now"), daemon=True).start()
    assert group.cut.wait(10)
    attempt.left()
    assert len(group.bounds) == 1 and started_s + SETTLE_S <= group.bounds[0] <= group.cut_at[0] + 1e-3
    attempt.settle()
    assert len(group.bounds) == 1, "once"


def test_a_rank_whose_own_function_has_failed_lets_its_peers_settle_too(launcher):
    group, failed_s = Settling(), []

    def answers(word: Mustered) -> list[Answer]:
        about = {"join": "start", "broken": "interrupt", "done": "over"}
        return [Answer(about[word.kind], word.iteration, "why", (0,))]

    def function(call):
        if call.iteration == 0:
            call.add(group)
            failed_s.append(time.monotonic())
            raise ValueError("on purpose")
        return "done"

    assert run_under(launcher(answers), function) == "done"
    assert group.cut_at[0] - failed_s[0] >= SETTLE_S


def test_a_group_made_after_the_interrupt_is_aborted_at_once():
    attempt, late = Attempt(0), Settling()

    class Early:
        def abort(self) -> None:
            attempt.add(late)

    attempt.add(Early())
    threading.Thread(target=attempt.interrupt, args=(0, "now"), daemon=True).start()
    with pytest.raises(RankShouldRestart):
        threading.Event().wait(10)
    attempt.left()
    assert late.cut.wait(10) and len(late.cut_at) == 1


@pytest.mark.parametrize("error", [RestartAbort("no use"), SystemExit(3), KeyboardInterrupt()])
def test_what_is_not_to_be_restarted_from_in_place_is_said_so_and_raised(launcher, error):
    found = launcher(lambda word: [Answer("start", word.iteration, "", (0,))] if word.kind == "join" else [])

    def function(call):
        raise error

    with pytest.raises(type(error)):
        run_under(found, function)
    found.close()
    assert found.heard == [("join", 0), ("abort", 0)]


def test_no_beat_is_due_from_a_rank_that_waits_for_the_others(launcher, worker, monkeypatch):
    found_session = worker.session(beat_limit_s=60.0)
    monkeypatch.setattr("resurge.inprocess.wrapper.session", lambda: found_session)
    due: dict[str, int | None] = {}

    def answers(word: Mustered) -> list[Answer]:
        about = {"join": "start", "broken": "interrupt", "done": "over"}
        wait_until(lambda: worker.view().beat_ns == 0, 10, "the rest")
        due[f"{word.kind} {word.iteration}"] = worker.view().hung_at_ns
        return [Answer(about[word.kind], word.iteration, "why", (0,))]

    def function(call):
        due[f"start {call.iteration}"] = worker.view().hung_at_ns
        found_session.beat(1)
        assert worker.view().hung_at_ns is not None
        if call.iteration == 0:
            raise ValueError("on purpose")

    found_session.beat(0)
    run_under(launcher(answers), function)
    words = ("join 0", "start 0", "broken 0", "join 1", "start 1", "done 1")
    assert due == dict.fromkeys(words)


@pytest.mark.parametrize(("limit_s", "holds"), [(600.0, True), (0.000001, False)])
def test_the_limit_of_a_first_beat_holds_again_unless_it_is_over(worker, limit_s, holds):
    found_session = worker.session()
    found_session.set_first_beat_limit(limit_s)
    with found_session.resting():
        assert worker.view().hung_at_ns is None
    assert (worker.view().hung_at_ns is not None) == holds


def test_a_rank_in_reserve_says_so(launcher):
    def answers(word: Mustered) -> list[Answer]:
        return {"join": [Answer("start", 0, "", (0, 1))], "reserve": [Answer("over", 0)]}[word.kind]

    plan = Wrapper(active_world_size=1, assign=lambda before, living, active: [1, 0])
    found = launcher(answers)
    assert run_under(found, lambda call: pytest.fail("it is in reserve"), plan) is None
    assert found.heard == [("join", 0), ("reserve", 0)]


def test_under_a_launcher_that_does_not_know_the_words_the_function_is_called_once_as_it_is(launcher, caplog):
    found = launcher(lambda word: None)
    assert run_under(found, lambda call: (call.iteration, call.world_size)) == (0, 1)
    assert "no restart in place: the launcher closed the line" in caplog.text


def test_a_line_that_is_lost_later_is_an_error(launcher):
    def answers(word: Mustered) -> list[Answer] | None:
        if word.iteration:
            return None
        return [Answer({"join": "start", "broken": "interrupt"}[word.kind], 0, "why", (0,))]

    with pytest.raises(LineLost):
        run_under(launcher(answers), lambda call: 1 // 0)


def test_a_group_is_made_when_all_ranks_have_come_or_the_limit_is_over():
    class Store(dict[str, str]):
        set = dict.__setitem__

        def check(self, names: list[str]) -> bool:
            return all(name in self for name in names)

    store = Store()
    with pytest.raises(TimeoutError, match="rank 1 has not come to init_process_group"):
        _arrive(store, 0, 2, 0.01)
    _arrive(store, 1, 2, 10.0)
