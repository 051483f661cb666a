"""Two lines for a plain training loop: `import resurge.torch` and `optimizer = resurge.torch.wrap(optimizer)`.

Decides when a step counts as committed: when `optimizer.step()` has returned on the host; on a GPU its kernels may be
in the queue still. The process group counts as ready when the optimizer is wrapped, or, if it is not initialized by
then, at the first step. Torch is imported by the script, never here. Effects: hooks on the optimizer, the session.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from resurge.worker_session import session


class _Hookable(Protocol):
    """What is used of torch.optim.Optimizer (torch 2.0 or newer)."""

    def register_step_post_hook(self, hook: Any) -> Any:
        """Have the hook called after each step with (optimizer, args, kwargs)."""


Optimizer = TypeVar("Optimizer", bound=_Hookable)


def wrap(optimizer: Optimizer, step: int = 0) -> Optimizer:
    """Report each step of this optimizer as committed; gives the same optimizer.

    `step` is the number of steps done before, for a script that resumes from a checkpoint. Without a launcher nothing
    is hooked, so that it costs nothing.
    """
    own = session()
    if not own.armed:
        return optimizer
    done = step
    if _process_group_is_ready():
        own.process_group_ready()

    def after_step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal done
        if done == step:
            own.process_group_ready()
        done += 1
        own.step_committed(done)

    optimizer.register_step_post_hook(after_step)
    return optimizer


def _process_group_is_ready() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()
