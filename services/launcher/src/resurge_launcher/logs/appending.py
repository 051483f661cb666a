"""Sends a node's spool straight into the files of the cycles, as every other node does at the same time.

The way for a prefix without a log server, as users of the reference know it. Each block is one append of whole lines.
What is kept of it is less: what the file system makes of appends from several hosts nobody sees, and a sender that is
killed between its append and its note of it appends that block twice.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_launcher.logs.backlog import Backlog, Piece, SpoolRules
from resurge_launcher.logs.lifeline import EXIT_LEFT, Lifeline
from resurge_launcher.logs.trouble import leave
from resurge_libs.obs import log

PART_BYTES = 1024 * 1024
POLL_S = 0.05
AGAIN_S = 1.0
SENT = ".sent"


class Appender:
    """One spool and the files that it goes into."""

    def __init__(self, folder: Path, prefix: Path, rules: SpoolRules, lifeline: Lifeline | None = None) -> None:
        self._folder, self._prefix = folder, prefix
        self._lifeline = lifeline or Lifeline()
        self._backlog = Backlog(folder, rules)
        self._trouble = ""
        self._reached: dict[str, int] = {}
        """How far each source is appended: what counts while its note cannot be written."""

    def run(self) -> int:
        """Append until the spool is closed and empty; returns 0, or 3 where an orphan leaves something behind."""
        while not self._lifeline.is_over:
            self._backlog.scan()
            for name, source in self._backlog.sources.items():
                if source.next is None:
                    self._backlog.go_on_from(name, self._noted(name))
            if not self._backlog.sources and spool.is_closing(self._folder):
                return 0
            got_on = self._append_all()
            with contextlib.suppress(OSError):
                self._backlog.make_room()
            if got_on:
                self._lifeline.got_on()
            time.sleep(0.0 if got_on else AGAIN_S if self._trouble else POLL_S)
        return EXIT_LEFT

    def _append_all(self) -> bool:
        got_on = False
        for piece in self._backlog.pieces(PART_BYTES):
            path = self._path(piece)
            try:
                _append(path, piece.text)
            except OSError as error:
                self._told_trouble(f"{path} cannot be written: {error.strerror}")
                self._backlog.forget_progress()
                return False
            self._told_trouble(self._noted_trouble(piece))
            self._backlog.durable(piece.note.name, piece.offset + piece.length, piece.ends)
            if piece.ends:
                self._reached.pop(piece.note.name, None)
                (self._folder / (piece.note.name + SENT)).unlink(missing_ok=True)
            got_on = True
        return got_on

    def _path(self, piece: Piece) -> Path:
        note, prefix = piece.note, self._prefix
        attempt = f"_attempt{note.attempt}" if note.attempt > 1 else ""
        return prefix.with_name(f"{prefix.stem}{attempt}_cycle{note.cycle}{prefix.suffix or '.log'}")

    def _noted(self, name: str) -> int:
        """How far the source is: as appended by us, as noted by an earlier sender, and never before what it punched."""
        noted = 0
        with contextlib.suppress(OSError, ValueError):
            noted = int((self._folder / (name + SENT)).read_text(encoding="utf-8"))
        return max(noted, self._reached.get(name, 0), self._backlog.punched_upto(name))

    def _noted_trouble(self, piece: Piece) -> str:
        """Note how far the source is; why that could not be, empty when it could."""
        name, upto = piece.note.name, piece.offset + piece.length
        self._reached[name] = upto
        path = self._folder / (name + SENT)
        try:
            spool.write_whole(path, str(upto))
        except OSError as error:
            return f"{path} cannot be written: {error.strerror}; a sender after this one would append some lines again"
        return ""

    def _told_trouble(self, sentence: str) -> None:
        if sentence != self._trouble:
            self._trouble = sentence
            log.event("logs_held_back" if sentence else "logs_going_on", sentence=sentence, spool=str(self._folder))
            leave(self._folder, sentence)


def _append(path: Path, text: bytes) -> None:
    if not text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
