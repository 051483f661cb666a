"""The callback inside a real Lightning Trainer, in this process, under a launcher's page."""

from __future__ import annotations

import threading

import pytest

from resurge import CollectiveAborted, FenceLost, trained_loop

torch = pytest.importorskip("torch", reason="Lightning trains with torch")
pl = pytest.importorskip("lightning.pytorch", reason="Lightning is optional, and not installed here")
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402

from resurge.lightning import STOP_CHECKPOINT, FaultToleranceCallback, LoopEnd, Protection  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore")]
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Line(pl.LightningModule):
    """Notes which phase the page shows inside its hooks."""

    def __init__(self, look=lambda: "", at_step=lambda step: None):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.look, self.at_step, self.seen = look, at_step, {}

    def training_step(self, batch, index):
        self.seen["train"] = self.look()
        self.at_step(self.trainer.global_step)
        return self.layer(batch[0]).mean()

    def validation_step(self, batch, index):
        self.seen["sanity" if self.trainer.sanity_checking else "validation"] = self.look()

    def on_save_checkpoint(self, checkpoint):
        self.seen["save"] = self.look()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


@pytest.fixture
def fit(worker, monkeypatch, tmp_path, virtual):
    own = worker.session()
    monkeypatch.setattr(trained_loop, "session", lambda: own)

    def run(callback, model, ckpt_path=None, **given):
        checkpoints = ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
        numbers = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4)
        options = {"max_steps": 8, "val_check_interval": 4, "limit_val_batches": 2, **QUIET, **given}
        trainer = pl.Trainer(callbacks=[callback, checkpoints], default_root_dir=tmp_path, **options)
        trainer.fit(model, numbers, numbers, ckpt_path=ckpt_path)
        return trainer

    return run


def phase_of(worker):
    def look():
        phase = worker.view().phase
        return "" if phase is None else phase.name

    return look


def test_a_fit_is_told_section_by_section_and_step_by_step(fit, worker):
    model, callback = Line(phase_of(worker)), FaultToleranceCallback()
    trainer = fit(callback, model)
    assert model.seen == {
        "sanity": "evaluation", "train": "step", "validation": "evaluation", "save": "checkpointing",
    }  # fmt: skip
    view = worker.view()
    assert (view.committed_step, view.first_commit_step, view.checkpoint_restored_step) == (8, 1, 0)
    assert view.phase is None and view.closed_ns and callback.end is LoopEnd.COMPLETED
    assert trainer.save_checkpoint.__func__ is pl.Trainer.save_checkpoint, "the Trainer has its own again"


def test_accumulated_gradients_are_one_step(fit, worker):
    fit(FaultToleranceCallback(), Line(), accumulate_grad_batches=2, max_steps=3)
    view = worker.view()
    assert view.committed_step == 3 and view.beat_count > 6


def test_told_to_stop_it_saves_without_evaluating_once_more_and_goes_on_from_there(fit, worker, tmp_path):
    model, callback = Line(), FaultToleranceCallback()
    worker.launcher.stop_at(3)
    trainer = fit(callback, model, num_sanity_val_steps=0)
    assert (trainer.global_step, callback.end) == (3, LoopEnd.STOPPED)
    assert (tmp_path / STOP_CHECKPOINT).exists() and "validation" not in model.seen
    assert trainer.limit_val_batches == 2

    more = Line()
    again = fit(FaultToleranceCallback(), more, ckpt_path="last", max_steps=3)
    assert again.global_step == 3 and more.seen == {}, "there is nothing left to train"


def test_told_to_stop_it_saves_where_it_was_told_or_not_at_all(fit, worker, tmp_path):
    worker.launcher.stop_at(1)
    fit(FaultToleranceCallback(stop_checkpoint=tmp_path / "mine" / "x.ckpt"), Line(), num_sanity_val_steps=0)
    assert (tmp_path / "mine" / "x.ckpt").exists()
    fit(FaultToleranceCallback(Protection(save_on_stop=False)), Line(), num_sanity_val_steps=0)
    assert not (tmp_path / STOP_CHECKPOINT).exists()


def test_limits_that_were_learned_are_in_the_checkpoint(fit):
    first = FaultToleranceCallback(Protection(learn=True))
    fit(first, Line())
    learned = first.state_dict()
    assert set(learned["sections"]["calculated_sections"]) >= {"setup", "step", "evaluation"}
    second = FaultToleranceCallback(Protection(learn=True))
    fit(second, Line(), ckpt_path="last")
    assert second.state_dict()["sections"]["section"].keys() == learned["sections"]["section"].keys()


def test_an_error_of_the_fit_is_a_crash(fit, virtual):
    def raise_at_two(step):
        if step == 2:
            raise ValueError("bad batch")

    callback = FaultToleranceCallback()
    with pytest.raises(ValueError, match="bad batch"):
        fit(callback, Line(at_step=raise_at_two))
    assert callback.end is LoopEnd.FAILED and len(virtual.made) == 1, "the world of four ranks is to end"


def test_a_fenced_rank_writes_nothing(fit, worker, tmp_path, virtual):
    with pytest.raises(FenceLost):
        fit(FaultToleranceCallback(), Line(at_step=lambda step: step == 3 and worker.launcher.set_fenced()))
    assert not list(tmp_path.glob("*.ckpt"))


def test_a_step_that_is_stuck_is_aborted_and_leaves_the_fit(fit, worker):
    class Group:
        broken = threading.Event()

        def abort(self):
            self.broken.set()

    protection = Protection(deadlines={"step": 1.0}, groups=lambda: [Group()], crash_guard=False)
    with pytest.raises(CollectiveAborted, match="step passed its deadline"):
        fit(FaultToleranceCallback(protection), Line(at_step=lambda step: step == 2 and Group.broken.wait(60)))
    assert worker.view().committed_step == 2


def test_an_error_that_a_guard_has_brought_about_says_so(fit):
    class Group:
        broken = threading.Event()

        def abort(self):
            self.broken.set()

    def closed(step):
        if step == 2:
            Group.broken.wait(60)
            raise RuntimeError("connection closed")

    protection = Protection(deadlines={"step": 1.0}, groups=lambda: [Group()], crash_guard=False)
    with pytest.raises(RuntimeError, match="connection closed") as raised:
        fit(FaultToleranceCallback(protection), Line(at_step=closed))
    assert "step passed its deadline of 1 s" in raised.value.__notes__[0]


def test_another_stage_than_a_fit_is_not_watched(worker, fit, monkeypatch):
    trainer = pl.Trainer(callbacks=[FaultToleranceCallback()], **QUIET)
    numbers = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=4)
    before = worker.view().beat_count
    trainer.validate(Line(), numbers, verbose=False)
    assert worker.view().beat_count == before
