"""Whether this process may be forked: looks for what a fork would break. Standard library only; changes nothing.

Threads (a lock that one of them holds is held for ever in the child), a device context (a driver refuses a forked
one), children (they would belong to nobody) and open channels to the kernel or to others (they would be shared).
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Collection

DEVICE_LIBRARIES = ("libcuda.so", "libhsa-runtime", "libamdhip64.so", "libze_loader.so")
DEVICE_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel")


def problems(known_fds: Collection[int] = ()) -> tuple[str, ...]:
    """Everything that speaks against a fork, as sentences; `known_fds` are the server's own."""
    return tuple(word for word in (_threads(), _device(), _children(), *_descriptors(known_fds)) if word)


def open_fds() -> frozenset[int]:
    """Descriptors that are open now."""
    names = os.listdir("/proc/self/fd")
    found = set()
    for name in names:
        with contextlib.suppress(OSError):  # the listing's own is closed again
            os.fstat(int(name))
            found.add(int(name))
    return frozenset(found)


def _threads() -> str:
    tasks = [task for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
    if not tasks:
        return ""
    names = set()
    for task in tasks:
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
            names.add(file.read().strip())
    return f"{len(tasks)} other {'thread runs' if len(tasks) == 1 else 'threads run'} ({', '.join(sorted(names))})"


def _device() -> str:
    with open("/proc/self/maps") as maps:
        for line in maps:
            name = line.rpartition("/")[2].strip()
            if name.startswith(DEVICE_LIBRARIES):
                return f"the device driver's library {name} is loaded"
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "cuda", None) is not None and torch.cuda.is_initialized():
        return "torch.cuda is initialised"
    return ""


def _children() -> str:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        pids = file.read().split()
    return f"it has child processes ({', '.join(pids)})" if pids else ""


def _descriptors(known_fds: Collection[int]) -> tuple[str, ...]:
    found = []
    for descriptor in sorted(open_fds() - set(known_fds)):
        try:
            mode = os.fstat(descriptor).st_mode
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith(DEVICE_FILES):
            found.append(f"the device {target} is open")
        elif stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or target.startswith("anon_inode:"):
            found.append(f"descriptor {descriptor} ({target}) is open and would be shared")
    return tuple(found)
