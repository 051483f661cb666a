"""A rank of the matrix: in each cycle one operation on a gloo group, over and over, until one rank is struck.

usage: struck.py FOLDER [ANYTHING]; FOLDER/cells holds one name of a cell in each line, one for each cycle.
"""

import os
import random
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import resurge
from resurge.guards.torch_groups import open_gloo
from tests.endurance.matrix.cells import PAYLOADS, VICTIM, WORLD, Cell

FOLDER = Path(sys.argv[1])
SETTLE_S = 0.7
"""From the first step to the strike: what is struck sooner belongs to the recovery before."""
STRIKE_WITHIN_S = (0.02, 0.08)
"""After the operation began."""


def strike(own, cell):
    path = FOLDER / f"strike-{own.cycle}"
    path.with_suffix(".part").write_text(repr(time.time()))
    path.with_suffix(".part").rename(path)
    os.kill(os.getpid(), getattr(signal, cell.strike))


def operate(cell, rank, group, tensor):
    if cell.operation == "all_reduce":
        group.run(lambda pg: dist.all_reduce(tensor, group=pg))
    elif cell.operation == "barrier":
        group.run(lambda pg: dist.barrier(group=pg))
    elif cell.operation.startswith("broadcast"):
        root = VICTIM if cell.operation == "broadcast_root" else 0
        group.run(lambda pg: dist.broadcast(tensor, src=root, group=pg))
    elif rank == 1:
        threading.Event().wait()  # has no part in it
    elif (cell.operation == "send") == (rank == 0):
        group.send(tensor, VICTIM if rank == 0 else 0)
    else:
        group.recv(tensor, VICTIM if rank == 0 else 0)


def opened(own):
    def make():
        store = dist.FileStore(str(FOLDER / f"store-{own.generation}"), WORLD)
        limit = timedelta(seconds=1800)
        dist.init_process_group("gloo", store=store, rank=own.rank, world_size=WORLD, timeout=limit)

    return open_gloo(make)


def main():
    torch.set_num_threads(1)
    own = resurge.session(quick_exit=True)
    names = (FOLDER / "cells").read_text().split()
    if own.cycle >= len(names):
        return
    cell = Cell.named(names[own.cycle])
    group = opened(own)
    tensor = torch.ones(PAYLOADS[cell.payload] // 4)
    group.run(lambda pg: dist.barrier(group=pg))
    own.process_group_ready()
    own.checkpoint_restored(own.cycle)
    own.step_committed(own.cycle)
    time.sleep(SETTLE_S)
    group.run(lambda pg: dist.barrier(group=pg))
    if own.rank == VICTIM:
        if cell.moment == "before":
            strike(own, cell)
        threading.Timer(random.uniform(*STRIKE_WITHIN_S), strike, (own, cell)).start()
    while True:
        with resurge.deadline(cell.limit_s, group, cell.operation):
            operate(cell, own.rank, group, tensor)
        own.beat()


main()
