"""Files that lines are appended to and that stay bounded: no line is lost unsaid, none is missed by a reader."""

import io
import os

import pytest

from resurge_libs.obs import log
from resurge_libs.obs.generations import Generations


@pytest.fixture
def said():
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


def lines(*numbers):
    return [b"line %d" % number for number in numbers]


def filled(folder, count, bytes_max=20, older_max=2):
    files = Generations(folder / "some.jsonl", bytes_max, older_max)
    for number in range(count):
        files.append(b"line %d\n" % number, 0o600)
    return files


def test_a_full_file_becomes_an_older_one_and_all_are_read_in_order(tmp_path, said):
    files = filled(tmp_path, 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.jsonl", "some.jsonl.1", "some.jsonl.2"]
    assert files.lines() == lines(*range(6)) and said.getvalue() == ""
    assert all(path.stat().st_size <= 20 and path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_what_goes_is_the_oldest_and_it_is_said_how_many_lines(tmp_path, said):
    files = filled(tmp_path, 8)
    assert files.lines() == lines(*range(2, 8))
    assert said.getvalue().count("lines_rotated_away") == 1 and "lines=2" in said.getvalue()


def test_a_line_longer_than_a_file_may_be_is_kept_whole(tmp_path):
    files = filled(tmp_path, 1)
    files.append(b"x" * 100 + b"\n", 0o600)
    files.append(b"after\n", 0o600)
    assert files.lines() == [b"line 0", b"x" * 100, b"after"]


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path):
    (tmp_path / "some.jsonl").write_bytes(b"half a li")
    files = filled(tmp_path, 1, bytes_max=100)
    assert files.lines() == [b"half a li", b"line 0"]


def test_where_nothing_can_be_renamed_the_file_grows_on(tmp_path):
    files = filled(tmp_path, 2)
    for number in (1, 2):  # a folder in the way of each older name
        (tmp_path / f"some.jsonl.{number}" / "in the way").mkdir(parents=True)
    files.append(b"line 2\n", 0o600)
    assert (tmp_path / "some.jsonl").read_bytes().splitlines() == lines(0, 1, 2)


def test_a_reader_that_meets_a_rotation_misses_nothing(tmp_path):
    files = filled(tmp_path, 4)
    names = files._paths()
    turning = filled(tmp_path / "none", 0)
    found = turning.lines()
    assert found == [], "no file at all is no error"

    class Turned(Generations):
        def _paths(self):
            yield names[0]
            os.replace(names[1], names[2])  # as a writer does between two of the reader's looks
            os.replace(names[0], names[1])
            names[0].write_bytes(b"line 4\n")
            yield from names[1:]

    assert Turned(files.path, 20, 2).lines() == lines(*range(4))
