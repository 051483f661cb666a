"""What the log server takes, what a line costs its node, and what the published peer and a plain file make of the same.

    python -m tests.bench.logs [--seconds 5] [--only streams,append]

One log server with every setting at its default on the cores of this machine, which the senders share with it:
16 nodes in batches as fast as they are taken; 1,024 streams of 500 lines a second, sent as a node's sender does; one
node's sender over a spool that is full already; the same sender while its log server is away. A line is 100 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from resurge_launcher.logs import spool
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.testing.wait import wait_until
from tests.bench.log_clients import LINE_BYTES
from tests.bench.peers import PeerMissing, find_or_make
from tests.endurance.job import free_port
from tests.endurance.log_job import start_sender
from tests.endurance.soak import circumstances, interrupted
from tests.fakes.host import HostProcess, cpu_s

NODES, PROCESSES = 16, 2
BATCH_LINES = 2_600  # a quarter of a mebibyte, as senders make them
STREAMS, STREAM_RATE = 1_024, 500
STREAMS_LONGER = 4
"""Times as long as other figures: after the last line its acknowledgement is waited for, up to a second and a half."""
RANKS = 8
AWAY_S, RANK_RATE = 600, 500
"""Ten minutes of a node whose ranks print so much, written at once."""
LIMIT_S = 300.0
PEER_CLIENTS = Path(__file__).with_name("peer_log_clients.py")


class Served:
    """A log server of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.out = folder / "app_cycle0.log"
        more = ("--applog-prefix", str(folder / "app.log"), "--stop-limit-s", "1")
        self.host = HostProcess(
            folder / "state", module="resurge_log_aggregator", more=more, listen=f"127.0.0.1:{free_port()}"
        )


