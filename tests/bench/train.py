"""The training script that every launcher is measured with: it needs torchrun's environment and nothing else.

Each line of ``$BENCH_OUT/stamps.jsonl`` is one stamp: the wall time, what, the rank, the process. Where the worker SDK
is installed the same loop also reports its milestones; under the other launchers those lines do nothing.
"""

import time

_STARTED = time.time()  # the first own instruction: nothing of the user's is imported yet

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from contextlib import nullcontext  # noqa: E402
from pathlib import Path  # noqa: E402

RANK = int(os.environ["RANK"])
OUT = Path(os.environ["BENCH_OUT"])
_FD = os.open(OUT / "stamps.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def stamp(what, at=None, **more):
    """Append one stamp in a single write, so that the lines of all ranks stay whole."""
    line = {"what": what, "at": time.time() if at is None else at, "rank": RANK, "pid": os.getpid(), **more}
    os.write(_FD, (json.dumps(line) + "\n").encode())


stamp("started", at=_STARTED)
if os.environ.get("BENCH_ONLY_START"):
    sys.exit(0)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

try:
    import resurge
except ImportError:
    resurge = None

PAUSE = threading.Event()  # never set
FAST_PAUSE_S, SLOW_PAUSE_S = 0.05, 0.5
CHECKPOINT_EVERY = 10


def load(model):
    """Put the last checkpoint into the model; answer its step, 0 without one."""
    path = OUT / "checkpoint.pt"
    if not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    return saved["step"]


def save(model, step):
    """Replace the checkpoint as one act."""
    torch.save({"model": model.state_dict(), "step": step}, OUT / "checkpoint.tmp")
    (OUT / "checkpoint.tmp").replace(OUT / "checkpoint.pt")


def train_step(model, stop):
    """One data-parallel step by one flat all-reduce; true when some rank was told to stop."""
    model.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    parameters = list(model.parameters())
    flat = torch.cat([p.grad.flatten() for p in parameters] + [torch.tensor([float(stop)])])
    dist.all_reduce(flat)
    at = 0
    with torch.no_grad():
        for p in parameters:
            p.sub_(flat[at : at + p.numel()].view_as(p), alpha=0.01 / dist.get_world_size())
            at += p.numel()
    return bool(flat[-1] > 0)


def run(session):
    dist.init_process_group("gloo")
    stamp("process_group")
    if session:
        session.process_group_ready()
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    step = load(model)
    stamp("restored", step=step)
    if session:
        session.checkpoint_restored(step)
    stopping = False
    while not stopping:
        stopping = train_step(model, (OUT / "stop").exists())
        step += 1
        stamp("step", step=step)
        if session:
            session.beat(step)
            session.step_committed(step)
        if step % CHECKPOINT_EVERY == 0 and RANK == 0:
            save(model, step)
        PAUSE.wait(SLOW_PAUSE_S if (OUT / "slow").exists() else FAST_PAUSE_S)  # stands for the work of a real step
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    if os.environ.get("BENCH_SIGTERM"):  # as scripts do that save a checkpoint when they are asked to end
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stamp("imported")
    with resurge.session() if resurge else nullcontext() as session:
        try:
            run(session)
        except RuntimeError as error:
            stamp("peer_failed", error=str(error)[:200])
            if os.environ.get("BENCH_SURVIVORS") == "hang":  # as ranks that wait in a collective of a GPU do
                PAUSE.wait()
            raise


if __name__ == "__main__":
    main()
