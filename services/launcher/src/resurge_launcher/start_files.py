"""What a start wants of disks that may be slow, full or gone: the cycle's record, the workers' log files. Bounded.

A thread looks and opens; the start waits for it so long as it may, and then goes on without, and says what is missing.
While a thread still hangs no start waits for another; files of workers that are forked anew have a thread of their own,
one batch at a time. Decides nothing about workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from resurge_launcher.core.goals import RunGoal
from resurge_libs.obs import cycle_files, log
from resurge_libs.obs.background import Outage

RECORD_WAIT_S = 0.2
"""How long a start waits for the record of its cycle, which the control plane writes meanwhile."""
RECORD_ANSWER_S = 0.1
"""How much longer a start waits for a look that is at its end: only a directory that hangs takes as long."""
LOGS_WAIT_S = 1.0
"""How long it waits for log files that are being made: losing a cycle's output costs more than this once."""
LOOK_EVERY_S = 0.002
FILE_MODE = 0o644

T = TypeVar("T")
FileKey = tuple[int, bool]
"""(global rank, is stderr)."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one generation's workers; without a root there are none, and output reaches the terminal alone."""

    root: Path | None = None
    """Directory of the cycle; one directory for each rank is in it."""
    descriptors: Mapping[FileKey, int] = field(default_factory=dict)

    def close(self) -> None:
        """Give up the files."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)


NO_FILES = LogFiles()


def made(root: Path, ranks: Iterable[int]) -> LogFiles:
    """Directories and open files of these ranks, no older error file among them. Raises OSError, with nothing open."""
    descriptors: dict[FileKey, int] = {}
    try:
        for rank in ranks:
            directory = root / str(rank)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "error.json").unlink(missing_ok=True)
            for is_stderr, name in ((False, "stdout.log"), (True, "stderr.log")):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                descriptors[(rank, is_stderr)] = os.open(directory / name, flags, FILE_MODE)
    except OSError:
        LogFiles(root, descriptors).close()
        raise
    return LogFiles(root, descriptors)


class _Look:
    """One thread's work for one start: who comes first, the result or the end of the wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settled = False
        self.is_over = False
        """The disk answered."""

    def settle(self) -> bool:
        """Whether this caller is the first."""
        with self._lock:
            first, self._settled = not self._settled, True
        return first


class StartFiles:
    """Prepares the files of each start; belongs to the event loop's thread."""

    def __init__(self, records: Path | None, log_root: Path, job_id: str, local_world_size: int) -> None:
        self._records, self._log_root, self._job_id = records, log_root, job_id
        self._local_world_size = local_world_size
        remedy = "Give the directory room, or name another with --log-dir; until then output is on the terminal alone."
        self._logs_outage = Outage("the workers' output", log_root, remedy)
        self._looks: dict[str, _Look] = {}
        self._record_was_late = False

    def prepare(self, run: RunGoal, then: Callable[[LogFiles], None]) -> None:
        """Call back in the loop, with what there is in time."""
        if self._records is None:
            self._prepare_logs(run, then)
        else:
            self._await_record(run, lambda: self._prepare_logs(run, then))

    # ------------------------------------------------------------------------------------------------------ logs

    def prepare_again(self, run: RunGoal, ranks: Iterable[int], then: Callable[[LogFiles], None]) -> None:
        """Call back in the loop with the files of a few ranks of a generation that runs."""
        self._prepare_logs(run, then, tuple(ranks))

    def _prepare_logs(
        self, run: RunGoal, then: Callable[[LogFiles], None], only: tuple[int, ...] | None = None
    ) -> None:
        root = self._log_root / str(run.attempt) / str(run.cycle)
        ranks = only or range(run.base_rank, run.base_rank + self._local_world_size)

        def work() -> LogFiles | OSError:
            try:
                return made(root, ranks)
            except OSError as error:
                return error

        def done(result: LogFiles | OSError) -> None:
            if isinstance(result, OSError):
                self._logs_outage.failed(result)
                then(NO_FILES)
            else:
                self._logs_outage.written()
                then(result)

        def too_late() -> None:
            self._logs_outage.failed(f"no answer for {LOGS_WAIT_S:g} s")
            then(NO_FILES)

        def unwanted(result: LogFiles | OSError) -> None:
            if isinstance(result, LogFiles):
                result.close()

        name = "log-files" if only is None else "fresh-log-files"
        self._begin(name, LOGS_WAIT_S, work, done, too_late, unwanted)

    # ---------------------------------------------------------------------------------------------------- record

    def _await_record(self, run: RunGoal, then: Callable[[], None]) -> None:
        assert self._records is not None
        path = cycle_files.record_path(self._records, self._job_id, run.attempt, run.cycle)
        # after one that did not come in time no further start waits, until one is there at the first look
        give_up_at = time.monotonic() + (0.0 if self._record_was_late else RECORD_WAIT_S)

        def work() -> bool:
            while not (is_there := _is_there(path)) and time.monotonic() < give_up_at:
                time.sleep(LOOK_EVERY_S)
            return is_there

        def done(is_there: bool) -> None:
            if not is_there and not self._record_was_late:
                _say_late(path)
            self._record_was_late = not is_there
            then()

        limit_s = RECORD_WAIT_S + RECORD_ANSWER_S
        self._begin("cycle-record", limit_s, work, done, lambda: done(False), lambda _: None)

    def _begin(
        self,
        name: str,
        limit_s: float,
        work: Callable[[], T],
        done: Callable[[T], None],
        too_late: Callable[[], None],
        unwanted: Callable[[T], None],
    ) -> None:
        """`done` or `too_late` is called in the loop, once; a result that nobody waits for any more is `unwanted`."""
        before = self._looks.get(name)
        if before is not None and not before.is_over:  # the same place would hold another thread as well
            too_late()
            return
        loop, look = asyncio.get_running_loop(), _Look()
        self._looks[name] = look

        def go() -> None:
            result = work()
            look.is_over = True
            if not look.settle() or not _call_soon(loop, done, result):
                unwanted(result)

        def give_up() -> None:
            if look.settle():
                too_late()

        loop.call_later(limit_s, give_up)
        threading.Thread(target=go, name=name, daemon=True).start()


def _call_soon(loop: asyncio.AbstractEventLoop, then: Callable[..., None], *words: object) -> bool:
    """False where the loop is over already."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(then, *words)
        return True
    return False


def _is_there(path: Path) -> bool:
    """Whether the file exists, and `current` names it.

    The directory is opened anew, for a network file system then asks its server again.
    """
    with contextlib.suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.stat(path.name, dir_fd=directory)
            return os.readlink(cycle_files.CURRENT, dir_fd=directory) == path.name
        finally:
            os.close(directory)
    return False


def _say_late(path: Path) -> None:
    sentence = (
        f"workers start before {path} is there: it did not come within {RECORD_WAIT_S:g} s. The control plane writes "
        "it, and its log says why it cannot. One that was started by other means needs the same directory in "
        "RESURGE_RENDEZVOUS__CYCLE_INFO_DIR, on a file system that this node sees."
    )
    log.event("cycle_record_not_there", path=str(path), waited_s=RECORD_WAIT_S, sentence=sentence)
