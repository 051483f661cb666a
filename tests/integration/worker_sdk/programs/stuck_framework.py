"""Two ranks of a framework over gloo. Rank 1 does not come to the third step; rank 0's guard is to let go of it."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from resurge import is_aborted
from resurge.guards.torch_groups import open_gloo
from resurge.trained_loop import Protection

DEADLINE_S, STUCK_AT, LOST_S = 2.0, 3, 120.0


def wait_for(path: Path) -> None:
    """Rank 1 in its third step: until the other one is free."""
    until = time.monotonic() + LOST_S
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    os._exit(0)


def fit_lightning(protection: Protection, stuck, folder: Path) -> None:
    """Lightning takes the process group that is there."""
    import lightning.pytorch as pl

    from resurge.lightning import FaultToleranceCallback

    class Line(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            stuck(index + 1)
            return self.layer(batch[0]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    numbers = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4)
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, max_steps=8, callbacks=[FaultToleranceCallback(protection)], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(Line(), numbers)


def train_transformers(protection: Protection, stuck, folder: Path) -> None:
    """So does the Trainer."""
    import transformers

    from resurge.transformers import FaultToleranceCallback

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = torch.nn.Linear(4, 1), 0

        def forward(self, inputs):
            self.calls += 1
            stuck(self.calls)
            return {"loss": self.layer(inputs).square().mean()}

    rows = [{"inputs": torch.randn(4)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=8, per_device_train_batch_size=4, use_cpu=True, report_to=[], disable_tqdm=True,
        save_strategy="no", ddp_backend="gloo",
    )  # fmt: skip
    callback = FaultToleranceCallback(protection)
    trainer = transformers.Trainer(Line(), arguments, train_dataset=rows, callbacks=[callback])
    with callback.guarded():
        trainer.train()


def main() -> None:
    """The last line of rank 0 says how long it took, from the begin of its third step, and what it got."""
    folder, begun = Path(sys.argv[2]), [0.0]
    gloo = open_gloo(lambda: dist.init_process_group("gloo"))
    rank = dist.get_rank()

    def stuck(step: int) -> None:
        if step == STUCK_AT and rank == 1:
            wait_for(folder / "free")
        begun[0] = time.monotonic()

    # rank 1 has no deadline: its own guard could fire a moment sooner, and rank 0 would see no more than its end
    limits = {"step": DEADLINE_S} if rank == 0 else {}
    protection = Protection(deadlines=limits, groups=lambda: [gloo], crash_guard=False)
    run = {"lightning": fit_lightning, "transformers": train_transformers}[sys.argv[1]]
    try:
        run(protection, stuck, folder)
    except Exception as error:  # whatever the framework hands on
        told = is_aborted(error) or "step passed its deadline" in "".join(getattr(error, "__notes__", ()))
        print(f"left after {time.monotonic() - begun[0]:.2f} s, told why: {told} ({error!r})", flush=True)
        (folder / "free").write_text("")
        os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main()
