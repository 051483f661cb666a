"""Ranks of a gloo group, forked after one import of torch; the last one is struck. Prints what became of the others.

usage: gloo_ranks.py FOLDER OPERATION STRIKE [ROUNDS], with OPERATION all_reduce, broadcast, barrier, send or recv, and
STRIKE before (it is frozen before the operation), middle (in it, after it began) or never.
"""

import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import resurge
from resurge.guards.torch_groups import open_gloo
from resurge.testing import kill

FOLDER, OPERATION, STRIKE = sys.argv[1:4]
WORLD = 2 if OPERATION in ("send", "recv") else 3
VICTIM = WORLD - 1
LIMIT_S = 0.5
ELEMENTS = 48 * 1024 * 1024 if STRIKE == "middle" else 1024


def operate(group, rank, tensor):
    if OPERATION == "all_reduce":
        group.run(lambda pg: dist.all_reduce(tensor, group=pg))
    elif OPERATION == "broadcast":
        group.run(lambda pg: dist.broadcast(tensor, src=VICTIM if STRIKE == "before" else 0, group=pg))
    elif OPERATION == "barrier":
        group.run(lambda pg: dist.barrier(group=pg))
    elif (OPERATION == "send") == (rank == 0):
        group.send(tensor, 1 - rank)
    else:
        group.recv(tensor, 1 - rank)


def opened(store, prefix, rank, world):
    def make():
        own, limit = dist.PrefixStore(prefix, store), timedelta(seconds=1800)
        dist.init_process_group("gloo", store=own, rank=rank, world_size=world, timeout=limit)

    return open_gloo(make)


def opened_with_its_store(rank):
    """As most scripts do it: rank 0 hosts the store, which is made together with the group."""

    def make():
        where, limit = f"tcp://127.0.0.1:{os.environ['STORE_PORT']}", timedelta(seconds=1800)
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=WORLD, timeout=limit)

    group = open_gloo(make)
    return group, dist.distributed_c10d._get_default_store()


def say(told):
    # in one piece, whatever the buffering: all ranks write into one pipe
    os.write(1, f"{json.dumps(told)}\n".encode())


def rank_of(rank, tell, go, number):
    torch.set_num_threads(1)
    if "STORE_PORT" in os.environ:
        group, store = opened_with_its_store(rank)
    else:
        store = dist.FileStore(os.path.join(FOLDER, f"store-{number}"), WORLD)
        group = opened(store, "first", rank, WORLD)
    group.run(lambda pg: dist.barrier(group=pg))
    tensor = torch.ones(ELEMENTS)
    os.write(tell, b"r")
    if rank == VICTIM and STRIKE == "before":
        signal.pause()
    os.read(go, 1)
    if rank == VICTIM:
        os.write(tell, b"b")
    told = {"rank": rank, "aborted": False}
    began = time.monotonic()
    try:
        with resurge.deadline(LIMIT_S, group, phase=OPERATION) as guard:
            operate(group, rank, tensor)
    except resurge.CollectiveAborted as error:
        told["aborted"] = True
        told["text"] = str(error)
    told["late_ms"] = round(1000 * (time.monotonic() - began - LIMIT_S), 1)
    told["outcome"] = guard.outcome.value
    dist.destroy_process_group()
    if STRIKE != "never" and WORLD > 2:
        again = opened(store, "second", rank, WORLD - 1)
        one = torch.ones(1)
        again.run(lambda pg: dist.all_reduce(one, group=pg))
        told["rebuilt"] = int(one)
        dist.destroy_process_group()
    told["threads"] = sorted(t.name for t in threading.enumerate() if t.name.startswith("resurge-abort"))
    say(told)
    # not os._exit: that the process ends by itself is a part of it
    sys.exit(0)


def strike(number):
    tell_in, tell = os.pipe()
    go, go_out = os.pipe()
    pids = []
    for rank in range(WORLD):
        pid = os.fork()
        if pid == 0:
            rank_of(rank, tell, go, number)
        pids.append(pid)
    heard = b""
    while heard.count(b"r") < WORLD:
        heard += os.read(tell_in, 1)
    if STRIKE == "before":
        os.kill(pids[VICTIM], signal.SIGSTOP)
    os.write(go_out, b"g" * WORLD)
    if STRIKE == "middle":
        while b"b" not in heard:
            heard += os.read(tell_in, 1)
        time.sleep(0.02)
        os.kill(pids[VICTIM], signal.SIGSTOP)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (pids if STRIKE == "never" else pids[:VICTIM])]
    if STRIKE != "never":
        kill(pids[VICTIM])
        os.waitpid(pids[VICTIM], 0)
    for end in (tell_in, tell, go, go_out):
        os.close(end)
    return codes


if __name__ == "__main__":
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    say({"codes": [code for number in range(rounds) for code in strike(number)]})
