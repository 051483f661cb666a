"""The way from a worker to its launcher: one Unix stream socket, written without ever waiting.

Decides nothing. A frame that cannot be sent at once ends the link with one warning: milestones stand on the page, the
frame would only have told the launcher sooner. Effects: the socket.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from resurge.frames import Frame, FrameError, Hello, Speaker, encode

if TYPE_CHECKING:
    import socket

SDK_VERSION = "0.1.0"
_log = logging.getLogger("resurge")


class Link:
    """Sends frames; opened by the first one. After a failure it stays closed and every send is a no-op."""

    def __init__(self, path: str, speaker: Speaker) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._usable = bool(path)
        self._hello = Hello(speaker, SDK_VERSION)

    def send(self, frame: Frame) -> None:
        """Hand the frame to the kernel, or give the link up."""
        if not self._usable:
            return
        try:
            data = encode(frame)
        except (FrameError, TypeError) as error:
            _log.warning("resurge: an event is not reported: %s", error)
            return
        try:
            if self._socket is None:
                self._socket = self._opened()
                data = encode(self._hello) + data
            sent_bytes = self._socket.send(data)
        except OSError as error:
            self._give_up(str(error))
        else:
            if sent_bytes != len(data):
                self._give_up("the launcher does not read")

    def close(self) -> None:
        """Close this process's end; in a forked child the parent's stays open."""
        self._usable = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _opened(self) -> socket.socket:
        import socket  # only where there is a launcher: it costs a script without one some milliseconds

        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.setblocking(False)
        try:
            opened.connect(self._path)
        except OSError:
            opened.close()
            raise
        return opened

    def _give_up(self, why: str) -> None:
        self.close()
        _log.warning(
            "resurge: no link to the launcher at %s (%s); beats and milestones go on by the page", self._path, why
        )
