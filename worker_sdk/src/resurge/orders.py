"""What a launcher orders a worker: to abort what it waits in, now. Values and their bytes only.

An order is four bytes of length (big-endian) and that many bytes of UTF-8 JSON, as frames are, the other way. A
launcher and an SDK of two releases may meet: unknown kinds and fields are passed over.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass

from resurge.frames import FRAME_LIMIT_BYTES, TEXT_LIMIT, FrameError

ABORT = "abort"
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Order:
    """Abort every armed guard, or those of one phase."""

    generation: int
    left_ms: int
    """From now on; whoever is still there then is ended, or has made a new group."""
    sentence: str
    """Why, for people: it stands in the error that the guarded block ends with."""
    phase: str = ""
    """Only guards of this name; empty: all of them."""
    kind: str = ABORT
    until_ns: int = 0
    """CLOCK_MONOTONIC: from then on it is not to be obeyed, for the ranks may be in a fresh group; 0: however late."""

    def encoded(self) -> bytes:
        """As it goes over the socket, its length before it."""
        payload = json.dumps(asdict(self), separators=(",", ":")).encode()
        return _LENGTH.pack(len(payload)) + payload


class OrderDecoder:
    """Cuts what a launcher sends into orders; raises FrameError at what is none."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Order]:
        """All orders that are whole now and of a kind that is known here."""
        self._pending += data
        orders: list[Order] = []
        while len(self._pending) >= _LENGTH.size:
            (size_bytes,) = _LENGTH.unpack_from(self._pending)
            if size_bytes > FRAME_LIMIT_BYTES:
                raise FrameError(f"an order of {size_bytes} bytes was announced")
            end = _LENGTH.size + size_bytes
            if len(self._pending) < end:
                break
            order = _order(bytes(self._pending[_LENGTH.size : end]))
            del self._pending[:end]
            if order is not None:
                orders.append(order)
        return orders


def _order(payload: bytes) -> Order | None:
    try:
        found = json.loads(payload)
        if found.get("kind", ABORT) != ABORT:
            return None
        sentence, phase = str(found["sentence"])[:TEXT_LIMIT], str(found.get("phase", ""))[:TEXT_LIMIT]
        until_ns = int(found.get("until_ns", 0))
        return Order(int(found["generation"]), int(found["left_ms"]), sentence, phase, until_ns=until_ns)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FrameError(f"the order is none: {error!r}") from error
