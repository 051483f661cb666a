"""The end of a script, seen from inside: its main thread and its atexit functions are over, what it wrote is flushed.

What follows in an interpreter are destructors, half a second of them with torch, which a launcher need not wait for
when it ends the generation after a fault. Python names no hook for that moment. It does collect garbage then, once,
before it takes modules apart: a callback of `gc` that finds the interpreter finalizing is there. Where none is called,
nothing is told, and the launcher waits as long as it would have. Effects: an atexit function; where it is worth
telling, `gc` is enabled and asked for all objects, open files are flushed and TCP connections are cut.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from resurge.frames import Over, Speaker
from resurge.link import Link
from resurge.page import Cell, PageWriter
from resurge.phases import OpenPhases

_ROOT: type = io.TextIOWrapper.__mro__[-2]
"""What all files are, of whatever module."""
_ARCHIVES = (("zipfile", "ZipFile"), ("shelve", "Shelf"))
"""No files, but what they write at last they write in their destructors."""


def tell(page: PageWriter, phases: OpenPhases, link: Link, speaker: Speaker) -> None:
    """At the end of this process flush its files and tell the launcher, if that ends the generation by then."""
    is_over = False
    frozen = gc.get_freeze_count()

    def is_worth_it() -> bool:
        # not in a forked child, whose connections are its parent's; and with a phase open, as the save of a checkpoint,
        # a process of the script's may still be at work
        return os.getpid() == speaker.pid and bool(page.cells[Cell.ENDS]) and not phases.any_open

    def listen() -> None:
        def collected(phase: str, info: dict[str, Any]) -> None:
            nonlocal is_over
            if is_over or not sys.is_finalizing():
                return
            is_worth_telling = is_worth_it()
            is_over = is_worth_telling or phase == "stop"  # later ones find modules that are taken apart already
            if is_worth_telling:
                flush_files(frozen)
                cut()
                link.send(Over(speaker))

        cut = _cutter()
        # not sooner: a callback costs each collection of the training something
        gc.callbacks.append(collected)
        if not gc.isenabled() and is_worth_it():
            gc.enable()

    atexit.register(listen)


def flush_files(frozen: int = 0) -> None:
    """Write out what open files of Python and of the C library hold: destructors would have done it.

    `frozen`: so many objects were put aside by `gc.freeze` before there were files, as in a process that was forked
    from one with torch in it; to look at them would copy their memory.
    Of a file in which a thread was writing as Python came to its end, this aborts the process after a second, as the
    file's destructor might have: only for a process that nobody waits for.
    """
    if gc.get_freeze_count() > frozen:
        gc.unfreeze()  # frozen objects are not listed
    archives = _kinds(*(getattr(sys.modules[module], name) for module, name in _ARCHIVES if module in sys.modules))
    kinds = archives | _kinds(_ROOT)
    files = [each for each in gc.get_objects() if type(each) in kinds]
    for each in sorted(files, key=lambda file: -1 if type(file) in archives else _depth(file)):
        # closed, broken, or on a full disk: its destructor would have had the same, and said nothing. Whatever else a
        # class of the script's own raises ends this, and nothing is told.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            (each.close if type(each) in archives else each.flush)()
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        ctypes.CDLL(None).fflush(None)


def _cutter() -> Callable[[], object]:
    """What ends the TCP connections of this process: peers in a collective wait for it, and the launcher for them.

    To be made while modules can be imported. One that evaluates text as it is imported, as `socket` does, would make
    Python forget that it ends by a KeyboardInterrupt.
    """
    if "socket" not in sys.modules:
        return lambda: None
    from resurge.own_sockets import OwnSockets

    return lambda: OwnSockets(OwnSockets.open_now()).cut()


def _kinds(*roots: type) -> set[type]:
    """These classes and all that are derived from them."""
    kinds = set(roots)
    for root in roots:
        kinds |= _kinds(*type.__subclasses__(root))
    return kinds


def _depth(file: Any) -> int:
    """What wraps others comes first, so that what it hands on is flushed after it."""
    if isinstance(file, io.BufferedWriter | io.BufferedRandom):
        return 2
    return 1 if isinstance(file, io.TextIOWrapper) else 0
