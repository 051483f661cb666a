"""The fork server's own loop: import, say whether forking is safe, fork what is ordered. Standard library only.

It opens no gRPC and no thread. For an order it forks once; that child forks all workers, sends their pidfds and ends,
so that the launcher, a subreaper, becomes the workers' parent. A worker waits for the launcher's word before its first
own instruction: a launcher that has given up meanwhile never has two of one rank. `serve` returns in workers only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Any

from resurge_launcher.warm import fitness, orders
from resurge_launcher.warm.become import (
    PR_SET_PDEATHSIG,
    Seat,
    become_worker,
    belong_to,
    blas_setters,
    close_all_but,
    settle_memory,
)
from resurge_launcher.warm.chance import Chance
from resurge_launcher.warm.program import Program, arrange, shadowed
from resurge_launcher.warm.store_host import host_store

OPTIONAL = "?"
"""Ends the name of a module that need not exist."""
PAGE = "RESURGE_PAGE"
"""As resurge.environment has it, which is not imported here."""
EXIT_UNWANTED = 126
"""A worker that was never told to go; nobody counts it."""
IMPORT_THRESHOLDS = (100_000, 50, 100)
"""While modules are imported: hardly anything of them is garbage, and looking for it takes a twentieth of the time."""
FIXED_FDS = 3
"""Order, gate and working directory come before the workers' streams."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the server was started with."""

    preload: tuple[str, ...]
    """Modules to import; a name with OPTIONAL at its end only where there is such a package."""
    at_start: frozenset[str]
    """Modules that the interpreter itself had loaded before the first line of ours."""
    death_lock: str = ""
    """The worker SDK's file of that name."""


@dataclass(frozen=True, slots=True)
class _Kit:
    """What a worker needs to know of the imports."""

    chance: Chance
    blas: tuple[Any, ...]
    kept_fds: frozenset[int]
    """Descriptors that modules opened."""
    hold_page: Callable[[str], str]
    """Takes the lock by which the launcher hears of the worker's end."""


@dataclass(frozen=True, slots=True)
class _Parcel:
    """An order with its descriptors."""

    order: orders.Order
    gate: socket.socket
    cwd: int
    streams: tuple[tuple[int, int], ...]
    fds: tuple[int, ...]


def serve(control: socket.socket, launcher_pid: int, program: Program, host: Host) -> None:
    """Serve until the launcher goes. Returns in each forked worker, when it may run its program."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher_pid:
        os._exit(0)
    own = fitness.open_fds()
    thresholds = gc.get_threshold()
    gc.set_threshold(*IMPORT_THRESHOLDS)
    hidden = shadowed(program, host.at_start)
    arrange(program)
    modules, why = _preload([name for name in host.preload if name.endswith(OPTIONAL)], own)
    chance = Chance()
    if not why:
        more, why = _preload([name for name in host.preload if not name.endswith(OPTIONAL)], own)
        modules = (*modules, *more)
    chance.settle()
    if gc.get_threshold() == IMPORT_THRESHOLDS:  # else a module has its own idea
        gc.set_threshold(*thresholds)
    if hidden:
        why = f"the program's folder has its own {hidden[0]}.py, which is loaded from elsewhere already"
    if why:
        control.send(orders.encoded(orders.Unfit(why)))
        os._exit(0)
    kit = _Kit(chance, blas_setters(), fitness.open_fds() - own, _page_holder(host.death_lock))
    settle_memory()
    control.send(orders.encoded(orders.Ready(modules)))
    while True:
        what, fds = _next(control)
        if what == orders.STORE:
            _fork_store(own, fds, launcher_pid)
            continue
        parcel = _parcel(fds)
        why = "; ".join(fitness.problems(own | frozenset(parcel.fds)))
        if why:
            control.send(orders.encoded(orders.Refused(why)))
        elif (index := _fork(control, parcel)) is not None:
            control.close()
            _begin(parcel, index, kit)
            return
        parcel.gate.detach()
        _close(fds)


def _preload(names: list[str], own: frozenset[int]) -> tuple[tuple[orders.Preloaded, ...], str]:
    """Import what was asked for; and why the process may not be forked any more."""
    found = []
    for asked in names:
        name = asked.removesuffix(OPTIONAL)
        if name != asked and find_spec(name.partition(".")[0]) is None:
            continue
        began, error = time.monotonic(), ""
        try:
            importlib.import_module(name)
        except Exception as problem:  # task root: user code runs here; the worker's own import will show it in full
            error = f"{type(problem).__name__}: {problem}"
        found.append(orders.Preloaded(name, round(time.monotonic() - began, 3), error))
        why = fitness.problems(own)
        if why:
            return tuple(found), f"after the import of {name}: {'; '.join(why)}"
    return tuple(found), ""


def _page_holder(path: str) -> Callable[[str], str]:
    """The file's `hold`, without a trace of it among the modules; where there is no such file nothing is held."""
    spec = spec_from_file_location("resurge_launcher.warm.death_lock", path) if path else None
    if spec is None or spec.loader is None:
        return lambda _page: ""
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    hold: Callable[[str], str] = module.hold
    return hold


