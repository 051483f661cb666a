"""What a worker inherits from this launcher when it is exec'd, read off so that a forked one can be given the same."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from resurge_launcher.warm.orders import Order

PYTHON_IGNORES = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


def order_for(environments: Sequence[Mapping[str, str]]) -> Order:
    """An order for workers with these environments, and with everything else as it is here now."""
    return Order(
        launcher_pid=os.getpid(),
        environments=[dict(environment) for environment in environments],
        umask=_umask(),
        ignored_signals=sorted(_ignored()),
        limits=_limits(),
        cpus=sorted(os.sched_getaffinity(0)),
        nice=os.getpriority(os.PRIO_PROCESS, 0),
    )


def _ignored() -> set[int]:
    """Python's own two are set back for exec'd children."""
    numbers = signal.valid_signals() - PYTHON_IGNORES
    return {int(number) for number in numbers if signal.getsignal(number) is signal.SIG_IGN}


def _limits() -> dict[str, tuple[int, int]]:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {str(getattr(resource, name)): resource.getrlimit(getattr(resource, name)) for name in names}


def _umask() -> int:
    """Read without setting it, which no thread of this process could do unseen."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
