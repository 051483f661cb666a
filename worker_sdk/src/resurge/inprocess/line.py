"""A rank's line to its launcher while its function restarts in place. Decides nothing. Effects: a socket, a thread."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

from resurge.environment import WorkerEnvironment
from resurge.frames import TEXT_LIMIT, FrameError, Hello, Mustered, Speaker, encode, whole_text
from resurge.muster import ABORT, BROKEN, DONE, INTERRUPT, JOIN, RESERVE, Answer, AnswerDecoder

READ_BYTES = 16 * 1024
CONNECT_LIMIT_S = 5.0


class LineLost(ConnectionError):
    """The launcher is gone, or does not answer."""


class Line:
    """Says how far this rank is, and hears when to start, when to leave, and when it is over."""

    def __init__(self, told: WorkerEnvironment, on_interrupt: Callable[[int, str], None]) -> None:
        """Connect; raises OSError."""
        self._speaker = Speaker(os.getpid(), told.rank, told.generation, told.traceparent)
        self._spans_nodes = told.world_size != told.local_world_size
        self._on_interrupt = on_interrupt
        self._changed = threading.Condition()
        self._answers: list[Answer] = []
        self._lost = ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_LIMIT_S)
        self._socket.connect(told.socket)
        self._socket.sendall(encode(Hello(self._speaker)))
        self._socket.settimeout(None)
        threading.Thread(target=self._hear, name="resurge-inprocess", daemon=True).start()

    def join(self, iteration: int, min_world: int, limit_s: float, replace_s: float) -> None:
        """This rank is ready for the iteration; one that takes a lost one's place says 0, whatever is gathered for."""
        joins = Mustered(
            self._speaker,
            JOIN,
            iteration,
            needed=min_world,
            limit_ms=round(1000 * limit_s),
            spans_nodes=self._spans_nodes,
            replace_ms=max(0, round(1000 * replace_s)),
        )
        self._say(joins)

    def broken(self, iteration: int, sentence: str) -> None:
        """The iteration failed here."""
        self._say(Mustered(self._speaker, BROKEN, iteration, whole_text(sentence)[:TEXT_LIMIT]))

    def abort(self, iteration: int, sentence: str) -> None:
        """Nothing is gone on from here in place; this rank ends."""
        self._say(Mustered(self._speaker, ABORT, iteration, whole_text(sentence)[:TEXT_LIMIT]))

    def reserve(self, iteration: int) -> None:
        """This rank runs nothing in the iteration."""
        self._say(Mustered(self._speaker, RESERVE, iteration))

    def done(self, iteration: int, needed: int) -> None:
        """This rank has finished the iteration, one of so many that are to."""
        self._say(Mustered(self._speaker, DONE, iteration, needed=needed))

    def answer_to(self, iteration: int | None, kinds: tuple[str, ...], limit_s: float | None = None) -> Answer:
        """The first answer about the iteration, or any, of one of these kinds. Raises LineLost, TimeoutError."""
        until = None if limit_s is None else time.monotonic() + limit_s
        with self._changed:
            while True:
                found = self._found(iteration, kinds)
                if found is not None:
                    return found
                if self._lost:
                    raise LineLost(self._lost)
                left_s = None if until is None else until - time.monotonic()
                if left_s is not None and left_s <= 0:
                    raise TimeoutError(f"no answer about iteration {iteration} within {limit_s:g} s")
                self._changed.wait(left_s)

    def heard(self, iteration: int, kind: str) -> Answer | None:
        """The answer of this kind that is here already."""
        with self._changed:
            return self._found(iteration, (kind,))

    def close(self) -> None:
        """Nothing more is said or heard."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _found(self, iteration: int | None, kinds: tuple[str, ...]) -> Answer | None:
        return next((a for a in self._answers if iteration in (a.iteration, None) and a.kind in kinds), None)

    def _say(self, frame: Mustered) -> None:
        try:
            self._socket.sendall(encode(frame))
        except OSError as error:
            raise LineLost(f"the launcher cannot be told: {error}") from error

    def _hear(self) -> None:
        decoder, why = AnswerDecoder(), "the launcher closed the line"
        try:
            while data := self._socket.recv(READ_BYTES):
                for answer in decoder.feed(data):
                    with self._changed:
                        self._answers = [a for a in self._answers if a.iteration >= answer.iteration - 1]
                        self._answers.append(answer)
                        self._changed.notify_all()
                    if answer.kind == INTERRUPT:
                        self._on_interrupt(answer.iteration, answer.sentence)
        except (OSError, FrameError) as error:
            why = str(error)
        with self._changed:
            self._lost = why
            self._changed.notify_all()
