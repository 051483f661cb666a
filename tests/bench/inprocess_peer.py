"""The published package's in-process wrapper under the same fault as ours: gloo ranks, one killed in a collective.

`killed` gives the seconds from a kill to the last survivor's next all-reduce. Its own abort releases nobody over gloo
(NCCL's groups alone are aborted), so a kill may wake too few for it to go on: `Aborts.OWN` measures that. `Aborts.CUT`
hands it, by the argument it has for that, an abort that cuts the group's connections as ours does: then it restarts.
Ranks are plain processes, as nothing may end the others. `Pace` gives its intervals: those it has by itself, or
all of them 100 ms.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from resurge_libs.testing import NeverHappened, wait_until
from tests.bench.peers import Peer

START_S = 120.0
KILL_LIMIT_S = 60.0
PROGRAM = """
import datetime, os, socket, sys, time
import torch, torch.distributed as dist
from nvidia_resiliency_ext import inprocess
from nvidia_resiliency_ext.inprocess.abort import Abort, AbortTorchDistributed
folder, aborts, pace = sys.argv[1:]
first = int(os.environ["RANK"])
torch.set_num_threads(1)
own = set()

def say(name, text):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write(str(text))
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))

def sockets():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if name.startswith("socket:"):
            found.add((int(number), name))
    return found

class Cut(Abort):
    def __call__(self, state):
        for number, _ in own & sockets():
            try:
                with socket.socket(fileno=os.dup(number)) as one:
                    one.getpeername()
                    one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        return state

short = datetime.timedelta(milliseconds=100)
names = ("monitor_thread_interval", "monitor_process_interval", "heartbeat_interval", "progress_watchdog_interval",
         "last_call_wait")
say(f"pid-{first}", os.getpid())

@inprocess.Wrapper(
    abort=Cut() if aborts == "cut" else AbortTorchDistributed(),
    store_kwargs={"port": int(os.environ["MASTER_PORT"]), "timeout": datetime.timedelta(seconds=60)},
    monitor_process_pidfile=os.path.join(folder, "monitor-{rank}"),
    **(dict.fromkeys(names, short) if pace == "short" else {}),
)
def train(call: inprocess.CallWrapper = None):
    if dist.is_initialized():
        dist.destroy_process_group()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.path.join(folder, f"store-{call.iteration}"), world)
    before = sockets()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    own.clear(), own.update(sockets() - before)
    dist.all_reduce(torch.ones(1024))
    say(f"sum-{call.iteration}-{first}", time.monotonic())
    while not first:
        time.sleep(0.01)
    dist.all_reduce(torch.ones(1024))

train()
"""


class Aborts(enum.StrEnum):
    """What releases ranks from a collective."""

    OWN = "own"
    CUT = "cut"


class Pace(enum.StrEnum):
    """How often it looks."""

    DEFAULT = "default"
    SHORT = "short"


class PeerRanks:
    """The ranks of one world, without a launcher."""

    def __init__(self, peer: Peer, ranks: int, aborts: Aborts, pace: Pace) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="resurge-bench-peer-"))
        script = self.folder / "train.py"
        script.write_text(PROGRAM)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        self.processes: list[subprocess.Popen[bytes]] = []
        for rank in range(ranks):
            env = {**os.environ, **common, "RANK": str(rank), "PYTHONPATH": peer.source}
            with (self.folder / f"log-{rank}").open("wb") as log:
                command = [peer.python, str(script), str(self.folder), aborts, pace]
                self.processes.append(
                    subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                )

    def last_sum(self, iteration: int, ranks: int, limit_s: float) -> float:
        """When the last of the first `ranks` has reduced in this iteration; raises NeverHappened."""
        files = [self.folder / f"sum-{iteration}-{rank}" for rank in range(ranks)]
        wait_until(lambda: all(file.exists() for file in files), limit_s, f"the peer's sums of iteration {iteration}")
        return max(float(file.read_text()) for file in files)

    def end(self) -> None:
        """Leave nothing behind: neither the ranks nor what watches each of them."""
        for process in self.processes:
            process.kill()
            process.wait()
        for file in self.folder.glob("monitor-*"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def killed(peer: Peer, ranks: int, aborts: Aborts, pace: Pace, limit_s: float = KILL_LIMIT_S) -> float | None:
    """Seconds from the kill of the last rank to the last survivor's next all-reduce; None: not within the limit."""
    world = PeerRanks(peer, ranks, aborts, pace)
    try:
        world.last_sum(0, ranks, START_S)
        at = time.monotonic()
        world.processes[-1].kill()
        return world.last_sum(1, ranks - 1, limit_s) - at
    except NeverHappened:
        return None
    finally:
        world.end()
