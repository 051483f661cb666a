"""PyTorch Lightning under Resurge: a `Callback`. Imports lightning or pytorch_lightning; `import resurge` does not.

    callback = resurge.lightning.FaultToleranceCallback(Protection(sections={"setup": 900, "step": 60}))
    trainer = Trainer(callbacks=[callback, ModelCheckpoint(dirpath=folder, save_last=True)])
    trainer.fit(model, data, ckpt_path="last")

Lightning has no hook around a save: while a fit lasts, `trainer.save_checkpoint`, which all that save call, is one that
tells the loop. Limits that were learned are in the checkpoint, as any callback's state. Decides where the checkpoint
goes that is saved when the job is to leave. Effects: those of the loop; the Trainer's `should_stop`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resurge.trained_loop import LoopEnd, Protection, TrainedLoop

try:
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        from pytorch_lightning import Callback
    else:
        try:
            from lightning.pytorch import Callback
        except ModuleNotFoundError:
            from pytorch_lightning import Callback
except ImportError as error:
    raise ImportError(f"resurge.lightning needs Lightning: pip install 'resurge[lightning]' ({error})") from None

__all__ = ["FaultToleranceCallback", "LoopEnd", "Protection"]
_log = logging.getLogger("resurge")
STOP_CHECKPOINT = "last-stopped.ckpt"
"""Beside the checkpoints of ModelCheckpoint; Lightning finds it by ckpt_path="last"."""
_FIT = "fit"


class FaultToleranceCallback(Callback):
    """Tells the launcher how far training is, watches its sections, and saves and stops when the job is to leave.

    `stop_checkpoint` is the file that is written then; without it, STOP_CHECKPOINT in the folder of the Trainer's first
    checkpoint callback.
    """

    def __init__(
        self, protection: Protection | None = None, stop_checkpoint: str | os.PathLike[str] | None = None
    ) -> None:
        self._protection = protection or Protection()
        self._stop_checkpoint = stop_checkpoint
        self._loop = TrainedLoop(self._protection)
        self._is_stopping = False
        self._evaluation_batches: Any = None

    @property
    def end(self) -> LoopEnd | None:
        """How the fit ended; None before it has."""
        return self._loop.end

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """A fit begins; other stages are not watched."""
        if stage != _FIT:
            return
        self._is_stopping = False
        self._loop.begin()
        saves = trainer.save_checkpoint

        def save_checkpoint(*args: Any, **kwargs: Any) -> Any:
            self._loop.checkpoint_begins()
            result = saves(*args, **kwargs)
            self._loop.checkpoint_ends()
            return result

        trainer.save_checkpoint = save_checkpoint

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The state of training is there."""
        self._loop.restored(int(trainer.global_step))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Of one batch."""
        self._loop.step_begins()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A step is committed, unless its gradients are kept for the next one; and perhaps the last one here."""
        if not self._loop.step_ends(int(trainer.global_step)) or self._is_stopping:
            return
        self._is_stopping = trainer.should_stop = True
        # Lightning evaluates once more when it is told to stop, in the time that was meant for leaving
        self._evaluation_batches, trainer.limit_val_batches = trainer.limit_val_batches, 0
        if self._protection.save_on_stop:
            self._save(trainer)

    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Of one batch."""
        self._loop.evaluation_begins()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Of one batch."""
        self._loop.evaluation_ends()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """The loop's own end: the last checkpoint is written."""
        self._loop.completed()
        self._let_go(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """An error leaves the fit."""
        aborted = self._loop.failed(exception)
        if aborted is not None:
            # another error than Lightning's own must not leave this hook: its teardown would be left out
            exception.add_note(f"resurge: {aborted}")
        self._let_go(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The limits that were learned."""
        return self._loop.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take them up."""
        self._loop.load_state_dict(state_dict)

    def _save(self, trainer: Any) -> None:
        folders = (getattr(callback, "dirpath", None) for callback in trainer.checkpoint_callbacks)
        beside = next((Path(folder) / STOP_CHECKPOINT for folder in folders if folder), None)
        path = self._stop_checkpoint or beside
        if path is None:
            _log.warning("resurge: told to stop, and no checkpoint is saved: give stop_checkpoint or a ModelCheckpoint")
        else:
            trainer.save_checkpoint(path)

    def _let_go(self, trainer: Any) -> None:
        """Give the Trainer back what is its own."""
        trainer.__dict__.pop("save_checkpoint", None)
        if self._evaluation_batches is not None:
            trainer.limit_val_batches, self._evaluation_batches = self._evaluation_batches, None
