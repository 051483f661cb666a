"""Two gloo ranks train a small model, step by step by turns with every watchdog armed and with none.

usage: guarded.py FOLDER [ANYTHING]. FOLDER/rounds_wanted says how many rounds of three steps: plain, armed, plain
again. Rank 0 writes what each took, and its processor time, in seconds.
"""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import resurge
from resurge.guards.torch_groups import open_gloo

FOLDER = Path(sys.argv[1])
WARM_UP, WIDTH, BATCH = 20, 512, 64
PLAIN, ARMED, AGAIN = "plain", "armed", "again"


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    own = resurge.session(beat_limit=60)
    rank = own.rank

    def make():
        store = dist.FileStore(str(FOLDER / "store"), 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))

    group = open_gloo(make)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH)
    own.process_group_ready()

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=group.group)
        optimizer.step()

    crash_guard = resurge.crash_guard(own)

    def timed(kind, number):
        began, used = time.perf_counter(), time.process_time()
        if kind == ARMED:
            with crash_guard, resurge.deadline(60, group, "step"):
                step()
            own.beat(number)
        else:
            step()
        return time.perf_counter() - began, time.process_time() - used

    kinds, rounds = [PLAIN, ARMED, AGAIN], []
    for number in range(WARM_UP + int((FOLDER / "rounds_wanted").read_text())):
        rounds.append({kind: timed(kind, number) for kind in kinds})
        kinds = kinds[1:] + kinds[:1]
    if rank == 0:
        (FOLDER / "rounds").write_text(json.dumps(rounds[WARM_UP:]))
    dist.destroy_process_group()
    os._exit(0)


main()
