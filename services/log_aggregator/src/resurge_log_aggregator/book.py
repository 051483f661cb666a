"""Every file and source of the job, and who is to be told about each. Belongs to the event loop; the disk is elsewhere.

Places blocks by the core's rules, hands them to the writer, and passes on what the writer reports.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Unready
from resurge_libs.obs import log
from resurge_log_aggregator.core.model import (
    BlockHead,
    Follows,
    LogKey,
    LogKind,
    LogState,
    Repeats,
    SourceKey,
    SourceState,
)
from resurge_log_aggregator.core.step import made_durable, place, state_of
from resurge_log_aggregator.index import NotAnIndex
from resurge_log_aggregator.log_file import Entry, FileTaken, LogFile, Reached, is_of_job
from resurge_log_aggregator.names import application_key, application_path
from resurge_log_aggregator.senders import Listener, Senders
from resurge_log_aggregator.writer import Writer, WriterRules

REOPEN_S = 1.0
LOOK_S = 1.0
NAMED_RANKS = 64


@dataclass(frozen=True, slots=True)
class Places:
    """Where files go."""

    prefix: Path | None
    launcher_path: Path | None

    def path_of(self, key: LogKey) -> Path:
        """The path of a file. Raises BadRequest where the service keeps none of its kind."""
        if key.kind is LogKind.OTHER:
            return Path(key.name)
        if key.kind is LogKind.LAUNCHER:
            if self.launcher_path is None:
                raise BadRequest.of(
                    "open.source.kind", "this service keeps no launcher log: start it with --launcher-log"
                )
            return self.launcher_path
        if self.prefix is None:
            raise BadRequest.of(
                "open.source.kind", "this service keeps no application log: start it with --applog-prefix"
            )
        return application_path(self.prefix, key)


class Book:
    """All files of one job."""

    is_leaf = False

    def __init__(self, places: Places, rules: WriterRules, job: str) -> None:
        self.job = job
        self._places = places
        self._writer = Writer(rules, self._told_by_writer, self._trouble_by_writer)
        self._sources: dict[SourceKey, SourceState] = {}
        self._of_log: dict[LogKey, set[SourceKey]] = {}
        self._files: dict[LogKey, LogFile] = {}
        self._opening: dict[LogKey, asyncio.Task[LogFile]] = {}
        self._open_troubles: dict[LogKey, str] = {}
        self._listeners: dict[SourceKey, Listener] = {}
        self._senders = Senders()
        self._changed: dict[LogKey, asyncio.Event] = {}
        self._any_changed = asyncio.Event()
        self._room = asyncio.Event()
        self._gone = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: asyncio.Task[None] | None = None
        self._told_sentence = ""

    def start(self) -> None:
        """Begin, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._room.set()
        self._writer.start()
        self._watch = self._loop.create_task(self._look_for_trouble())

    async def drain(self, limit_s: float) -> None:
        """Wait until every sender has gone, for at most so long; say who has not, and which ranks are missing."""
        self._writer.hurry()
        try:
            async with asyncio.timeout(limit_s):
                while self._senders:
                    self._gone.clear()
                    await self._gone.wait()
        except TimeoutError:
            pass
        for key in sorted(self._files):
            state = self.state(key)
            if state is not None and state[0].missing_ranks:
                missing = ", ".join(str(rank) for rank in state[0].missing_ranks[:NAMED_RANKS])
                log.event("log_not_complete", path=state[1], senders=len(self._senders), missing_ranks=missing)

    async def stop(self, limit_s: float) -> None:
        """Make what came durable, for at most so long; say what could not be."""
        if self._watch is not None:
            self._watch.cancel()
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(None, functools.partial(self._writer.stop, limit_s))
        if not done:
            log.event("logs_not_durable", sentence=self.trouble or f"the disk was not done within {limit_s:g} s")
        for file in self._files.values() if done else ():
            file.close()

    # --- senders ---

    def listen(self, listener: Listener) -> None:
        """A sender has come."""
        self._senders.add(listener)
        if self.trouble:
            listener.trouble(self.trouble)

    def forget(self, listener: Listener) -> None:
        """A sender has gone; what it sent stays."""
        for key in self._senders.remove(listener):
            if self._listeners.get(key) is listener:  # a later one may have taken it over
                del self._listeners[key]
        self._gone.set()

    async def open_source(self, key: SourceKey, world_size: int, listener: Listener) -> None:
        """Let the listener send this source, from where it is. Raises BadRequest, Unready."""
        await self._file(key.log)
        state = self._sources.get(key) or SourceState(key, world_size)
        self._sources[key] = replace(state, world_size=max(state.world_size, world_size))
        self._of_log.setdefault(key.log, set()).add(key)
        if not self._senders.opened(listener, key):
            return  # it has gone meanwhile, and a later one may be heard
        self._listeners[key] = listener
        listener.ack(key, self._sources[key], go_on_from=state.written)

    def take(self, key: SourceKey, head: BlockHead, text: bytes, at: float) -> None:
        """A block of a source that was opened. It is answered through the source's listener."""
        state = self._sources[key]
        match place(state, head):
            case Follows(after):
                self._sources[key] = after
                self._writer.put(self._files[key.log], [Entry(key, after.world_size, head, text, at)])
                if self._writer.is_full:
                    self._room.clear()
            case Repeats():
                self._tell(key, state)
            case _:
                self._tell(key, state, go_on_from=state.written)

    def is_pending(self, key: SourceKey) -> bool:
        """Whether something of the source is written and not durable yet."""
        state = self._sources.get(key)
        return state is not None and (state.durable < state.written or state.has_ended != state.end_is_durable)

    async def room(self) -> None:
        """Wait until more may be read."""
        await self._room.wait()

    def _tell(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        listener = self._listeners.get(key)
        if listener is not None:
            listener.ack(key, state, go_on_from)

    # --- files ---

    async def _file(self, key: LogKey) -> LogFile:
        known = self._files.get(key)
        if known is not None:
            return known
        opening = self._opening.get(key)
        if opening is None:
            path = self._places.path_of(key)
            opening = self._opening[key] = asyncio.ensure_future(self._open(key, path))
            opening.add_done_callback(lambda _task: self._opening.pop(key, None))
        return await asyncio.shield(opening)

    async def _open(self, key: LogKey, path: Path) -> LogFile:
        loop = asyncio.get_running_loop()
        while True:
            try:
                file = await loop.run_in_executor(None, _opened, path, self.job, key)
                break
            except (FileTaken, NotAnIndex) as problem:
                raise Unready(Because(Reason.LOG_NOT_WRITTEN, f"{path}: {problem}")) from None
            except OSError as error:
                self._open_failed(key, f"{path} cannot be opened: {error.strerror}")
                await asyncio.sleep(REOPEN_S)
        self._open_failed(key, "")
        self._files[key] = file
        for source in file.sources.values():
            durable = replace(source, durable=source.written, end_is_durable=source.has_ended)
            self._sources[source.key] = durable
            self._of_log.setdefault(key, set()).add(source.key)
        self._writer.add_file(file)
        log.event("log_opened", path=str(path), sources=len(file.sources), bytes=file.size)
        return file

    def _open_failed(self, key: LogKey, sentence: str) -> None:
        if self._open_troubles.get(key, "") != sentence:
            self._open_troubles[key] = sentence
            self._tell_trouble()

    # --- what the writer reports ---

    def _told_by_writer(self, file: LogFile, reached: Mapping[SourceKey, Reached], is_durable: bool) -> None:
        self._in_loop(lambda: self._progress(file, reached, is_durable))

    def _trouble_by_writer(self) -> None:
        self._in_loop(self._tell_trouble)

    def _in_loop(self, call: Callable[[], None]) -> None:
        assert self._loop is not None, "the writer starts after the book"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def _progress(self, file: LogFile, reached: Mapping[SourceKey, Reached], is_durable: bool) -> None:
        if not self._writer.is_full:
            self._room.set()
        if is_durable:
            for key, upto in reached.items():
                state = self._sources[key] = made_durable(self._sources[key], upto.upto, upto.ended)
                self._tell(key, state)
        changed, self._any_changed = self._any_changed, asyncio.Event()
        changed.set()
        if (event := self._changed.pop(file.key, None)) is not None:
            event.set()

    @property
    def trouble(self) -> str:
        """Why nothing gets on, in words; empty when it does."""
        return "; ".join(why for why in (*self._open_troubles.values(), self._writer.trouble) if why)

    async def _look_for_trouble(self) -> None:
        """A disk that does not answer at all tells nobody so."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self.trouble != self._told_sentence:
                self._tell_trouble()

    def _tell_trouble(self) -> None:
        sentence = self._told_sentence = self.trouble
        log.event("logs_trouble" if sentence else "logs_trouble_over", sentence=sentence)
        for listener in self._senders:
            listener.trouble(sentence)

    # --- readers ---

    def logs(self) -> list[LogKey]:
        """Every file that is open, oldest first."""
        return sorted(self._files)

    def state(self, key: LogKey) -> tuple[LogState, str, int] | None:
        """A file with its sources, its path and its size; None for an unknown one."""
        file = self._files.get(key)
        if file is None:
            return None
        sources = [self._sources[source] for source in self._of_log.get(key, ())]
        return state_of(key, sources), str(file.path), file.size

    def changed(self, key: LogKey | None) -> asyncio.Event:
        """Is set when something more is in the file; with None: in any."""
        return self._any_changed if key is None else self._changed.setdefault(key, asyncio.Event())

    async def open_known(self) -> None:
        """Open the files that an earlier run of the service left, so that they can be read and go on."""
        for key in await asyncio.get_running_loop().run_in_executor(None, self._found):
            try:
                await asyncio.wait_for(self._file(key), REOPEN_S * 5)
            except (Unready, TimeoutError) as problem:
                log.event("log_not_opened", cycle=key.cycle, sentence=str(problem))

    def _found(self) -> list[LogKey]:
        """Those of this job; another job's are left alone until there is something to write into them."""
        return [key for key in found_logs(self._places) if self._is_ours(key)]

    def _is_ours(self, key: LogKey) -> bool:
        try:
            return is_of_job(self._places.path_of(key), self.job, key)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # opening it says what is wrong


def found_logs(places: Places) -> list[LogKey]:
    """The files of an earlier run, by their names."""
    found = []
    if places.launcher_path is not None and places.launcher_path.exists():
        found.append(LogKey(LogKind.LAUNCHER, 0, 0))
    prefix = places.prefix
    if prefix is not None and prefix.parent.is_dir():
        paths = prefix.parent.glob(f"{prefix.stem}*_cycle*{prefix.suffix or '.log'}")
        found += [key for path in paths if (key := application_key(prefix, path)) is not None]
    return sorted(found)


def _opened(path: Path, job: str, key: LogKey) -> LogFile:
    file = LogFile(path, job, key)
    try:
        file.sync()  # what was written before is durable from here on
    except OSError:
        file.close()
        raise
    return file
