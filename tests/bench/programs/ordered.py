"""A rank of the fan-out: seven form a gloo group, the last of them is frozen, and somebody knows that it is in vain.

usage: ordered.py FOLDER [ANYTHING]. In even cycles the guard of rank 0 fires, the others have none that would; in odd
ones rank 7, which is no member, dies. Whoever is released writes when, by CLOCK_MONOTONIC; so does whoever knows.
"""

import math
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch import ones

import resurge
from resurge.guards.deadlines import EAR
from resurge.guards.torch_groups import open_gloo

FOLDER = Path(sys.argv[1])
MEMBERS, FROZEN, BYSTANDER, WORLD = 7, 6, 7, 8
LIMIT_S, KNOWN_AFTER_S = 0.5, 0.3


def said(own, what, text=""):
    path = FOLDER / f"{what}-{own.cycle}-{own.rank}"
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").rename(path)


def wait_for(own, what, ranks):
    while not all((FOLDER / f"{what}-{own.cycle}-{rank}").exists() for rank in ranks):
        time.sleep(0.005)


def opened(own):
    def make():
        store = dist.FileStore(str(FOLDER / f"store-{own.generation}"), MEMBERS)
        dist.init_process_group("gloo", store=store, rank=own.rank, world_size=MEMBERS, timeout=timedelta(seconds=1800))

    return open_gloo(make)


def main():
    own = resurge.session(quick_exit=True)
    if own.cycle >= int((FOLDER / "cycles").read_text()):
        return
    fires = own.cycle % 2 == 0
    # what is left after a fault is used: the handler runs as soon as the main thread is released
    signal.signal(signal.SIGTERM, lambda *_: None)
    group = opened(own) if own.rank < MEMBERS else None
    own.process_group_ready()
    own.checkpoint_restored(0)
    own.step_committed(0)
    if group is None:
        wait_for(own, "begins", range(FROZEN))
        time.sleep(KNOWN_AFTER_S)
        if fires:
            threading.Event().wait()
        said(own, "known", repr(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    group.run(lambda pg: dist.barrier(group=pg))
    if own.rank == FROZEN:
        said(own, "begins")
        os.kill(os.getpid(), signal.SIGSTOP)
    tensor = ones(1024)
    limit_s = LIMIT_S if fires and own.rank == 0 else math.inf
    began = time.monotonic()
    try:
        with resurge.deadline(limit_s, group, "step"):
            EAR.connected.wait(10)
            said(own, "begins")
            group.run(lambda pg: dist.all_reduce(tensor, group=pg))
    except RuntimeError as error:  # an abort, or a peer whose connections an abort has cut a moment sooner
        now = time.monotonic()
        if limit_s == LIMIT_S:
            said(own, "known", repr(began + LIMIT_S))
        said(own, "released", f"{now!r} {error}".replace("\n", " "))
    wait_for(own, "released", range(FROZEN))
    sys.exit(3)


main()
