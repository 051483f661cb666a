"""Whose a page is: a process that a worker started inherits the variable that names it, not the page.

Decides whether the SDK is armed. Effects: the mapping of the page.
"""

from __future__ import annotations

import logging
import os

from resurge.page import Cell, PageError, PageWriter

_log = logging.getLogger("resurge")


def own_page(path: str, pid: int) -> PageWriter | None:
    """The page when it is this process's to write; else None, with a warning when it is broken."""
    if not path:
        return None
    try:
        page = PageWriter(path)
    except (OSError, ValueError, PageError) as error:
        _log.warning("resurge: disarmed, the page cannot be used: %s", error)
        return None
    owner_pid = page.cells[Cell.PID]
    if owner_pid in (0, pid) or not _is_alive(owner_pid):
        return page
    # A process that the worker started (a data loader by spawn) inherits the variables, not the page.
    page.close()
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
