"""One gRPC call with a stream each way on a TCP connection of its own, spoken in HTTP/2 frames on a plain socket.

What gRPC's own client costs per stream is more than what a service costs that is measured with it. This is the part of
RFC 9113 and of gRPC's protocol that one such call needs: preface, settings, headers, data within the flow-control
windows of both sides, pings, window updates, ends. It never blocks; who owns it polls the socket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
ACK = END_STREAM = 0x1
END_HEADERS, PADDED = 0x4, 0x8
ENABLE_PUSH, INITIAL_WINDOW_SIZE = 0x2, 0x4
STREAM = 1
WINDOW = 65_535
"""Of each side at the start, for the stream and for the connection."""
MAX_FRAME = 16_384
READ_BYTES = 65_536
PING_BODY = b"resurge!"
SO_TIMESTAMPNS = 35
"""Of Linux: the kernel says when what is read had come, however late that is."""
_TIMESPEC = struct.Struct("@qq")
NOTE_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_HEAD = struct.Struct(">HBBBI")
_PREFIX = struct.Struct(">BI")


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """One frame."""
    return _HEAD.pack(len(body) >> 8, len(body) & 0xFF, kind, flags, stream) + body


def _literal(index: int, value: str) -> bytes:
    """A header field of the static table with a value of its own, never indexed, without Huffman coding (RFC 7541)."""
    head = bytes([0x10 | index]) if index < 15 else bytes([0x1F, index - 15])
    assert len(value) < 127, "longer values need a longer length"
    return head + bytes([len(value)]) + value.encode()


def _named(name: str, value: str) -> bytes:
    return b"\x10" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call_headers(method: str, authority: str, metadata: Sequence[tuple[str, str]] = ()) -> bytes:
    """The header block that opens a gRPC call; `method` is its path."""
    return b"".join(
        [
            b"\x83\x86",  # :method POST, :scheme http
            _literal(4, method),
            _literal(1, authority),
            _named("te", "trailers"),
            _literal(31, "application/grpc"),
            _literal(58, "resurge-bench"),
            *(_named(name, value) for name, value in metadata),
        ]
    )


class Http2Call:
    """One connection and its one call."""

    __slots__ = (
        "_in",
        "_initial_window",
        "_message",
        "_our_window",
        "_out",
        "_pending",
        "_window",
        "ended",
        "is_open",
        "is_ready",
        "received_at",
        "sock",
    )

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.sock.connect_ex(address)  # under way; the first write waits for it
        self._in = b""
        self._out = bytearray(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", ENABLE_PUSH, 0)))
        self._message = b""
        self._pending: list[bytes] = []
        """Messages that wait for the peer's window."""
        self._window = {0: WINDOW, STREAM: WINDOW}
        self._initial_window = WINDOW
        self._our_window = 0
        self.is_open = self.is_ready = False
        """The peer's settings have come."""
        self.ended = ""
        """Why the call is over; empty while it is not."""
        self.received_at = 0.0
        """When what was read last had come to this socket, by the kernel, in seconds since 1970."""

    @property
    def wants_to_write(self) -> bool:
        """Whether the kernel is to be asked for room."""
        return bool(self._out)

    def open(self, headers: bytes, message: bytes) -> None:
        """Begin the call with its first message."""
        self.is_open = True
        self._out += frame(HEADERS, END_HEADERS, STREAM, headers)
        self.send(message)

    def send(self, message: bytes) -> None:
        """One message, now or when the peer has room for it."""
        self._pending.append(_PREFIX.pack(0, len(message)) + message)
        self._send_pending()
        self.flush()

    def ping(self) -> None:
        """Ask the peer's transport for a sign of life."""
        self._out += frame(PING, 0, 0, PING_BODY)
        self.flush()

    def _send_pending(self) -> None:
        while self._pending:
            body = self._pending[0]
            assert len(body) <= MAX_FRAME, "a launcher's message fits a frame"
            if len(body) > min(self._window.values()):
                return
            self._out += frame(DATA, 0, STREAM, body)
            self._window[0] -= len(body)
            self._window[STREAM] -= len(body)
            self._pending.pop(0)

    def flush(self) -> None:
        """Give the kernel what it takes."""
        if not self._out or self.ended:
            return
        try:
            sent = self.sock.send(self._out)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.ended = f"the connection broke: {error.strerror}"
            return
        del self._out[:sent]

    def receive(self) -> list[bytes]:
        """The messages that have come."""
        try:
            data, notes, *_ = self.sock.recvmsg(READ_BYTES, NOTE_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            self.ended = f"the connection broke: {error.strerror}"
            return []
        if not data:
            self.ended = self.ended or "the service closed the connection"
            return []
        for _level, kind, note in notes:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(note)
                self.received_at = seconds + nanoseconds / 1e9
        data = self._in + data if self._in else data
        at, end = 0, len(data)
        messages: list[bytes] = []
        while end - at >= 9:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            size = (high << 8) | low
            if end - at - 9 < size:
                break
            body = data[at + 9 : at + 9 + size]
            at += 9 + size
            if kind == DATA:
                self._on_data(body, flags, messages)
            else:
                self._on_control(kind, flags, stream, body)
        self._in = data[at:]
        if self._out:
            self.flush()
        return messages

    def _on_data(self, body: bytes, flags: int, messages: list[bytes]) -> None:
        self._our_window += len(body)
        if self._our_window > WINDOW // 2:  # what was read is given back to the peer before it has to wait
            update = struct.pack(">I", self._our_window)
            self._out += frame(WINDOW_UPDATE, 0, 0, update) + frame(WINDOW_UPDATE, 0, STREAM, update)
            self._our_window = 0
        if flags & PADDED:
            body = body[1 : len(body) - body[0]]
        self._message += body
        while len(self._message) >= 5:
            compressed, size = _PREFIX.unpack_from(self._message)
            assert not compressed, "nobody offered a compression"
            if len(self._message) - 5 < size:
                break
            messages.append(self._message[5 : 5 + size])
            self._message = self._message[5 + size :]
        if flags & END_STREAM:
            self.ended = self.ended or "the service ended the stream"

    def _on_control(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._on_settings(body)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, body)
        elif kind == WINDOW_UPDATE:
            self._window[stream] = self._window.get(stream, 0) + (int.from_bytes(body, "big") & 0x7FFFFFFF)
            self._send_pending()
        elif kind == HEADERS and flags & END_STREAM:
            self.ended = self.ended or f"the service ended the stream: {_printable(body)}"
        elif kind == RST_STREAM:
            self.ended = self.ended or f"the service reset the stream with code {int.from_bytes(body, 'big')}"
        elif kind == GOAWAY:
            self.ended = self.ended or f"the service went away with code {int.from_bytes(body[4:8], 'big')}"
        # else an answer to our ping or settings, or headers without an end

    def _on_settings(self, body: bytes) -> None:
        for at in range(0, len(body) - 5, 6):
            name, value = struct.unpack_from(">HI", body, at)
            if name == INITIAL_WINDOW_SIZE:
                self._window[STREAM] += value - self._initial_window
                self._initial_window = value
        self._out += frame(SETTINGS, ACK, 0)
        self.is_ready = True
        self._send_pending()

    def close(self) -> None:
        """Let the connection go."""
        self.sock.close()


def _printable(block: bytes) -> str:
    """What can be read of a header block without decoding it, for people."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in block)[:300]
