"""Facts about this machine that settings depend on: CPUs, GPUs, host names, writable directories.

Looks; changes nothing but for creating a directory that it was asked to prove writable.
"""

from __future__ import annotations

import errno
import getpass
import os
import queue
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

SHORT_BYTES = 40
"""Of a root, so that sockets below it keep to what the kernel takes."""
SHORT_TEMPORARY = "/tmp"
BLOCK_BYTES = 4096
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
STAYS_SO = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)
"""Why nobody can write in a directory, as long as nobody changes it."""


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def gpu_count(environ: Mapping[str, str], root: Path = Path("/")) -> int:
    """GPUs that workers would see: CUDA_VISIBLE_DEVICES where set, else what the driver shows. No driver is loaded."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([item for item in visible.split(",") if item.strip() not in ("", "-1", "NoDevFiles")])
    listed = root / "proc/driver/nvidia/gpus"
    if listed.is_dir():
        return len(list(listed.iterdir()))
    return len([node for node in (root / "dev").glob("nvidia*") if node.name.removeprefix("nvidia").isdigit()])


def machine_id(root: Path = Path("/")) -> str:
    """The id that this machine's system was given at its installation; empty where there is none."""
    try:
        found = (root / "etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return found if _MACHINE_ID.fullmatch(found) else ""


def who_asks() -> str:
    """The user at this machine, for the records of orders."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}"[:200]


def why_not_writable(directory: Path, mode: int = 0o777, room_bytes: int = 0) -> str | None:
    """Create the directory where it is missing and write to it; the reason when that fails, None when it works."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=mode)
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            # a full file system takes an empty file, and a write of less than is asked for is no error
            for _ in range(0, room_bytes, BLOCK_BYTES):
                if file.write(bytes(BLOCK_BYTES)) < BLOCK_BYTES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return None
    except (FileExistsError, NotADirectoryError):
        return "is not a directory"
    except OSError as error:
        return error.strerror or str(error)


def why_never_writable(directory: Path) -> str | None:
    """As above, and None too for what may pass, as a full disk does or a server that does not answer."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as error:
        return (error.strerror or str(error)) if error.errno in STAYS_SO else None


def within(limit_s: float, look: Callable[[], str | None], may_hang: bool = False) -> str | None:
    """What a look at a directory says, or that nothing answered in time: one that hangs must not keep a job waiting.

    With `may_hang` no answer is nothing to be said.
    """
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=lambda: said.put(look()), name="look", daemon=True).start()
    try:
        return said.get(timeout=limit_s)
    except queue.Empty:
        return None if may_hang else f"has not answered for {limit_s:g} s"


def why_not_own(directory: Path) -> str | None:
    """Why a directory under a name that anybody can guess is not to be used; None for one's own, or none yet."""
    try:
        owners = {directory.lstat().st_uid, directory.stat().st_uid}
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None if owners == {os.getuid()} else "belongs to another user"


def state_root(environ: Mapping[str, str]) -> Path:
    """Where jobs keep durable state unless told: a local file system, which homes on clusters mostly are not."""
    if environ.get("XDG_STATE_HOME"):
        return Path(environ["XDG_STATE_HOME"]) / "resurge"
    return Path(f"/var/tmp/resurge-{os.getuid()}")


def run_root(environ: Mapping[str, str]) -> Path:
    """Where launchers keep sockets and pages unless told; short, for the length of a socket's path is limited."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK) and _is_short(runtime):
        return Path(runtime) / "resurge"
    temporary = tempfile.gettempdir()
    return Path(temporary if _is_short(temporary) else SHORT_TEMPORARY) / f"resurge-{os.getuid()}"


def _is_short(root: str) -> bool:
    return len(os.fsencode(root)) < SHORT_BYTES
