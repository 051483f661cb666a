"""The callback inside a real Trainer of Hugging Face, in this process, under a launcher's page."""

from __future__ import annotations

import json
import threading

import pytest

from resurge import CollectiveAborted, FenceLost, trained_loop

torch = pytest.importorskip("torch", reason="the Trainer trains with torch")
hf = pytest.importorskip("transformers", reason="Transformers is optional, and not installed here")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate, and it is not installed here")

from resurge.transformers import FaultToleranceCallback, LoopEnd, Protection, last_checkpoint  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore")]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"inputs": torch.ones(4) * index}


class Line(torch.nn.Module):
    """Notes which phase the page shows while it computes and while it is saved."""

    def __init__(self, look=lambda: "", at_call=lambda call: None):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.look, self.at_call, self.seen, self.calls = look, at_call, {}, 0

    def forward(self, inputs, return_loss=True):
        self.seen["train" if self.training else "evaluation"] = self.look()
        self.calls += self.training
        self.at_call(self.calls)
        return {"loss": self.layer(inputs / 64).square().mean()}

    def state_dict(self, *args, **kwargs):
        self.seen["save"] = self.look()
        return super().state_dict(*args, **kwargs)


@pytest.fixture
def made(worker, monkeypatch, tmp_path, virtual):
    own = worker.session()
    monkeypatch.setattr(trained_loop, "session", lambda: own)

    def make(callback, model, **given):
        options = {
            "max_steps": 8, "save_steps": 4, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 32,
            "prediction_loss_only": True, "use_cpu": True, "report_to": [], "disable_tqdm": True, **given,
        }  # fmt: skip
        arguments = hf.TrainingArguments(str(tmp_path), **options)
        return hf.Trainer(model, arguments, train_dataset=Rows(), eval_dataset=Rows(), callbacks=[callback])

    return make


def phase_of(worker):
    def look():
        phase = worker.view().phase
        return "" if phase is None else phase.name

    return look


def train(callback, trainer, **given):
    with callback.guarded():
        trainer.train(**given)


def test_training_is_told_section_by_section_and_step_by_step(made, worker):
    model, callback = Line(phase_of(worker)), FaultToleranceCallback()
    train(callback, made(callback, model, eval_strategy="steps", eval_steps=4))
    assert model.seen == {"train": "step", "evaluation": "evaluation", "save": "checkpointing"}
    view = worker.view()
    assert (view.committed_step, view.first_commit_step, view.checkpoint_restored_step) == (8, 1, 0)
    assert view.phase is None and view.closed_ns and callback.end is LoopEnd.COMPLETED


@pytest.mark.parametrize("strategy", ["epoch", "best"])
def test_a_save_that_is_decided_after_the_step_is_a_checkpoint_too(made, worker, strategy):
    model, callback = Line(phase_of(worker)), FaultToleranceCallback()
    options = {"eval_strategy": "epoch", "save_strategy": strategy, "metric_for_best_model": "loss", "max_steps": 16}
    train(callback, made(callback, model, **options))
    assert model.seen["save"] == "checkpointing"


def test_accumulated_gradients_are_one_step(made, worker):
    callback = FaultToleranceCallback()
    train(callback, made(callback, Line(), gradient_accumulation_steps=2, max_steps=3))
    assert worker.view().committed_step == 3 and worker.view().beat_count > 6


def test_told_to_stop_it_saves_without_evaluating_and_goes_on_from_there(made, worker, tmp_path):
    model, callback = Line(), FaultToleranceCallback()
    worker.launcher.stop_at(3)
    trainer = made(callback, model, eval_strategy="steps", eval_steps=3)
    train(callback, trainer)
    assert (trainer.state.global_step, callback.end) == (3, LoopEnd.STOPPED)
    assert "evaluation" not in model.seen
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-3")

    again = FaultToleranceCallback(Protection(save_on_stop=False))
    trainer = made(again, Line())
    train(again, trainer, resume_from_checkpoint=last_checkpoint(tmp_path))
    assert trainer.state.global_step == 4, "told to stop at the first step it does"
    assert worker.view().checkpoint_restored_step == 0, "the first start of this process counts"


def test_limits_that_were_learned_lie_beside_the_checkpoints(made, tmp_path):
    first = FaultToleranceCallback(Protection(learn=True))
    train(first, made(first, Line()))
    learned = json.loads((tmp_path / "resurge_limits.json").read_text())
    assert set(learned["sections"]["calculated_sections"]) == {"setup", "step", "checkpointing"}
    second = FaultToleranceCallback(Protection(learn=True))
    trainer = made(second, Line(), save_strategy="no")
    train(second, trainer)
    assert second._loop.state_dict() == learned
    (tmp_path / "resurge_limits.json").write_text("{half")
    train(second, trainer)
    assert second.end is LoopEnd.COMPLETED, "a file that is broken is no reason not to train"


def test_an_error_of_training_is_a_crash(made, virtual):
    def raise_at_two(call):
        if call == 2:
            raise ValueError("bad batch")

    callback = FaultToleranceCallback()
    with pytest.raises(ValueError, match="bad batch"):
        train(callback, made(callback, Line(at_call=raise_at_two)))
    assert callback.end is LoopEnd.FAILED and len(virtual.made) == 1, "the world of four ranks is to end"


def test_a_fenced_rank_writes_nothing(made, worker, tmp_path, virtual):
    callback = FaultToleranceCallback()
    with pytest.raises(FenceLost):
        train(callback, made(callback, Line(at_call=lambda call: call == 4 and worker.launcher.set_fenced())))
    assert last_checkpoint(tmp_path) is None


@pytest.mark.parametrize("is_loud", [True, False])
def test_a_step_that_is_stuck_is_aborted_and_leaves_as_such(made, worker, is_loud):
    class Group:
        broken = threading.Event()

        def abort(self):
            self.broken.set()

    def stuck(call):
        if call == 3:
            Group.broken.wait(60)
            if is_loud:
                raise RuntimeError("connection closed")

    protection = Protection(deadlines={"step": 1.0}, groups=lambda: [Group()], crash_guard=False)
    callback = FaultToleranceCallback(protection)
    with pytest.raises(CollectiveAborted, match="step passed its deadline"):
        train(callback, made(callback, Line(at_call=stuck)))
    assert worker.view().committed_step == 2


def test_a_checkpoint_that_was_not_written_to_its_end_is_passed_over(tmp_path):
    for step, text in ((5, '{"global_step": 5}'), (10, '{"global_'), (15, None), ("x", "{}")):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if text is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(text)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-5")
    assert last_checkpoint(tmp_path / "nowhere") is None
