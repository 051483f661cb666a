"""Turns a forked child into what an exec'd worker would be: its own session, descriptors, signals, limits, seeds.

Runs once per worker, between the fork and the launcher's word to go. Standard library only; raises OSError for what
the system will not do, and the worker is then started by exec instead. No effect outside this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resurge_launcher.warm.fitness import open_fds
from resurge_launcher.warm.orders import Order
from resurge_launcher.warm.settings import replace_environment

PR_SET_PDEATHSIG = 1
ADOPTION_LIMIT_S = 5.0
ADOPTION_POLL_S = 0.0005
PYTHON_IGNORES = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Python itself ignores these from its first moment on."""
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
BLAS_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
)


class NotOurs(OSError):
    """This process did not become the launcher's child."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Which worker of an order this process is, with its descriptors."""

    index: int
    stdout: int
    stderr: int
    cwd: int


def become_worker(order: Order, seat: Seat, blas: Sequence[Any]) -> None:
    """Take on the session, streams, environment, signals and limits of the order's worker. Raises OSError."""
    os.setsid()
    stdin = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((stdin, 0), (seat.stdout, 1), (seat.stderr, 2)):
        os.dup2(source, target, inheritable=True)
    os.fchdir(seat.cwd)
    os.umask(order.umask)
    _take_signals(frozenset(order.ignored_signals))
    _take_limits(order)
    variables = order.environments[seat.index]
    replace_environment(variables)
    # OpenBLAS was loaded with one thread: it gets what it would have taken from this environment
    for set_threads in blas:
        set_threads(_blas_threads(variables))
    importlib.invalidate_caches()


def belong_to(launcher_pid: int) -> None:
    """Wait until the launcher is the parent, and end when it ends. Raises NotOurs."""
    give_up_at = time.monotonic() + ADOPTION_LIMIT_S
    while os.getppid() != launcher_pid:
        if time.monotonic() > give_up_at:
            raise NotOurs("the launcher did not become the parent")
        time.sleep(ADOPTION_POLL_S)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher_pid:
        raise NotOurs("the launcher has ended")


def close_all_but(kept: Collection[int]) -> None:
    """Close what the server had open for itself; what the preloaded modules opened stays, as exec'd they had it too."""
    for descriptor in open_fds() - {0, 1, 2, *kept}:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _take_signals(ignored: frozenset[int]) -> None:
    """An exec'd child has no handlers, ignores what its parent ignores, and blocks nothing."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        present = signal.getsignal(number)
        if number in PYTHON_IGNORES or present is None:
            continue
        if number in ignored and present in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, signal.SIG_IGN)
        elif number not in ignored and present is signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_limits(order: Order) -> None:
    for number, limits in order.limits.items():
        if resource.getrlimit(int(number)) != limits:
            try:
                resource.setrlimit(int(number), limits)
            except ValueError as error:
                raise OSError(f"resource limit {number} cannot be {limits}: {error}") from error
    if order.cpus and os.sched_getaffinity(0) != set(order.cpus):
        os.sched_setaffinity(0, order.cpus)
    present = os.getpriority(os.PRIO_PROCESS, 0)
    if present != order.nice:
        os.setpriority(os.PRIO_PROCESS, 0, order.nice)


def _blas_threads(variables: Mapping[str, str]) -> int:
    """As OpenBLAS decides when it is loaded: never more than there are processors."""
    processors = len(os.sched_getaffinity(0))
    for name in BLAS_VARIABLES:
        text = variables.get(name, "").partition(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return min(int(text), processors)
    return processors


def blas_setters() -> tuple[Any, ...]:
    """The loaded OpenBLAS libraries' functions that set their number of threads."""
    with open("/proc/self/maps") as maps:
        paths = {"/" + line.partition("/")[2].strip() for line in maps if "openblas" in line.rpartition("/")[2]}
    libraries = (ctypes.CDLL(path) for path in sorted(paths))
    found = (next((f for name in BLAS_SETTERS if (f := getattr(library, name, None))), None) for library in libraries)
    return tuple(setter for setter in found if setter is not None)


def settle_memory() -> None:
    """Before the first fork: what lives now lives for good, so that no collection writes to shared pages."""
    gc.collect()
    gc.freeze()