def _next(control: socket.socket) -> tuple[bytes, list[int]]:
    """Wait for the next order, and what it is for; ends the process when the launcher is gone."""
    flags = socket.MSG_CMSG_CLOEXEC
    data, fds, _, _ = socket.recv_fds(control, orders.MESSAGE_BYTES, orders.FDS_PER_MESSAGE, flags)
    if not data:
        os._exit(0)
    return data, fds


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _parcel(fds: list[int]) -> _Parcel:
    order = orders.Order.from_memory_file(fds[0])
    gate = socket.socket(fileno=fds[1])
    streams = tuple(zip(fds[FIXED_FDS::2], fds[FIXED_FDS + 1 :: 2], strict=True))
    return _Parcel(order, gate, fds[2], streams, tuple(fds))


def _fork(control: socket.socket, parcel: _Parcel) -> int | None:
    """In a worker its place in the order; None in the server, when the child that forked them all is gone again."""
    sys.stdout.flush()
    sys.stderr.flush()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return None
    try:
        return _fork_workers(control, parcel)
    except OSError as error:
        control.send(orders.encoded(orders.Refused(f"fork: {error}")))
        os._exit(1)


def _fork_store(own: frozenset[int], fds: list[int], launcher_pid: int) -> None:
    """Fork the process of a c10d store; what comes of it is said on the gate that came with the order."""
    gate = socket.socket(fileno=fds[0])
    why = "; ".join(fitness.problems(own | frozenset(fds)))
    if why:
        gate.send(orders.encoded(orders.Refused(why)))
    else:
        middle = os.fork()
        if middle == 0:
            pid = os.fork()
            if pid == 0:
                host_store(gate, fds[1], launcher_pid)
            socket.send_fds(gate, [orders.encoded(orders.Born((pid,)))], [os.pidfd_open(pid)])
            os._exit(0)
        os.waitpid(middle, 0)
    gate.detach()
    _close(fds)


def _fork_workers(control: socket.socket, parcel: _Parcel) -> int:
    pids: list[int] = []
    pidfds: list[int] = []
    for index in range(len(parcel.streams)):
        pid = os.fork()
        if pid == 0:
            return index
        pids.append(pid)
        pidfds.append(os.pidfd_open(pid))
    socket.send_fds(control, [orders.encoded(orders.Born(tuple(pids)))], pidfds)
    os._exit(0)


def _begin(parcel: _Parcel, index: int, kit: _Kit) -> None:
    """Become the worker, say so, and wait for the word to go."""
    gate = parcel.gate
    sentence = ""
    try:
        become_worker(parcel.order, Seat(index, *parcel.streams[index], parcel.cwd), kit.blas)
        kit.chance.renew()
        belong_to(parcel.order.launcher_pid)
    except Exception as error:  # task root: whatever stands in the way is told, and the worker is exec'd instead
        sentence = f"{type(error).__name__}: {error}"
    try:
        gate.send(orders.encoded(orders.Ack(os.getpid(), sentence)))
        if gate.recv(len(orders.GO)) != orders.GO:
            os._exit(EXIT_UNWANTED)
    except OSError:
        os._exit(EXIT_UNWANTED)
    gate.close()
    close_all_but(kit.kept_fds)
    page = parcel.order.environments[index].get(PAGE)
    if page:
        kit.hold_page(page)
