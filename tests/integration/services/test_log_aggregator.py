"""The real log aggregator, killed at random moments: each acknowledged line is in the file once, in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from resurge_libs.testing.wait import wait_until
from tests.fakes.host import HostProcess
from tests.fakes.log_sender import LogSender

RANKS = 3
LINES = 6_000
KILLS = 3


def lines_of(path: Path, rank: int) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.startswith(b"%d: " % rank)]


@pytest.mark.parametrize("sync", ["none", "interval", "ack"])
def test_killed_at_random_moments_nothing_is_lost_or_doubled(tmp_path, sync):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync", sync, "--sync-interval-s", "0.1")
    chance = random.Random(len(sync))

    async def story(host: HostProcess) -> list[LogSender]:
        senders = [LogSender(host.endpoint, rank, RANKS, LINES) for rank in range(RANKS)]
        sending = asyncio.gather(*(sender.run() for sender in senders))
        for _ in range(KILLS):
            await asyncio.wait([sending], timeout=chance.uniform(0.05, 0.4))
            before = [sender.durable for sender in senders]
            await asyncio.to_thread(host.kill)
            path = tmp_path / "app_cycle0.log"
            there = path.stat().st_size if path.exists() else 0
            assert there >= sum(before), "less is in the file than was acknowledged"
            await asyncio.to_thread(host.start)
        await asyncio.wait_for(sending, 60)
        return senders

    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        senders = asyncio.run(story(host))
    for rank, sender in enumerate(senders):
        assert lines_of(tmp_path / "app_cycle0.log", rank) == sender.text.splitlines()


def test_a_graceful_end_leaves_nothing_undone(tmp_path):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync-interval-s", "30")
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        sender = LogSender(host.endpoint, 0, 1, 1_000)
        sender.keeps_end = True

        async def story() -> None:
            sending = asyncio.create_task(sender.run())
            path = tmp_path / "app_cycle0.log"
            await asyncio.to_thread(wait_until, lambda: path.exists() and len(lines_of(path, 0)) == 1_000, 20)
            assert sender.durable == 0, "the disk is asked only every 30 s"
            await asyncio.to_thread(host.terminate)  # its senders, in this loop, hear of the last line and leave
            await asyncio.wait_for(sending, 20)

        asyncio.run(story())
        assert "logs_not_durable" not in host.log()
    assert len(lines_of(tmp_path / "app_cycle0.log", 0)) == 1_000


def test_two_jobs_with_one_prefix_have_their_lines_in_one_file(tmp_path):
    def job(name: str, lines: int) -> bytes:
        more = ("--applog-prefix", str(tmp_path / "app.log"), "--job-id", name, "--sync-interval-s", "0.1")
        with HostProcess(tmp_path / name, module="resurge_log_aggregator", more=more) as host:
            sender = LogSender(host.endpoint, 0, 1, lines)
            sender.job = name
            asyncio.run(asyncio.wait_for(sender.run(), 20))
            assert not host.events("logs_trouble")
            return sender.text

    both = job("first", 200) + job("second", 300)
    assert (tmp_path / "app_cycle0.log").read_bytes() == both
