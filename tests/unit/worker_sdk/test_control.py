"""Asking for the end of restarts, or for training without this node: the one call that waits, and never for ever."""

from __future__ import annotations

import socket
import threading

import pytest

import resurge
from resurge import WorkloadAction, WorkloadControlRequest
from resurge.environment import WorkerEnvironment
from resurge.frames import Control, ControlAnswer, FrameDecoder, Hello
from resurge.worker_session import Session


class Launcher(threading.Thread):
    """Takes one wish and answers what the test says; None: closes without a word, ...: never says anything."""

    def __init__(self, path: str, answer: object) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        self.socket.listen()
        self.answer = answer
        self.heard: list[object] = []
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            line, _ = self.socket.accept()
        except OSError:
            return  # nobody has asked, and the test is over
        decoder = FrameDecoder()
        while len(self.heard) < 2:
            self.heard += decoder.feed(line.recv(4096))
        if isinstance(self.answer, bytes):
            for at in range(len(self.answer)):  # one byte at a time: an answer may come in pieces
                line.sendall(self.answer[at : at + 1])
        if self.answer is not ...:
            line.close()
        self.over.wait(10)
        line.close()

    def end(self) -> None:
        self.over.set()
        self.socket.shutdown(socket.SHUT_RDWR)  # closing alone would not wake who waits in accept
        self.join(10)
        self.socket.close()


@pytest.fixture
def launcher(tmp_path):
    started: list[Launcher] = []

    def start(answer: object) -> Launcher:
        started.append(Launcher(str(tmp_path / "s"), answer))
        return started[0]

    yield start
    for one in started:
        one.end()


DONE = ControlAnswer(True, True, "rank 3 on n1 asked to stop restarting: the loss is not a number")


@pytest.mark.parametrize(
    ("ask", "action"),
    [
        (lambda s: s.stop_restarting("nan"), "shutdown_workload"),
        (lambda s: s.exclude_this_node("nan"), "exclude_this_node"),
        (
            lambda s: s.send_workload_control_request(WorkloadControlRequest(WorkloadAction.ShutdownWorkload, "nan")),
            "shutdown_workload",
        ),
        (
            lambda s: s.send_workload_control_request(WorkloadControlRequest(WorkloadAction.ExcludeThisNode, "nan")),
            "exclude_this_node",
        ),
    ],
)
def test_a_wish_reaches_the_launcher_and_its_answer_the_worker(worker, tmp_path, launcher, ask, action):
    there = launcher(DONE.encoded())
    assert ask(worker.session(socket=str(tmp_path / "s"))) == DONE
    hello, wish = there.heard
    assert isinstance(hello, Hello) and isinstance(wish, Control)
    assert (wish.action, wish.reason, wish.speaker.rank, wish.speaker.generation) == (action, "nan", 3, 7)


def test_while_it_waits_the_worker_is_in_a_phase_of_its_own(worker, tmp_path, launcher):
    launcher(...)
    session = worker.session(socket=str(tmp_path / "s"), beat_limit_s=0.1)
    seen = []
    asking = threading.Thread(target=lambda: seen.append(session.stop_restarting("nan", wait=0.5)))
    asking.start()
    while asking.is_alive() and (phase := worker.view().phase) is None:
        pass
    assert phase is not None and phase.name == "resurge.control" and phase.limit_ns == 1_500_000_000
    asking.join(10)
    assert not seen[0].delivered and "goes on asking" in seen[0].sentence


@pytest.mark.parametrize("answer", [None, b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]"])
def test_a_launcher_that_answers_nothing_or_nonsense_is_no_error(worker, tmp_path, launcher, answer):
    launcher(answer)
    said = worker.session(socket=str(tmp_path / "s")).stop_restarting("nan")
    assert not said.delivered and not said.carried_out and said.sentence


def test_without_a_launcher_nothing_is_asked(tmp_path, worker):
    assert not Session(WorkerEnvironment()).stop_restarting("nan").delivered
    assert not worker.session().exclude_this_node("nan").delivered
    assert not worker.session(socket=str(tmp_path / "nobody")).exclude_this_node("nan").delivered


def test_a_forked_child_does_not_ask(worker, tmp_path, launcher):
    there = launcher(DONE.encoded())
    session = worker.session(socket=str(tmp_path / "s"))
    session.disarm()
    assert not session.stop_restarting("nan").delivered
    assert there.heard == []


def test_continue_asks_for_nothing():
    request = WorkloadControlRequest(WorkloadAction.Continue, "all is well")
    assert not resurge.send_workload_control_request(request).carried_out
