"""Keeps the log that a host's own stdout and stderr go to from filling the disk: full, it becomes the older one.

Only a log in the state directory is turned, where a launcher put it; a file that someone else opened is theirs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

LOG_NAME = "control-plane.log"
OLDER = ".1"
LOG_BYTES_MAX = 8 * 1024 * 1024
"""Of one file; there is one older one."""
LOOK_EVERY_S = 30.0
STREAMS = (1, 2)


def make_room(path: Path) -> bool:
    """Let a long log become the older one; False where it is not long, or where it cannot be done and grows on."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > LOG_BYTES_MAX:
            path.replace(path.with_name(path.name + OLDER))
            return True
    return False


def turn(path: Path) -> None:
    """Go on in a new file where this process's own streams fill `path`."""
    ours = [stream for stream in STREAMS if _leads_to(stream, path)]
    if not ours or not make_room(path):
        return
    with contextlib.suppress(OSError):  # a directory that may no longer be written: it grows on under its older name
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for stream in ours:
            os.dup2(fresh, stream)
        os.close(fresh)


def keep_small(state_dir: Path) -> None:
    """Look now and again, in the running loop, as long as that runs."""
    import asyncio  # late: who only wants the name of the log has no loop yet, and may have no time for its import

    turn(state_dir / LOG_NAME)
    asyncio.get_running_loop().call_later(LOOK_EVERY_S, keep_small, state_dir)


def _leads_to(stream: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = os.fstat(stream)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.stat())
    return False
