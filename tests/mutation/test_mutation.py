"""The runner itself: how long it waits, what it remembers, and what it counts."""

from __future__ import annotations

from tests.mutation import running
from tests.mutation.__main__ import counted
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.remembered import Remembered
from tests.mutation.running import KILLED, SURVIVED, TIMED_OUT, Stage, Verdict, limit_s

ONE, OTHER = Mutant(1, "1 -> 2", "x = 2\n"), Mutant(2, "2 -> 3", "x = 3\n")


class ScriptedStage(Stage):
    """Its tests take so long, and end so, as each entry says; asked for more they fail the test."""

    def __init__(self, folder, clock, script):
        super().__init__(folder, "module", ("tests",))
        self.path = folder / "resurge" / "module.py"
        self._clock, self._script = clock, list(script)
        self.ran = []

    def _outcome(self, limit_s):
        took_s, outcome = self._script.pop(0)
        self._clock.now += min(took_s, limit_s)
        self.ran.append((self.path.read_text(), limit_s))
        return outcome


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


def stage_of(tmp_path, monkeypatch, *script):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("x = 1\n")
    clock = Clock()
    monkeypatch.setattr(running, "PACKAGE", tmp_path / "package")
    monkeypatch.setattr(running, "time", clock)
    (tmp_path / "stage").mkdir()
    return ScriptedStage(tmp_path / "stage", clock, script)


def test_tests_have_three_times_what_they_took_without_a_mutant_or_a_minute():
    assert (limit_s(5), limit_s(20), limit_s(50)) == (60, 60, 150)


def test_a_mutant_is_judged_with_its_text_in_place_and_the_right_text_comes_back(tmp_path, monkeypatch):
    stage = stage_of(tmp_path, monkeypatch, (30, SURVIVED), (1, KILLED), (30, SURVIVED))
    assert [stage.judge(ONE), stage.judge(OTHER)] == [KILLED, SURVIVED]
    assert stage.ran == [("x = 1\n", 300), (ONE.source, 90), (OTHER.source, 90)]
    assert stage.path.read_text() == "x = 1\n"


def test_a_mutant_whose_tests_do_not_end_is_left_after_one_limit(tmp_path, monkeypatch):
    stage = stage_of(tmp_path, monkeypatch, (30, SURVIVED), (1e9, TIMED_OUT), (29, SURVIVED))
    assert stage.judge(ONE) == TIMED_OUT
    assert [limit for _, limit in stage.ran] == [300, 90, 300]


def test_a_mutant_has_more_time_where_the_machine_has_become_slower_and_so_have_the_next(tmp_path, monkeypatch):
    script = (30, SURVIVED), (1e9, TIMED_OUT), (50, SURVIVED), (100, SURVIVED), (1, KILLED)
    stage = stage_of(tmp_path, monkeypatch, *script)
    assert [stage.judge(ONE), stage.judge(OTHER)] == [SURVIVED, KILLED]
    assert [limit for _, limit in stage.ran] == [300, 90, 300, 150, 150]


def test_what_was_judged_is_remembered_by_the_next_run_and_one_that_lived_only_under_the_same_tests(tmp_path):
    path = tmp_path / "cache" / "mutants.jsonl"
    first = Remembered(path)
    assert first.outcome(ONE, "tests") is None
    first.note(ONE, "tests", KILLED)
    first.note(OTHER, "tests", SURVIVED)
    for remembered in (first, Remembered(path)):
        assert (remembered.outcome(ONE, "more tests"), remembered.outcome(OTHER, "tests")) == (KILLED, SURVIVED)
        assert remembered.outcome(OTHER, "more tests") is None
        assert remembered.outcome(Mutant(1, ONE.what, "y = 0\nx = 2\n"), "tests") is None


def test_the_last_word_holds_a_line_that_was_broken_off_says_nothing_and_all_can_be_forgotten(tmp_path):
    path = tmp_path / "mutants.jsonl"
    remembered = Remembered(path)
    remembered.note(ONE, "tests", SURVIVED)
    remembered.note(ONE, "more tests", TIMED_OUT)
    path.write_text(path.read_text() + '\n{"mutant": "12')
    again = Remembered(path)
    assert again.outcome(ONE, "tests") == TIMED_OUT
    again.note(OTHER, "tests", KILLED)
    assert Remembered(path).outcome(OTHER, "tests") == KILLED
    again.forget()
    assert again.outcome(ONE, "tests") is None
    assert Remembered(path).outcome(ONE, "tests") is None


def test_those_that_live_unexplained_or_did_not_end_in_time_are_named_and_counted(capsys):
    verdicts = [Verdict(ONE, KILLED), Verdict(OTHER, TIMED_OUT), Verdict(ONE, SURVIVED), Verdict(OTHER, SURVIVED)]
    assert counted("module", verdicts, {"1 -> 2": "a reason"}) == {
        "killed": 1,
        "timed_out": 1,
        "explained": 1,
        "unexplained": 1,
    }
    assert capsys.readouterr().out.splitlines() == [
        "not ended in time: module:2: 2 -> 3",
        "lives: module:2: 2 -> 3",
    ]


def test_mutants_differ_from_their_module_in_one_place_and_same_words_are_numbered():
    source = "def f(x):\n    if x > 0:\n        return x + 1\n    return x + 1\n"
    mutants = mutants_of(source)
    assert [one.key for one in mutants if one.line == 4] == [
        "return x + 1 -> None (#2)",
        "x + 1 -> other operator (#2)",
        "1 -> 2 (#2)",
    ]
    assert len({one.source for one in mutants}) == len(mutants)
