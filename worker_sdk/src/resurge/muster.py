"""What ranks that restart in place say to their launcher, and what it answers. Values and their bytes only.

A rank joins the next iteration; the launcher starts it when all that live have joined, breaks it when one of them says
so or has died, and ends it when all that were to finish have. Answers are four bytes of length (big-endian) and that
many bytes of UTF-8 JSON.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass

from resurge.frames import FRAME_LIMIT_BYTES, MUSTERED, FrameError

JOIN, BROKEN, DONE, ABORT, RESERVE = MUSTERED
START, INTERRUPT, OVER, REFUSED = "start", "interrupt", "over", "refused"
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; what does not belong to its kind is empty."""

    kind: str
    iteration: int
    sentence: str = ""
    members: tuple[int, ...] = ()
    """The ranks that were started with and live, in their order."""
    number: int = 0
    """With a start: names it, where its ranks are on several nodes; else 0."""
    is_anew: bool = False
    """With a start: a fresh process takes part, and ranks are given as at the first start, from the initial order."""

    def encoded(self) -> bytes:
        """As it goes over the socket, its length before it."""
        payload = json.dumps(asdict(self), separators=(",", ":")).encode()
        return _LENGTH.pack(len(payload)) + payload


class AnswerDecoder:
    """Cuts what a launcher sends into answers; raises FrameError at what is none."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Answer]:
        """All that are whole now."""
        self._pending += data
        answers: list[Answer] = []
        while len(self._pending) >= _LENGTH.size:
            (size_bytes,) = _LENGTH.unpack_from(self._pending)
            if size_bytes > FRAME_LIMIT_BYTES:
                raise FrameError(f"an answer of {size_bytes} bytes was announced")
            end = _LENGTH.size + size_bytes
            if len(self._pending) < end:
                break
            answers.append(_answer(bytes(self._pending[_LENGTH.size : end])))
            del self._pending[:end]
        return answers


def _answer(payload: bytes) -> Answer:
    try:
        found = json.loads(payload)
        members = tuple(int(rank) for rank in found["members"])
        number = int(found.get("number", 0))
        is_anew = bool(found.get("is_anew", False))
        return Answer(str(found["kind"]), int(found["iteration"]), str(found["sentence"]), members, number, is_anew)
    except (ValueError, KeyError, TypeError) as error:
        raise FrameError(f"the answer is none: {error!r}") from error
