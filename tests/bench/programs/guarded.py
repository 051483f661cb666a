"""Two gloo ranks train a small model, step by step with every watchdog armed or with none.

usage: guarded.py FOLDER [ANYTHING]. FOLDER/rounds_wanted says how many rounds of four steps, two of them armed and two
plain, in an order which FOLDER/seed makes chance, the same on both ranks. Each rank writes what each took, its
processor time, and what of it was outside of the step itself, in seconds.
"""

import json
import os
import random
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
PLAIN, AGAIN, ARMED, ARMED_AGAIN = "plain", "again", "armed", "armed again"


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
        if kind in (ARMED, ARMED_AGAIN):
            with crash_guard, resurge.deadline(60, group, "step"):
                begun = time.perf_counter()
                step()
                ended = time.perf_counter()
            own.beat(number)
        else:
            begun = time.perf_counter()
            step()
            ended = time.perf_counter()
        took, used = time.perf_counter() - began, time.process_time() - used
        return took, used, took - (ended - begun)

    kinds, rounds = [PLAIN, ARMED, AGAIN, ARMED_AGAIN], []
    chance = random.Random(int((FOLDER / "seed").read_text()))
    for number in range(WARM_UP + int((FOLDER / "rounds_wanted").read_text())):
        chance.shuffle(kinds)
        rounds.append({kind: timed(kind, number) for kind in kinds})
    (FOLDER / f"rounds-{rank}").write_text(json.dumps(rounds[WARM_UP:]))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


main()
