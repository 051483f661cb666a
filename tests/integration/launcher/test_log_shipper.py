"""The real sender and the real log aggregator: whatever is killed, each line that a worker wrote arrives once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resurge_launcher.logs import spool
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.testing.wait import wait_until
from tests.fakes.host import HostProcess

LINES = 4_000
WRITER = """
import os, sys
for number in range(int(sys.argv[1])):
    os.write(1, b"line %d\\n" % number)
os.write(2, b"Traceback: last words")
os.kill(os.getpid(), int(sys.argv[2]))
"""


def shipper(folder: Path, endpoint: str, *more: str) -> subprocess.Popen:
    words = ["resurge_launcher.logs.shipper", str(folder), "--endpoint", endpoint, "--job", "job", "--node", "n0"]
    return subprocess.Popen([sys.executable, "-m", *words, *more], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def note(rank: int) -> SpoolNote:
    return SpoolNote("job", "n0", 0, 1, 0, rank, 2, incarnation=7)


def dying(folder: Path, rank: int, number: signal.Signals, lines: int = LINES) -> subprocess.Popen:
    descriptor = spool.open_for_worker(folder, note(rank))
    worker = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(lines), str(int(number))], stdout=descriptor, stderr=descriptor
    )
    os.close(descriptor)
    return worker


def expected(rank: int, lines: int = LINES) -> list[bytes]:
    return [*(b"%d: line %d" % (rank, number) for number in range(lines)), b"%d: Traceback: last words" % rank]


def arrived(path: Path, rank: int) -> list[bytes]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [line for line in lines if line.startswith(b"%d: " % rank)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_the_last_words_of_a_dead_worker_are_in_the_file_within_a_second(tmp_path, number):
    more = ("--applog-prefix", str(tmp_path / "app.log"))
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        sender = shipper(tmp_path / "spool", host.endpoint)
        try:
            path = tmp_path / "app_cycle0.log"
            dying(tmp_path / "spool", 0, number, lines=3).wait(20)  # the sender is ready by then, or soon
            wait_until(lambda: arrived(path, 0), 20, "the first line")
            worker = dying(tmp_path / "spool", 1, number)
            worker.wait(20)
            spool.end_generation(tmp_path / "spool", 1)
            wait_until(lambda: arrived(path, 1) == expected(1), 10, "every line of the dead")
            spool.close(tmp_path / "spool")
            assert sender.wait(20) == 0
        finally:
            sender.kill()
            sender.wait()
    assert sorted(item.name for item in (tmp_path / "spool").iterdir()) == ["closing", "shipper.lock"]


@pytest.mark.parametrize("seed", range(2))
def test_sender_and_aggregator_are_killed_and_nothing_is_lost_or_doubled(tmp_path, seed):
    chance = random.Random(seed)
    folder = tmp_path / "spool"
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync-interval-s", "0.1")
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        workers = [dying(folder, rank, signal.SIGKILL) for rank in (0, 1)]
        sender = shipper(folder, host.endpoint)
        try:
            for _ in range(3):
                with pytest.raises(subprocess.TimeoutExpired):
                    sender.wait(chance.uniform(0.1, 0.8))
                if chance.random() < 0.5:
                    sender.kill()
                    sender.wait()
                    sender = shipper(folder, host.endpoint)
                else:
                    host.kill()
                    host.start()
            for worker in workers:
                worker.wait(20)
            spool.end_generation(folder, 1)
            spool.close(folder)
            assert sender.wait(40) == 0
        finally:
            sender.kill()
            sender.wait()
        for rank in (0, 1):
            assert arrived(tmp_path / "app_cycle0.log", rank) == expected(rank)
    assert spool.is_closing(folder) and list(spool.notes(folder)) == []


def test_a_second_sender_of_one_spool_leaves_it_to_the_first(tmp_path):
    more = ("--applog-prefix", str(tmp_path / "app.log"))
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        first = shipper(tmp_path / "spool", host.endpoint)
        try:
            wait_until(lambda: (tmp_path / "spool" / "shipper.lock").exists(), 20, "the first sender")
            assert shipper(tmp_path / "spool", host.endpoint).wait(20) == 0
            assert first.poll() is None
        finally:
            first.kill()
            first.wait()


def test_a_sender_whose_launcher_died_sends_all_and_ends_and_the_next_one_waits_for_it(tmp_path):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync-interval-s", "0.1")
    folder = tmp_path / "spool"
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        dying(folder, 0, signal.SIGKILL, lines=100).wait(20)  # and nobody says that its generation has ended
        # of a launcher that is not its parent any more
        first = shipper(folder, host.endpoint, "--parent", "1", "--orphan-idle-s", "2")
        second = None
        try:
            wait_until(lambda: (folder / "shipper.lock").exists(), 20, "the first sender")
            second = shipper(folder, host.endpoint, "--parent", str(os.getpid()))
            assert first.wait(40) == 3, "its unfinished last line is left to the next launcher"
            assert arrived(tmp_path / "app_cycle0.log", 0) == expected(0, 100)[:-1]
            spool.end_generation(folder, 1)
            spool.close(folder)
            assert second.wait(20) == 0
            assert arrived(tmp_path / "app_cycle0.log", 0) == expected(0, 100)
        finally:
            for sender in filter(None, (first, second)):
                sender.kill()
                sender.wait()


def test_a_sender_whose_launcher_and_log_server_are_gone_ends_and_the_next_one_takes_over(tmp_path):
    folder = tmp_path / "spool"
    dying(folder, 0, signal.SIGKILL, lines=100).wait(20)
    orphan = shipper(folder, "127.0.0.1:1", "--parent", "1", "--orphan-limit-s", "1")
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync-interval-s", "0.1")
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        following = None
        try:
            wait_until(lambda: (folder / "shipper.lock").exists(), 20, "the orphan")
            following = shipper(folder, host.endpoint, "--parent", str(os.getpid()))
            assert orphan.wait(20) == 3
            spool.end_generation(folder, 1)
            spool.close(folder)
            assert following.wait(20) == 0
            assert arrived(tmp_path / "app_cycle0.log", 0) == expected(0, 100)
        finally:
            for sender in filter(None, (orphan, following)):
                sender.kill()
                sender.wait()


def test_an_orphan_that_is_refused_for_good_or_cannot_append_ends(tmp_path):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--job-id", "another")
    dying(tmp_path / "refused", 0, signal.SIGKILL, lines=10).wait(20)
    dying(tmp_path / "direct", 0, signal.SIGKILL, lines=10).wait(20)
    (tmp_path / "file").write_text("no folder")
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        refused = shipper(tmp_path / "refused", host.endpoint, "--parent", "1", "--orphan-limit-s", "1000")
        prefix = str(tmp_path / "file" / "app.log")
        direct = shipper(tmp_path / "direct", "", "--prefix", prefix, "--parent", "1", "--orphan-limit-s", "1")
        try:
            assert (refused.wait(20), direct.wait(20)) == (3, 3)
        finally:
            for sender in (refused, direct):
                sender.kill()
                sender.wait()
    assert all(list(spool.notes(tmp_path / name)) for name in ("refused", "direct")), "what they had stays"
