"""Guards over a real device: a stream that does not drain, and an NCCL group whose peer does not come."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
LATE_LIMIT_S = 5.0

STREAM = """
import json, os, time, torch
from resurge.refit_watchdog import is_refit_abort, is_refit_context_lost, sync_stream_within
stream = torch.cuda.Stream()
sync_stream_within(stream, 5.0, "an idle stream")
with torch.cuda.stream(stream):
    torch.cuda._sleep(10**12)
began = time.monotonic()
try:
    sync_stream_within(stream, 0.5, "bulk transfer")
    told = {}
except RuntimeError as error:
    told = {"aborted": is_refit_abort(error), "lost": is_refit_context_lost(error), "text": str(error)}
told["took_s"] = time.monotonic() - began
print(json.dumps(told), flush=True)
os._exit(0)
"""

NCCL = """
import json, os, sys, threading, time, torch
import torch.distributed as dist
from datetime import timedelta
from resurge.guards.torch_groups import abortable
from resurge.refit_watchdog import RefitAborted, RefitAbortWatchdog, is_refit_context_lost, sync_stream_within
rank = int(sys.argv[1])
torch.cuda.set_device(rank)
store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("nccl", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=1800))
one = torch.ones(1, device="cuda")
dist.all_reduce(one)
torch.cuda.synchronize()
if rank == 1:
    sys.stdin.read()
    os._exit(0)
began = time.monotonic()
told = {"aborted": False}
try:
    with RefitAbortWatchdog(abortable(dist.group.WORLD), 1.0) as guard:
        dist.all_reduce(one)
        sync_stream_within(torch.cuda.current_stream(), 3.0, "all_reduce")
except RefitAborted as error:
    told = {"aborted": True, "lost": is_refit_context_lost(error)}
told |= {"fired": guard.fired, "late_s": time.monotonic() - began - 1.0}
print(json.dumps(told), flush=True)
os._exit(0)
"""


def told_by(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(GPUS < 1, reason="needs a GPU")
def test_a_stream_that_does_not_drain_is_told_as_a_lost_context():
    told = told_by([sys.executable, "-c", STREAM])
    assert told["aborted"]
    assert told["lost"]
    assert "bulk transfer" in told["text"]
    assert told["took_s"] < 0.5 + LATE_LIMIT_S


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs: two ranks of NCCL cannot share one")
def test_a_watchdog_aborts_an_nccl_collective_whose_peer_does_not_come(tmp_path):
    store = str(tmp_path / "store")
    peer = subprocess.Popen([sys.executable, "-c", NCCL, "1", store], stdin=subprocess.PIPE)
    try:
        told = told_by([sys.executable, "-c", NCCL, "0", store], stdin=subprocess.DEVNULL)
    finally:
        peer.kill()
        peer.wait(10)
    assert told["fired"]
    assert told["late_s"] < 3.0 + LATE_LIMIT_S
