"""Random numbers after a fork: what was seeded from the system at import is seeded anew, what a module seeded stays.

Without this every worker of a node would draw the same numbers. Standard library only; torch's devices have no
generator yet, for a server never touches one.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any


class Chance:
    """The generators of this process as they were before modules of the user's were imported."""

    def __init__(self) -> None:
        self._random = random.getstate()
        self._numpy = _numpy_state()
        self._torch = _torch_seed()
        self._kept: Any = None

    def settle(self) -> None:
        """All modules are imported: note what was seeded on purpose, to keep it in the workers."""
        state = random.getstate()
        # Python draws a new seed by itself in every forked child
        self._kept = state if state != self._random else None

    def renew(self) -> None:
        """In a worker: seed anew what nobody seeded on purpose."""
        if self._kept is not None:
            random.setstate(self._kept)
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None and _numpy_state() == self._numpy:
            numpy_random.seed()
        torch = sys.modules.get("torch")
        if torch is not None and _torch_seed() == self._torch:
            torch.default_generator.seed()
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None:
            processes.current_process().authkey = os.urandom(32)


def _numpy_state() -> Any:
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return None
    name, keys, *rest = numpy_random.get_state()
    return name, keys.tobytes(), *rest


def _torch_seed() -> int | None:
    torch = sys.modules.get("torch")
    return torch.initial_seed() if torch is not None else None
