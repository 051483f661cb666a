"""What holds a node's lines back, as its sender is told by the log server or finds at the files, said by the launcher.

The sender leaves it in one small file of the spool; the launcher looks there now and then, and says each once on its
own terminal, where people look. Decides nothing, and waits for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_launcher.logs.desk import SpoolDesk
from resurge_libs.obs import log

NAME = "held-back"
LOOK_S = 2.0
LOOK_LIMIT_S = 2.0
SAID_MAX = 16
"""Different sentences that one launcher says; the sender's own log has all of them."""


def leave(folder: Path, sentence: str) -> None:
    """Leave it for the launcher; empty: nothing holds lines back. Costs nothing where the spool cannot be written."""
    with contextlib.suppress(OSError):
        if sentence:
            spool.write_whole(folder / NAME, sentence)
        else:
            (folder / NAME).unlink(missing_ok=True)


def left(folder: Path) -> str:
    """What was left there, on one line; empty where there is nothing."""
    try:
        return " ".join((folder / NAME).read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ""


class TroubleWatch:
    """Looks for one launcher."""

    def __init__(self, folder: Path, desk: SpoolDesk) -> None:
        self._folder, self._desk = folder, desk
        self._said: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look. In a running loop, before the sender is started."""
        self._desk.put(lambda: leave(self._folder, ""))  # what an earlier sender met
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Look a last time, in bounded time, and no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self.look()

    async def look(self) -> None:
        """Say what is there, unless it was said."""
        sentence = ""
        with contextlib.suppress(OSError):  # a spool that does not answer is told of by others
            sentence = await self._desk.ask(lambda: left(self._folder), LOOK_LIMIT_S)
        if sentence and sentence not in self._said and len(self._said) < SAID_MAX:
            self._said.add(sentence)
            log.event("logs_held_back", sentence=f"{sentence}. Training goes on; lines wait in {self._folder}")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()
