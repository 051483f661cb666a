"""A loop as it is written for torchrun, and the two lines that Resurge needs to know how far it is.

resurge run --nproc-per-node 2 train.py
torchrun --nproc-per-node 2 train.py        # the same script: without a launcher of ours the lines do nothing
"""

import argparse
import os

import torch
import torch.distributed as dist

import resurge.torch  # the first line


def main() -> None:
    """Train a line through eight numbers, on every rank."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=20)
    steps = arguments.parse_args().steps

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer = resurge.torch.wrap(optimizer)  # the second: each optimizer.step() is a beat, and a committed step

    for _ in range(steps):
        inputs = torch.randn(32, 8)
        loss = (model(inputs).squeeze(1) - inputs.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    print(f"rank {os.environ['RANK']}: {steps} steps, loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
