"""Hugging Face's Trainer under Resurge: a `TrainerCallback`. Imports transformers; `import resurge` does not.

    callback = resurge.transformers.FaultToleranceCallback(Protection(sections={"setup": 900, "step": 60}))
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[callback])
    with callback.guarded():
        trainer.train(resume_from_checkpoint=resurge.transformers.last_checkpoint(arguments.output_dir))

The Trainer tells of the end of a save, not of its begin: the section `checkpointing` begins where a save has been asked
for, so this callback stands behind those that ask. It tells of no error: `guarded()` hears of those. Decides nothing
else. Effects: those of the loop, and a file with the limits that were learned in the Trainer's `output_dir`.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from resurge.trained_loop import LoopEnd, Protection, TrainedLoop

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(f"resurge.transformers needs it: pip install 'resurge[transformers]' ({error})") from None

__all__ = ["FaultToleranceCallback", "LoopEnd", "Protection", "last_checkpoint"]
_log = logging.getLogger("resurge")
LIMITS_FILE = "resurge_limits.json"
"""In the Trainer's output_dir: limits that were learned, for the next start."""
_BEST = "best"


class FaultToleranceCallback(TrainerCallback):
    """Tells the launcher how far training is, watches its sections, and saves and stops when the job is to leave."""

    def __init__(self, protection: Protection | None = None) -> None:
        self._protection = protection or Protection()
        self._loop = TrainedLoop(self._protection)

    @property
    def end(self) -> LoopEnd | None:
        """How training ended; None before it has."""
        return self._loop.end

    def guarded(self) -> _Guarded:
        """For `with`, around `trainer.train(…)`: its setting up is watched too, and an error that leaves it.

        An error that a guard has brought about leaves as CollectiveAborted.
        """
        return _Guarded(self._loop)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The state of training is there."""
        self._loop.begin()
        if self._protection.learn:
            self._loop.load_state_dict(_read_limits(Path(args.output_dir)))
        self._loop.restored(int(state.global_step))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Of an optimizer's step."""
        self._loop.step_begins()

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Gradients are accumulated."""
        self._loop.part_ends()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """A step is committed; and perhaps the last one here."""
        if self._loop.step_ends(int(state.global_step)):
            control.should_training_stop = True
            control.should_evaluate = False
            control.should_save = control.should_save or self._protection.save_on_stop
        self._before_save(control)
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """What an epoch's end has asked for follows."""
        if self._loop.is_told:
            control.should_evaluate = control.should_save = False
        self._before_save(control)
        return control

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """One batch of an evaluation is done; the next one begins."""
        self._loop.evaluation_ends()
        self._loop.evaluation_begins()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The evaluation is done; a save may follow."""
        self._loop.evaluation_ends()
        if control.should_save or str(getattr(args.save_strategy, "value", args.save_strategy)) == _BEST:
            self._loop.checkpoint_begins()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The checkpoint is written."""
        self._loop.checkpoint_ends()
        learned = self._loop.state_dict()
        if learned and state.is_world_process_zero:
            _write_limits(Path(args.output_dir), learned)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The loop's own end."""
        self._loop.completed()

    def _before_save(self, control: Any) -> None:
        if control.should_save and not control.should_evaluate:
            self._loop.checkpoint_begins()


class _Guarded:
    """Around `trainer.train(…)`."""

    def __init__(self, loop: TrainedLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._loop.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._loop.completed()
            return
        aborted = self._loop.failed(error)
        if aborted is not None:
            raise aborted from error


def last_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The newest checkpoint under a Trainer's output_dir that was written to its end; None where there is none.

    A checkpoint whose writer died in the middle lacks the state that the Trainer writes last, or has half of it.
    """
    root = Path(folder)
    found = (child for child in root.glob("checkpoint-*") if child.name.removeprefix("checkpoint-").isdigit())
    for checkpoint in sorted(found, key=lambda child: int(child.name.removeprefix("checkpoint-")), reverse=True):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            _log.warning("resurge: %s is passed over, it was not written to its end: %s", checkpoint, error)
            continue
        return str(checkpoint)
    return None


def _read_limits(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / LIMITS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.warning("resurge: limits learned before cannot be read and are learned anew: %s", error)
        return {}
    return found if isinstance(found, dict) else {}


def _write_limits(folder: Path, learned: dict[str, Any]) -> None:
    beside = folder / f".{LIMITS_FILE}.{os.getpid()}"
    try:
        beside.write_text(json.dumps(learned), encoding="utf-8")
        beside.replace(folder / LIMITS_FILE)
    except OSError as error:
        _log.warning("resurge: the limits that were learned are not saved: %s", error)
