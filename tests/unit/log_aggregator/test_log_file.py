"""One file and its index: found again after a crash at any byte, never with a block twice or a wrong one."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from resurge_log_aggregator import index
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey
from resurge_log_aggregator.log_file import OLDER_MAX, Entry, FileTaken, LogFile, index_path, older_indexes

LOG = LogKey(LogKind.APPLICATION, 0, 0)


def entry(rank: int, offset: int, text: bytes, ends: bool = False) -> Entry:
    key = SourceKey(LogKind.APPLICATION, 0, 0, 1, rank, "n0", 1)
    head = BlockHead(offset, len(text), len(text), text.count(b"\n"), ends)
    return Entry(key, 2, head, text, at=1_000.0)


BLOCKS = (
    entry(0, 0, b"0: one\n"),
    entry(1, 0, b"1: eins\n"),
    entry(0, 7, b"0: two\n0: three\n"),
    entry(1, 8, b"", ends=True),
)


def opened(folder: Path) -> LogFile:
    return LogFile(folder / "app_cycle0.log", "job", LOG)


def written(folder: Path) -> Path:
    file = opened(folder)
    file.append(BLOCKS[:2])
    file.append(BLOCKS[2:])
    file.close()
    return file.path


def states(file: LogFile) -> dict[int, tuple[int, int, bool]]:
    return {key.rank: (state.written, state.lines, state.has_ended) for key, state in file.sources.items()}


def test_what_was_written_is_found_again(tmp_path):
    path = written(tmp_path)
    file = opened(tmp_path)
    assert states(file) == {0: (23, 3, False), 1: (8, 1, True)}
    assert path.read_bytes() == b"0: one\n1: eins\n0: two\n0: three\n"
    file.append([entry(0, 23, b"0: four\n")])
    file.close()
    assert states(opened(tmp_path))[0] == (31, 4, False)


def test_an_index_torn_at_any_byte_keeps_whole_blocks_and_cuts_off_the_rest(tmp_path):
    path = written(tmp_path)
    data, whole = path.read_bytes(), index_path(path).read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(data)
        index_path(path).write_bytes(whole[:cut])
        file = opened(tmp_path)
        size = sum(state.written for state in file.sources.values())
        told = states(file)
        file.close()
        if (
            cut < whole.index(b"\n", len(index.MAGIC)) + 1
        ):  # not even its header: what is there is somebody's, and stays
            assert path.read_bytes() == data and told == {}
        else:
            assert path.read_bytes() == data[:size]
            assert told.get(0, (0, 0, False))[0] in (0, 7, 23)


def test_data_torn_at_any_byte_loses_no_block_that_is_whole(tmp_path):
    path = written(tmp_path)
    data, whole = path.read_bytes(), index_path(path).read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        index_path(path).write_bytes(whole)
        file = opened(tmp_path)
        size = sum(state.written for state in file.sources.values())
        file.close()
        assert size <= cut and path.read_bytes() == data[:size]
        assert size in (0, 7, 15)


def test_a_block_whose_bytes_changed_is_not_taken_for_the_one_that_was_written(tmp_path):
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(bytes(data))
    assert states(opened(tmp_path))[0] == (7, 1, False)


def test_a_marked_part_is_trusted(tmp_path):
    file = opened(tmp_path)
    file.append(BLOCKS)
    dirty, position = file.taken()
    file.sync()
    file.mark(position)
    assert {key.rank: reached.upto for key, reached in dirty.items()} == {0: 23, 1: 8}
    assert not file.is_dirty
    file.close()
    assert states(opened(tmp_path)) == {0: (23, 3, False), 1: (8, 1, True)}


def test_a_sync_that_failed_keeps_what_it_was_for(tmp_path):
    file = opened(tmp_path)
    file.append(BLOCKS[:1])
    dirty, _ = file.taken()
    file.append([BLOCKS[2]])
    file.give_back(dirty)
    again, _ = file.taken()
    assert {reached.upto for reached in again.values()} == {23}, "the newer word stays"


def test_lines_of_somebody_else_stay_before_ours(tmp_path):
    (tmp_path / "app_cycle0.log").write_bytes(b"written by hand\n")
    file = opened(tmp_path)
    file.append(BLOCKS[:1])
    file.close()
    again = opened(tmp_path)
    assert (tmp_path / "app_cycle0.log").read_bytes() == b"written by hand\n0: one\n"
    assert states(again) == {0: (7, 1, False)}


def test_a_file_has_one_writer(tmp_path):
    file = opened(tmp_path)
    with pytest.raises(FileTaken, match="another process"):
        opened(tmp_path)
    file.close()
    opened(tmp_path).close()


def test_a_full_disk_leaves_the_file_as_it_was_and_the_next_try_whole(tmp_path):
    """The limit on a file's size stands for the full disk: a real one needs a mount."""
    file = opened(tmp_path)
    file.append(BLOCKS[:1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12, before[1]))
        with pytest.raises(OSError, match="too large"):
            file.append([entry(0, 7, b"0: much longer than that\n")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    file.append([entry(0, 7, b"0: short\n")])
    assert file.path.read_bytes() == b"0: one\n0: short\n" + file.path.read_bytes()[16:]
    file.close()
    assert states(opened(tmp_path))[0] == (16, 2, False)
    assert file.path.read_bytes() == b"0: one\n0: short\n"


def test_a_path_that_leads_elsewhere_is_noticed(tmp_path):
    file = opened(tmp_path)
    assert not file.has_vanished()
    os.rename(file.path, tmp_path / "moved")
    assert file.has_vanished()
    (tmp_path / "app_cycle0.log").write_bytes(b"")
    assert file.has_vanished()


def test_another_job_appends_behind_what_is_there_and_puts_the_older_index_aside(tmp_path):
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b"0: torn")  # never acknowledged, and not ours to cut
    data, older = path.read_bytes(), index_path(path).read_bytes()
    for number in range(2 * OLDER_MAX):
        file = LogFile(path, f"job-{number}", LOG)
        assert states(file) == {}
        file.append([entry(0, 0, b"0: again\n")])
        file.close()
        if number == 0:
            assert index_path(path).with_name(index_path(path).name + ".1").read_bytes() == older
    assert path.read_bytes() == data + b"\n" + b"0: again\n" * 2 * OLDER_MAX
    assert sorted(older_indexes(path)) == list(range(OLDER_MAX + 1, 2 * OLDER_MAX + 1))
    again = LogFile(path, f"job-{2 * OLDER_MAX - 1}", LOG)
    assert states(again) == {0: (9, 1, False)}, "the last job finds its own again"
    again.close()


def test_the_file_of_another_job_that_still_writes_is_not_taken(tmp_path):
    file = opened(tmp_path)
    with pytest.raises(FileTaken):
        LogFile(file.path, "other", LOG)
    assert older_indexes(file.path) == {}
    file.close()
