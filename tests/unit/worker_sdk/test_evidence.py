"""What a worker keeps ready for a hang: answers to probes, stacks at a signal, and the limits it was given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resurge import evidence
from resurge.environment import read_environment
from resurge.limits import GivenLimits
from resurge.page import LauncherCells, PageReader, stacks_path
from resurge_launcher.processes.probes import Probe
from resurge_libs.core.instant import Instant
from resurge_libs.testing import wait_until

SECOND_NS = 1_000_000_000


def now() -> Instant:
    return Instant(time.monotonic())


def test_a_probe_is_answered_with_its_time_and_an_old_one_is_not_asked_again(worker):
    probe = Probe(str(worker.path))
    assert not probe.ask(now()) and probe.unanswered_since is None, "nobody is there to answer yet"
    session = worker.session()
    assert probe.ask(now())
    wait_until(lambda: probe.is_answered, 5, "an answer")
    assert probe.answer_took_s is not None and 0 <= probe.answer_took_s < 5
    assert probe.unanswered_since is None and session.armed


def test_a_probe_that_nobody_answers_tells_since_when(tmp_path):
    path = tmp_path / "rank-0.page"
    LauncherCells.create(path, generation=1)
    probe = Probe(str(path))
    answering = evidence.Answering(str(path))
    answering.answer()  # once, and never again
    assert probe.ask(Instant(5.0)) and not probe.ask(Instant(6.0))
    assert probe.unanswered_since == 5.0 and probe.answer_took_s is None
    answering.answer()
    assert probe.unanswered_since is None and probe.ask(Instant(7.0))


def test_the_stacks_of_all_threads_are_beside_the_page_after_the_signal(worker):
    program = (
        "import os, sys, threading, resurge\n"
        "s = resurge.session()\n"
        "threading.Thread(target=threading.Event().wait, name='other', daemon=True).start()\n"
        "def stand_here():\n"
        "    print('there', flush=True)\n"
        "    threading.Event().wait()\n"
        "stand_here()\n"
    )
    environment = {**os.environ, "RESURGE_PAGE": str(worker.path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            number = worker.view().stacks_signal
            assert number == evidence.STACKS_SIGNAL
            os.kill(process.pid, number)
            path = Path(stacks_path(str(worker.path)))
            wait_until(lambda: "stand_here" in path.read_text(), 5, "the main thread's stack")
            wait_until(lambda: path.read_text().count("most recent call first") == 3, 5, "the stacks of all threads")
            assert process.poll() is None, "it lives on"
        finally:
            process.kill()


def test_a_signal_that_the_script_uses_itself_stays_its_own(worker, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _: lambda *_: None)
    assert evidence.offer_stacks(str(worker.path)) == 0


def test_a_worker_without_means_for_either_trains_on(worker, monkeypatch):
    monkeypatch.setattr(evidence, "Answering", _broken)
    monkeypatch.setattr(evidence.faulthandler, "register", _broken)
    session = worker.session()
    session.beat(3)
    view = worker.view()
    assert (view.probe_answered, view.stacks_signal, view.beat_step) == (None, 0, 3)


def _broken(*_given, **_named):
    raise RuntimeError("none here")


def test_a_first_beat_is_due_from_the_start_where_a_limit_is_given(worker):
    session = worker.session(limits=GivenLimits(first_beat_s=2.0), beat_limit_s=9.0)
    view = worker.view()
    assert view.hung_at_ns == view.started_ns + 2 * SECOND_NS
    session.beat()
    view = worker.view()
    assert view.hung_at_ns == view.beat_ns + 9 * SECOND_NS


def test_a_section_s_limit_runs_beside_that_of_the_beats(worker):
    session = worker.session(beat_limit_s=9.0)
    session.beat()
    session.set_section_deadline(5)
    assert worker.view().hung_at_ns == 5
    session.set_section_deadline(worker.view().beat_ns + 60 * SECOND_NS)
    assert worker.view().hung_at_ns == worker.view().beat_ns + 9 * SECOND_NS
    session.set_section_deadline(0)
    assert worker.view().hung_at_ns == worker.view().beat_ns + 9 * SECOND_NS


def test_a_phase_without_a_limit_takes_that_of_its_section(worker):
    limits = GivenLimits(sections_s={"load": 4.0, "step": 1.5, "warmup": 30.0}, warmup_steps=2)
    session = worker.session(limits=limits)
    assert _limit_in(worker, session, "load") == 4.0
    assert _limit_in(worker, session, "eval") == 0.0
    assert _limit_in(worker, session, "load", limit=7.0) == 7.0
    seen = []
    for step in range(1, 5):
        seen.append(_limit_in(worker, session, "step"))
        session.step_committed(step)
    assert seen == [30.0, 30.0, 1.5, 1.5], "two steps warm up"


def _limit_in(worker, session, name, **limit):
    with session.phase(name, **limit):
        phase = PageReader(worker.path).read().phase
        assert phase is not None and phase.name == name
        return phase.limit_ns / SECOND_NS


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", {}),
        ("step:60,load:1.5", {"step": 60.0, "load": 1.5}),
        ("a:b:3", {"a:b": 3.0}),
        ("step:x,load:0,:5,step2", {}),
    ],
)
def test_limits_of_sections_are_read_and_what_is_none_is_left_out(text, read):
    assert read_environment({"RESURGE_SECTION_LIMITS": text}).limits.sections_s == read


def test_limits_that_were_not_given_are_none():
    assert read_environment({}).limits == GivenLimits()
    told = read_environment({"RESURGE_SAFETY_FACTOR": "2.5", "RESURGE_WARMUP_STEPS": "0"}).limits
    assert (told.safety_factor, told.warmup_steps) == (2.5, 0)
