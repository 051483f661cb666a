"""Hugging Face's Trainer with the callback: a small language model learns to count, and goes on where it was.

pip install 'resurge[transformers]'
resurge run --nproc-per-node 2 train.py --folder out
torchrun --nproc-per-node 2 train.py --folder out      # the same script: without a launcher of ours nobody looks
"""

import argparse
import os
import signal

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from resurge.transformers import FaultToleranceCallback, Protection, last_checkpoint

WORDS, LENGTH = 16, 12


class Counting(torch.utils.data.Dataset):
    """Numbers in a row, from anywhere."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        numbers = (torch.arange(LENGTH) + index) % WORDS
        return {"input_ids": numbers, "labels": numbers}


class Die(TrainerCallback):
    """Rank 1 of the first run dies after a step, to show what comes then."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        is_first_run = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if state.global_step == self.step and os.environ.get("RANK") == "1" and is_first_run:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    """Train, from the last checkpoint that is whole."""
    given = argparse.ArgumentParser()
    given.add_argument("--folder", default="out")
    given.add_argument("--steps", type=int, default=30)
    given.add_argument("--die-at", type=int, default=0)
    told = given.parse_args()

    torch.manual_seed(7)
    size = {"vocab_size": WORDS, "n_positions": LENGTH, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = GPT2Config(**size, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        told.folder, max_steps=told.steps, save_steps=5, save_total_limit=2, per_device_train_batch_size=8,
        eval_strategy="steps", eval_steps=10, learning_rate=0.01, use_cpu=True, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    protection = Protection(sections={"setup": 300, "checkpointing": 120}, learn=True)
    callback = FaultToleranceCallback(protection)
    numbers = Counting()
    trainer = Trainer(
        GPT2LMHeadModel(config), arguments, train_dataset=numbers, callbacks=[Die(told.die_at), callback],
        eval_dataset=torch.utils.data.Subset(numbers, range(32)),
    )  # fmt: skip
    begun_from = last_checkpoint(told.folder)
    with callback.guarded():
        trainer.train(resume_from_checkpoint=begun_from)
    losses = [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row]
    if trainer.is_world_process_zero():
        print(f"{callback.end.value} at step {trainer.state.global_step}, loss {losses[-1]:.3f}", flush=True)
        print(f"begun from {begun_from}", flush=True)


if __name__ == "__main__":
    main()
