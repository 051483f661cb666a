"""Data-parallel training of a small network on handwritten digits that survives faults and ends bit for bit the same.

    resurge run --nproc-per-node 2 --max-restarts 3 train.py --steps 200 --checkpoint-dir /tmp/digits

Runs as well under torchrun, or alone without any launcher. What makes the resumed run equal to the undisturbed one is
told in the README beside this file.
"""

import argparse
import gzip
import hashlib
import importlib.util
import os
import time
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from torch import nn

import resurge

BATCH_PER_RANK = 32
LEARNING_RATE = 0.05
MOMENTUM = 0.9


def options():
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits, with checkpoints and exact resume.")
    parser.add_argument("--steps", type=int, default=200, help="train up to this step")
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--checkpoint-dir", type=Path, default=Path("checkpoints"), help="seen by all nodes")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="let a step take at least this long")
    parser.add_argument("--beat-limit", type=float, default=30.0, help="seconds between steps that mean a hang")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def digits(device):
    """scikit-learn's digits: 1,797 images of 8 x 8 grey values. Read from its file: its import takes seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise SystemExit("the example needs scikit-learn for its data: pip install scikit-learn")
    file = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    with gzip.open(file, "rt") as text:
        table = torch.from_numpy(numpy.loadtxt(text, delimiter=",", dtype=numpy.float32))
    return table[:, :-1].div(16).to(device), table[:, -1].long().to(device)


def batch_of(seed, step, rank, world_size, count):
    """Which images this rank sees in this step: a function of its arguments and of nothing else."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    return torch.randperm(count, generator=generator)[: BATCH_PER_RANK * world_size][rank::world_size]


def average_gradients(parameters, world_size):
    """One all-reduce over all gradients in the order of the parameters, so that sums are always made alike."""
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
    dist.all_reduce(flat)
    flat /= world_size
    for parameter, mean in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad.copy_(mean.view_as(parameter))


class SGD:
    """SGD with momentum. torch.optim has it too, but making the first optimizer there imports for a second."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.velocities = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self):
        """Move the parameters against their gradients."""
        for parameter, velocity in zip(self.parameters, self.velocities, strict=True):
            velocity.mul_(MOMENTUM).add_(parameter.grad)
            parameter.sub_(velocity, alpha=LEARNING_RATE)


def restore(file, model, optimizer):
    """The step that the checkpoint holds; 0 when there is none."""
    if not file.exists():
        return 0
    state = torch.load(file, weights_only=True, map_location="cpu")
    model.load_state_dict(state["model"])
    for velocity, saved in zip(optimizer.velocities, state["velocities"], strict=True):
        velocity.copy_(saved)
    return state["step"]


def save(session, file, step, model, optimizer):
    """Write the checkpoint beside the old one and put it in its place in one instant, if we still may."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{session.generation}.new")
    with new.open("wb") as stream:
        torch.save({"step": step, "model": model.state_dict(), "velocities": optimizer.velocities}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    session.fence()  # raises when another generation has taken over; the old checkpoint stays then
    os.replace(new, file)
    directory = os.open(file.parent, os.O_RDONLY)
    os.fsync(directory)  # the new name outlives a power cut only after this
    os.close(directory)


def fingerprint(model):
    """SHA-256 of all parameters."""
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return hashlib.sha256(flat.cpu().numpy().tobytes()).hexdigest()


def choose_device():
    """A GPU for each rank of this node and NCCL; without enough of them the CPU and gloo."""
    local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_world_size:
        torch.cuda.set_device(local_rank)
        torch.use_deterministic_algorithms(True)
        return torch.device("cuda", local_rank), "nccl"
    return torch.device("cpu"), "gloo"


def train(session, told):
    """The whole run of one rank, from the process group to the last step."""
    device, backend = choose_device()
    dist.init_process_group(backend)
    session.process_group_ready()
    rank, world_size = dist.get_rank(), dist.get_world_size()

    images, labels = digits(device)
    torch.manual_seed(told.seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    parameters = list(model.parameters())
    optimizer = SGD(parameters)
    file = told.checkpoint_dir / "checkpoint.pt"
    step = restore(file, model, optimizer)
    session.checkpoint_restored(step)
    if rank == 0:
        print(f"cycle {session.cycle}: {world_size} ranks start at step {step} of {told.steps}", flush=True)

    while step < told.steps:
        began_s = time.monotonic()
        batch = batch_of(told.seed, step, rank, world_size, len(images))
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        model.zero_grad()
        loss.backward()
        session.beat()  # before waiting for the others: whoever is silent for longest is then the one that hangs
        average_gradients(parameters, world_size)
        optimizer.step()
        step += 1
        session.step_committed(step)
        if step % told.checkpoint_every == 0 or step == told.steps:
            with session.phase("checkpoint", limit=600):
                if rank == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                    save(session, file, step, model, optimizer)
                dist.barrier()  # the others wait in the phase, where its limit holds and not that of the beats
        time.sleep(max(0.0, told.step_seconds - (time.monotonic() - began_s)))

    if rank == 0:
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
        print(f"step {step} accuracy {accuracy:.4f} parameters {fingerprint(model)}", flush=True)
    dist.destroy_process_group()


def main():
    """Fill in what a launcher would have set, then train."""
    told = options()
    torch.set_num_threads(1)  # one order of all sums
    for name, alone in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        os.environ.setdefault(name, alone)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic algorithms on a GPU ask for
    with resurge.session(beat_limit=told.beat_limit, quick_exit=True) as session:
        train(session, told)


if __name__ == "__main__":
    main()
