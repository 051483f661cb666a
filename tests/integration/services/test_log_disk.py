"""The log aggregator's disk full, read-only, gone or hanging: it is named, nothing is lost, and logging goes on."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_api.logs.v1 import logs_pb2
from resurge_libs.testing.wait import wait_until
from resurge_log_aggregator import writer
from resurge_log_aggregator.log_file import LogFile
from tests.contract.test_log_aggregator import Bench, sender_of, source
from tests.fakes.host import HostProcess
from tests.fakes.log_sender import LogSender

MIB = 1 << 20


def served(folder: Path, out: Path, **more) -> HostProcess:
    words = ("--applog-prefix", str(out / "app.log"), "--sync-interval-s", "0.1", "--stop-limit-s", "0")
    return HostProcess(folder / "state", module="resurge_log_aggregator", more=words, **more)


def whole(out: Path, sender: LogSender) -> bool:
    path = out / "app_cycle0.log"
    return path.exists() and path.read_bytes() == sender.text


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


async def through(host: HostProcess, sender: LogSender, broken, mend) -> None:
    """Send while the disk is broken, see it named, mend it, see everything durable."""
    sending = asyncio.create_task(sender.run())
    await asyncio.to_thread(wait_until, broken, 20, "the disk's trouble, named")
    assert not sending.done()
    mend()
    await asyncio.wait_for(sending, 30)
    assert host.events("logs_trouble_over")


def named(host: HostProcess, word: str) -> bool:
    return any(word in event["sentence"] for event in host.events("logs_trouble"))


def test_a_full_disk_holds_senders_back_until_there_is_room(tmp_path, disk):
    with served(tmp_path, disk) as host:
        sender = LogSender(host.endpoint, 0, 1, 150_000)  # two mebibytes
        asyncio.run(through(host, sender, lambda: named(host, "No space left"), lambda: remount(disk, "size=16m")))
        assert sender.durable > 0 and whole(disk, sender)


def test_a_quota_is_named_and_the_next_server_goes_on(tmp_path):
    """A limit on a file's size stands for the quota."""
    with served(tmp_path, tmp_path / "out", max_file_bytes=MIB) as host:
        sender = LogSender(host.endpoint, 0, 1, 150_000)

        def mend() -> None:
            host.kill()
            host.max_file_bytes = None
            host.start()

        async def story() -> None:
            sending = asyncio.create_task(sender.run())
            await asyncio.to_thread(wait_until, lambda: named(host, "File too large"), 20, "the limit, named")
            await asyncio.to_thread(mend)
            await asyncio.wait_for(sending, 30)

        asyncio.run(story())
        assert whole(tmp_path / "out", sender)


def test_a_disk_that_becomes_read_only_is_named_and_gone_on_with(tmp_path, disk):
    with served(tmp_path, disk / "out") as host:
        remount(disk, "ro,size=16m")
        sender = LogSender(host.endpoint, 0, 1, 20_000)
        asyncio.run(through(host, sender, lambda: named(host, "Read-only"), lambda: remount(disk, "rw,size=16m")))
        assert whole(disk / "out", sender)


@pytest.mark.parametrize("how", ["file", "folder", "moved"])
def test_a_file_that_vanishes_is_made_anew_with_all_that_it_held(tmp_path, how):
    out = tmp_path / "out"
    path = out / "app_cycle0.log"

    def vanish() -> None:
        if how == "file":
            path.unlink()
        elif how == "folder":
            shutil.rmtree(out)
        else:
            path.rename(out / "rotated.log")

    async def story(host: HostProcess) -> LogSender:
        sender = LogSender(host.endpoint, 0, 1, 40_000)
        sender.pace_s = 0.005  # an end is made durable at once: it must not come before the file has vanished
        sending = asyncio.create_task(sender.run())
        await asyncio.to_thread(wait_until, lambda: sender.durable, 20, "an acknowledgement")
        assert not sending.done()
        vanish()
        sender.pace_s = 0.0
        await asyncio.wait_for(sending, 30)
        return sender

    with served(tmp_path, out) as host:
        sender = asyncio.run(story(host))
        assert whole(out, sender)
        assert [event["path"] for event in host.events("log_vanished")] == [str(path)]
        host.kill()
        host.start()  # the new index is as good as the old one
        again = LogSender(host.endpoint, 0, 1, 40_000)
        asyncio.run(asyncio.wait_for(again.run(), 20))
        assert whole(out, sender)


@pytest.mark.parametrize("call", ["append", "sync"])
async def test_a_disk_that_hangs_is_named_and_gone_on_with(tmp_path, monkeypatch, call):
    """A call that does not come back stands for the mount: what it is called on makes no difference to a thread."""
    answers, real = threading.Event(), getattr(LogFile, call)

    def hanging(file: LogFile, *arguments: object) -> None:
        if threading.current_thread().name.startswith("resurge-log"):
            assert answers.wait(30)
        real(file, *arguments)

    monkeypatch.setattr(LogFile, call, hanging)
    monkeypatch.setattr(writer, "STUCK_AFTER_S", 0.3)
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.block(0, 0, b"0: kept\n")
        await sender.hear(lambda: "has not answered" in sender.trouble)
        assert sender.durable.get(0, 0) == 0
        answers.set()
        await sender.hear(lambda: sender.durable.get(0) == 8 and sender.trouble == "")
    assert (tmp_path / "app_cycle0.log").read_bytes() == b"0: kept\n"


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), ValueError("a mistake of ours")])
async def test_a_file_that_cannot_be_written_holds_up_no_other(tmp_path, monkeypatch, problem):
    """As of a launcher log on a full disk."""
    real, is_full = LogFile.append, True

    def append(file: LogFile, entries: object) -> None:
        if is_full and file.path.name == "launcher.log":
            raise problem
        real(file, entries)

    monkeypatch.setattr(LogFile, "append", append)
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    async with Bench(tmp_path, launcher_log=str(tmp_path / "launcher.log")) as stub:
        sender = sender_of(stub)
        sender.open(9, source(0, kind=logs_pb2.LOG_KIND_LAUNCHER, generation=0))
        sender.block(9, 0, b"started\n")
        await sender.hear(lambda: "launcher.log cannot be written" in sender.trouble)
        sender.open(0, source(0))
        for number in range(3):
            sender.block(0, number * 5, b"0: %d\n" % number)
        await sender.hear(lambda: sender.durable.get(0) == 15)
        assert sender.durable.get(9, 0) == 0 and sender.trouble
        is_full = False
        await sender.hear(lambda: sender.durable.get(9) == 8 and not sender.trouble)
    assert (tmp_path / "launcher.log").read_bytes() == b"started\n"


async def test_a_thread_that_fails_says_so_and_goes_on(tmp_path, monkeypatch, capsys):
    real, failures = writer.Writer._next_group, iter([True])

    def next_group(self: writer.Writer) -> object:
        if next(failures, False):
            raise RuntimeError("a mistake of ours")
        return real(self)

    monkeypatch.setattr(writer.Writer, "_next_group", next_group)
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.block(0, 0, b"0: kept\n")
        await sender.hear(lambda: sender.durable.get(0) == 8)
    assert "log_thread_failed" in capsys.readouterr().err
