"""The page as a file of cells: written by one side, read by the other, torn writes noticed."""

import os

import pytest

from resurge.page import PAGE_BYTES, Cell, LauncherCells, PageError, PageReader, PageWriter, Phase


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rank-0.page"


@pytest.fixture
def launcher(path):
    return LauncherCells.create(path, generation=7)


def test_fresh_page_says_nothing_but_its_generation(launcher, path):
    view = PageReader(path).read()
    assert view.generation == 7
    assert (view.pid, view.beat_ns, view.beat_step, view.phase, view.committed_step) == (0, 0, None, None, None)
    assert view.hung_at_ns is None
    assert not view.fenced
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_each_side_sees_what_the_other_wrote(launcher, path):
    writer, reader = PageWriter(path), PageReader(path)
    launcher.set_lease(5_000)
    launcher.set_fenced()
    launcher.stop_at(2)
    writer.attached(4242, 10)
    writer.process_group_ready(11)
    writer.checkpoint_restored(0, 12)
    writer.first_committed(0, 13)
    view = reader.read()
    assert (view.lease_until_ns, view.fenced, view.should_stop) == (5_000, True, 3)
    assert (view.pid, view.started_ns, view.process_group_ready_ns) == (4242, 10, 11)
    assert (view.checkpoint_restored_step, view.checkpoint_restored_ns) == (0, 12)
    assert (view.first_commit_step, view.first_commit_ns) == (0, 13)
    assert writer.cells[Cell.LEASE_UNTIL_NS] == 5_000


def test_cells_are_little_endian_at_their_offsets(launcher, path):
    PageWriter(path).attached(0x0102, 9)
    raw = path.read_bytes()
    assert len(raw) == PAGE_BYTES
    assert raw[:8] == b"RESURGE1"
    assert raw[Cell.PID * 8 : Cell.PID * 8 + 8] == bytes([2, 1, 0, 0, 0, 0, 0, 0])


def test_phase_is_read_whole(launcher, path):
    writer, reader = PageWriter(path), PageReader(path)
    phase = Phase("checkpoint", opened_ns=100, limit_ns=50, deadline_ns=150, depth=1)
    writer.write_phase(phase)
    assert reader.read().phase == phase
    writer.write_phase(Phase("", 0, 0, 0, depth=0))
    assert reader.read().phase is None


def test_torn_phase_leaves_the_one_before(launcher, path):
    writer, reader = PageWriter(path), PageReader(path)
    first = Phase("load", opened_ns=1, limit_ns=0, deadline_ns=0, depth=1)
    writer.write_phase(first)
    writer.write_phase(Phase("checkpoint", opened_ns=2, limit_ns=0, deadline_ns=0, depth=2))
    raw = bytearray(path.read_bytes())
    at = raw.index(b"checkpoint")
    with path.open("r+b") as page:
        page.seek(at)
        page.write(b"C")
    assert reader.read().phase == first


def test_long_phase_name_is_cut_between_characters(launcher, path):
    PageWriter(path).write_phase(Phase("ü" * 40, opened_ns=1, limit_ns=0, deadline_ns=0, depth=1))
    phase = PageReader(path).read().phase
    assert phase is not None
    assert phase.name == "ü" * 32


@pytest.mark.parametrize(
    ("beat_ns", "limit_ns", "phase", "closed_ns", "hung_at_ns"),
    [
        (0, 50, None, 0, None),  # no beat yet: limits of the start apply
        (100, 0, None, 0, None),
        (100, 50, None, 0, 150),
        (100, 50, Phase("c", 120, 600, 720, 1), 0, 720),  # a phase with a limit replaces the beats
        (100, 50, Phase("c", 120, 0, 0, 1), 0, 150),  # one without leaves them
        (0, 0, Phase("c", 120, 600, 720, 1), 0, 720),
        (100, 50, None, 140, None),  # closed
    ],
)
def test_when_a_worker_counts_as_hung(launcher, path, beat_ns, limit_ns, phase, closed_ns, hung_at_ns):
    writer = PageWriter(path)
    writer.cells[Cell.BEAT_NS] = beat_ns
    writer.set_beat_limit(limit_ns)
    writer.closed(closed_ns)
    if phase is not None:
        writer.write_phase(phase)
    assert PageReader(path).read().hung_at_ns == hung_at_ns


@pytest.mark.parametrize("content", [b"", b"RESURGE1", b"RESURGE2".ljust(PAGE_BYTES, b"\0"), b"\0" * PAGE_BYTES])
def test_what_is_no_page_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(PageError):
        PageWriter(path)
    with pytest.raises(PageError):
        PageReader(path)


def test_a_second_page_at_the_same_place_is_refused(launcher, path):
    with pytest.raises(FileExistsError):
        LauncherCells.create(path, generation=8)


def test_a_missing_page_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        PageWriter(tmp_path / "none.page")
