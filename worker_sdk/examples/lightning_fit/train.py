"""PyTorch Lightning with the callback: a line through eight numbers, that goes on where it was.

pip install 'resurge[lightning]'
resurge run --nproc-per-node 2 train.py --folder out
torchrun --nproc-per-node 2 train.py --folder out      # the same script: without a launcher of ours nobody looks
"""

import argparse
import os
import signal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from resurge.lightning import FaultToleranceCallback, Protection


class Line(LightningModule):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def loss(self, batch):
        (inputs,) = batch
        return (self.layer(inputs).squeeze(1) - inputs.sum(1)).square().mean()

    def training_step(self, batch, index):
        return self.loss(batch)

    def validation_step(self, batch, index):
        self.log("validation", self.loss(batch), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Die(Callback):
    """Rank 1 of the first run dies after a step, to show what comes then."""

    def __init__(self, step):
        self.step = step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        is_first_run = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if trainer.global_step == self.step and trainer.global_rank == 1 and is_first_run:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    """Fit, from the last checkpoint."""
    given = argparse.ArgumentParser()
    given.add_argument("--folder", default="out")
    given.add_argument("--steps", type=int, default=30)
    given.add_argument("--die-at", type=int, default=0)
    told = given.parse_args()

    torch.manual_seed(7)
    numbers = torch.utils.data.TensorDataset(torch.randn(2048, 8))
    batches = torch.utils.data.DataLoader(numbers, batch_size=16)
    some = torch.utils.data.DataLoader(torch.utils.data.Subset(numbers, range(64)), batch_size=16)
    protection = Protection(sections={"setup": 300, "checkpointing": 120}, learn=True)
    callback = FaultToleranceCallback(protection)
    checkpoints = ModelCheckpoint(told.folder, every_n_train_steps=5, save_last=True)
    trainer = Trainer(
        accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")), max_steps=told.steps,
        val_check_interval=10, callbacks=[Die(told.die_at), callback, checkpoints], default_root_dir=told.folder,
        logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Line(), batches, some, ckpt_path="last")
    begun_from = trainer.ckpt_path
    if trainer.is_global_zero:
        loss = trainer.callback_metrics["validation"].item()
        print(f"{callback.end.value} at step {trainer.global_step}, loss {loss:.3f}", flush=True)
        print(f"begun from {begun_from}", flush=True)


if __name__ == "__main__":
    main()