def clients(words: Sequence[Sequence[str]], at_start: Callable[[], None]) -> list[dict[str, Any]]:
    """Processes that begin together, once each is connected; what each printed last."""
    running = [subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for one in words]
    try:
        for one in running:
            assert one.stdout is not None and one.stdout.readline() == "ready\n", "a client did not get ready"
        at_start()
        for one in running:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        return [json.loads(one.communicate(timeout=LIMIT_S)[0].splitlines()[-1]) for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()


def pushed(host: HostProcess, streams: int, *more: str) -> dict[str, float]:
    """So many streams from a few processes: seconds from the first line to the last acknowledgement, and the sums."""
    each = streams // PROCESSES
    words = [sys.executable, "-m", "tests.bench.log_clients", "--endpoint", host.endpoint, "--streams", str(each)]
    began_cpu_s: list[float] = []
    told = clients(
        [[*words, *more, "--first", str(index * each)] for index in range(PROCESSES)],
        lambda: began_cpu_s.append(cpu_s(host.pid)),
    )
    sums = {name: sum(one[name] for one in told) for name in ("lines", "messages", "steady_lines_per_s")}
    return {
        **sums,
        "took_s": max(one["ended"] for one in told) - min(one["began"] for one in told),
        "late_s": max(one["late_s"] for one in told),
        "cpu_s": cpu_s(host.pid) - began_cpu_s[0],
    }


def batches(folder: Path, seconds: float) -> dict[str, float]:
    """16 nodes in batches, all durable."""
    served = Served(folder)
    lines = int(seconds * 1_000_000 / NODES)
    with served.host as host:
        told = pushed(host, NODES, "--lines", str(lines), "--batch", str(BATCH_LINES))
    assert served.out.stat().st_size == told["lines"] * LINE_BYTES, "the file has not every line once"
    per_s = told["lines"] / told["took_s"]
    return {
        "lines_per_s": round(per_s),
        "mb_per_s": round(per_s * LINE_BYTES / 1e6, 1),
        "root_cpu_us_per_line": round(told["cpu_s"] / told["lines"] * 1e6, 3),
    }


def sustained(folder: Path, seconds: float) -> dict[str, float]:
    """Streams that print at a rate, each a node's.

    `streams_lines_per_s` are all lines by the time to the last acknowledgement, which comes up to a second after the
    last line; `streams_steady_lines_per_s` is how fast lines became durable from the first second to the last line.
    """
    served = Served(folder)
    with served.host as host:
        told = pushed(host, STREAMS, "--lines", str(int(seconds * STREAM_RATE)), "--rate", str(STREAM_RATE))
    lost = told["lines"] - served.out.stat().st_size // LINE_BYTES  # all was acknowledged before the clock stopped
    took_s = told["took_s"]
    return {
        "streams": STREAMS,
        "streams_lines_per_s": round(told["lines"] / took_s),
        "streams_steady_lines_per_s": round(told["steady_lines_per_s"]),
        "streams_lost": int(lost),
        "streams_took_s": round(took_s, 2),
        "streams_wanted_s": seconds,
        "streams_late_s": round(told["late_s"], 2),
        "streams_messages_per_s": round(told["messages"] / took_s),
        "streams_root_cpu_share": round(told["cpu_s"] / took_s, 2),
        "streams_root_cpu_us_per_line": round(told["cpu_s"] / told["lines"] * 1e6, 3),
    }


def fill(folder: Path, lines: int) -> None:
    """A spool with the lines of every rank of a node, ended."""
    text = (b"step 1234 loss 1.2345 " + b"x" * (LINE_BYTES - 23) + b"\n") * 1_000
    for rank in range(RANKS):
        descriptor = spool.open_for_worker(folder, SpoolNote("job", "n0", 0, 1, 0, rank, RANKS, incarnation=1))
        for _ in range(lines // 1_000):
            os.write(descriptor, text)
        os.close(descriptor)


def sender_cost(folder: Path, lines: int) -> float:
    """Processor time of a sender for a spool with so many lines of each rank, in seconds."""
    served = Served(folder)
    own = folder / "spool"
    own.mkdir()
    with served.host as host:
        fill(own, lines)
        spool.end_generation(own, 1)
        spool.close(own)
        sender = start_sender(own, host.endpoint)
        _, status, used = os.wait4(sender.pid, 0)
        sender.returncode = os.waitstatus_to_exitcode(status)
        assert sender.returncode == 0, "the sender left something"
    return used.ru_utime + used.ru_stime


def node_cost(folder: Path, lines: int) -> float:
    """Microseconds of processor time for one line on its node, without what starting the sender costs."""
    idle_s = sender_cost(folder / "idle", 0)
    return (sender_cost(folder / "full", lines) - idle_s) / (lines * RANKS) * 1e6


def memory_while_away(folder: Path) -> dict[str, float]:
    """The most that a sender had in memory: with its log server away, and until the spool was sent."""
    served, own = Served(folder), folder / "spool"
    own.mkdir()
    with served.host as host:
        host.kill()
        sender = start_sender(own, host.endpoint)
        try:
            fill(own, AWAY_S * RANK_RATE)
            spool.end_generation(own, 1)
            wait_until(lambda: cpu_s(sender.pid) > 0, 20, "the sender's start")
            status = Path(f"/proc/{sender.pid}/status")
            away = _peak_mib(status)
            host.start()
            wait_until(lambda: not list(spool.notes(own)), LIMIT_S, "the end of the spool")
            return {"node_rss_away_mib": away, "node_rss_mib": _peak_mib(status)}
        finally:
            sender.kill()
            sender.wait()


def _peak_mib(status: Path) -> float:
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def plain_append(folder: Path, total_mb: float) -> float:
    """Megabytes a second that one process appends to a file in the same blocks, all durable at the end."""
    block = b"x" * (BATCH_LINES * LINE_BYTES)
    folder.mkdir()
    descriptor = os.open(folder / "plain.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began, done = time.monotonic(), 0
    while done < total_mb * 1e6:
        done += os.write(descriptor, block)
    os.fdatasync(descriptor)
    took_s = time.monotonic() - began
    os.close(descriptor)
    return round(done / took_s / 1e6, 1)


def peer_mb(folder: Path, total_mb: float, notes: list[str]) -> float | None:
    """The published peer's log server under the same 16 streams; None where it is not there."""
    folder.mkdir()
    try:
        peer = find_or_make()
        env = {**os.environ, "PYTHONPATH": peer.source}
        words = [peer.python, str(PEER_CLIENTS), str(folder), str(total_mb)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        return float(json.loads(done.stdout.splitlines()[-1])["mb_per_s"])
    except (PeerMissing, subprocess.SubprocessError, OSError, ValueError, IndexError, KeyError) as error:
        notes.append(f"peer_mb_per_s: the peer could not be asked: {error}")
        return None


def main() -> int:
    """Everything, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each figure's load should last")
    parser.add_argument("--only", default="", help="some of batches, streams, cost, memory, append, peer")
    parser.add_argument("--keep", help="folder for the files; default: a temporary one")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    about, notes = circumstances(), list[str]()
    root = Path(told.keep or tempfile.mkdtemp(prefix="resurge-bench-logs-")).resolve()
    figures: dict[str, Any] = dict.fromkeys(
        ("lines_per_s", "mb_per_s", "peer_mb_per_s", "append_mb_per_s", "node_us_per_line", "node_rss_mib")
    )
    parts = {
        "batches": lambda: batches(root / "batches", told.seconds),
        "streams": lambda: sustained(root / "streams", told.seconds * STREAMS_LONGER),
        "cost": lambda: {"node_us_per_line": round(node_cost(root / "cost", int(told.seconds * 20_000)), 3)},
        "memory": lambda: memory_while_away(root / "memory"),
        "append": lambda: {"append_mb_per_s": plain_append(root / "append", told.seconds * 100)},
        "peer": lambda: {"peer_mb_per_s": peer_mb(root / "peer", told.seconds * 100, notes)},
    }
    try:
        for name, part in parts.items():
            if not told.only or name in told.only.split(","):
                found = part()
                figures.update(found)
                print(f"{name:8s} " + ", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
                shutil.rmtree(root / name, ignore_errors=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for other in ("peer_mb_per_s", "append_mb_per_s"):
        ours, theirs = figures["mb_per_s"], figures[other]
        figures[f"times_{other.partition('_')[0]}"] = round(ours / theirs, 2) if ours and theirs else None
    print(json.dumps({**figures, **about, "notes": notes}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
