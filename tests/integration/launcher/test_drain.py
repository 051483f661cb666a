"""A notice to one of two launchers: real processes, workers without torch that go in lockstep by files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import kill, terminate
from tests.integration.launcher.launching import PREAMBLE
from tests.integration.launcher.test_two_nodes import Pair, pair

__all__ = ["pair"]

STEPS = (
    PREAMBLE
    + """
import resurge
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
generation = os.environ["RESURGE_GENERATION"]
board = open(os.path.join(folder, "board-" + generation), "a+b")
board.truncate(8 * world)
import mmap, struct
steps = mmap.mmap(board.fileno(), 8 * world)
def collective(step):
    steps[8 * rank : 8 * rank + 8] = struct.pack("<Q", step)
    while min(struct.unpack("<%dQ" % world, steps[:])) < step:
        time.sleep(0.0005)
with resurge.session() as session:
    said("pid-" + me, os.getpid())
    session.process_group_ready()
    session.checkpoint_restored(0)
    step = 0
    while True:
        step += 1
        collective(step)
        time.sleep(0.002)
        session.step_committed(step)
        if ASKS and session.should_stop():
            with session.phase("checkpoint", limit=60):
                time.sleep(0.2)
                with open(os.path.join(folder, "saved-%d" % rank), "a") as file:
                    file.write("%d\\n" % step)
            break
"""
)


def steps(asks: bool = True) -> str:
    return STEPS.replace("ASKS", str(asks))


def start(pair: Pair, program: str, *flags: str) -> None:
    for node in ("n0", "n1"):
        pair.start(node, program, "--nproc-per-node", "2", "--warm", "off", *flags)
    files = [pair.folder / f"pid-1-{rank}" for rank in range(4)]
    wait_until(lambda: all(file.exists() for file in files), 40, "all workers")
    wait_until(lambda: (pair.folder / "board-1").read_bytes()[:8] > b"\x20", 20, "some steps")


def codes(pair: Pair, limit_s: float = 20.0) -> list[int | None]:
    for process in pair.nodes.values():
        wait_until(lambda process=process: process.poll() is not None, limit_s, "the end")
    return [process.returncode for process in pair.nodes.values()]


def saved(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("saved-*"))]


def decision(pair: Pair) -> dict[str, object]:
    return dict(json.loads((pair.state_dir / "job.json").read_text())["decision"])


def stopped_together(pair: Pair) -> None:
    told = saved(pair.folder)
    assert len(told) == 4 and len(set(told)) == 1, f"ranks saved {told}"
    assert told[0].count("\n") == 1, "each saves once"


@pytest.mark.users_row(13)
def test_all_ranks_of_both_nodes_save_one_step_once_and_both_launchers_leave_alike(pair: Pair):
    start(pair, steps())
    terminate(pair.nodes["n1"].pid)
    assert codes(pair) == [128 + signal.SIGTERM] * 2
    stopped_together(pair)
    assert decision(pair)["cause"] == "preempted"


def test_ranks_that_asked_for_the_first_time_a_moment_before_are_asked_to_save(pair: Pair):
    program = steps().replace("True and", "os.path.exists(os.path.join(folder, 'ask')) and")
    program = program.replace("and session.should_stop()", "and (session.should_stop(), said('asked-%d' % rank, 1))[0]")
    start(pair, program)
    (pair.folder / "ask").touch()
    files = [pair.folder / f"asked-{rank}" for rank in range(4)]
    wait_until(lambda: all(file.exists() for file in files), 20, "all ranks asking")
    terminate(pair.nodes["n1"].pid)
    assert codes(pair) == [128 + signal.SIGTERM] * 2
    stopped_together(pair)


def test_so_it_is_when_the_scheduler_tells_both_and_gives_a_code(pair: Pair):
    start(pair, steps(), "--preempted-exit-code", "75", "--drain-signals", "SIGUSR1")
    for process in pair.nodes.values():
        process.send_signal(signal.SIGUSR1)
    assert codes(pair) == [75, 75]
    stopped_together(pair)


def test_an_operator_drains_the_job(pair: Pair):
    start(pair, steps())
    command = [sys.executable, "-m", "resurge_launcher", "drain", "--endpoint", pair.endpoint, "--reason", "power"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    # on a busy machine the ranks may have stopped, and the job be over, before the answer is written
    assert ("DRAINING" in answer.stdout or "PREEMPTED" in answer.stdout) and "power" in answer.stdout
    assert codes(pair) == [143, 143]
    stopped_together(pair)


def test_the_control_plane_is_killed_meanwhile(pair: Pair):
    start(pair, steps())
    control = pair.control_pid()
    terminate(pair.nodes["n0"].pid)
    kill(control)
    assert codes(pair, 40.0) == [143, 143]
    stopped_together(pair)


def test_ranks_that_never_ask_are_ended_within_the_grace_on_both_nodes(pair: Pair):
    start(pair, steps(asks=False), "--drain-grace", "3")
    terminate(pair.nodes["n1"].pid)
    assert codes(pair) == [143, 143]
    assert not saved(pair.folder)
