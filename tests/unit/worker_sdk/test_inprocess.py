"""The parts of a restart in place: who gets which rank, and how a function is left."""

from __future__ import annotations

import signal
import threading

import pytest

from resurge.frames import FrameError, Mustered, Speaker, decode, encode
from resurge.inprocess import RankShouldRestart, Wrapper, fill_gaps, shift_ranks
from resurge.inprocess.interrupting import Attempt
from resurge.muster import Answer, AnswerDecoder


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
    with pytest.raises(FrameError, match="one of join, broken, done"):
        encode(Mustered(Speaker(1, 2, 3), "gone", 4))
    answers = [Answer("start", 2, "", (0, 3)), Answer("interrupt", 2, "rank 3 died")]
    data = b"".join(answer.encoded() for answer in answers)
    decoder = AnswerDecoder()
    assert decoder.feed(data[:9]) == [] and decoder.feed(data[9:]) == answers
    for broken in (b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff"):
        with pytest.raises(FrameError):
            AnswerDecoder().feed(broken)
