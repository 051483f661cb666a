"""Frames from a worker to its launcher over the launcher's Unix stream socket, and the one answer to a worker.

A frame is four bytes of length (big-endian) and that many bytes of UTF-8 JSON: one object with the verb, the trace
context, who speaks, and the fields of the verb. Frames wake the launcher; the truth of beats and milestones is on the
page, so that a lost frame loses time, never a fact. Decides what a frame may hold and refuses everything else by
FrameError; never reads or writes a socket.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

FRAME_LIMIT_BYTES = 16 * 1024
"""Largest payload of a frame."""
TEXT_LIMIT = 1024
"""Characters of any one text in a frame."""
FIELDS_LIMIT = 32
"""Entries of an event's fields."""
_LENGTH = struct.Struct(">I")
_WHOLE_LIMIT = 1 << 64

MILESTONES = ("process_group_ready", "checkpoint_restored", "first_step")
"""Kinds of milestone, in their usual order."""

MUSTERED = ("join", "broken", "done", "abort", "reserve")
"""What a rank that restarts in place says of an iteration."""

CONTROL_ACTIONS = ("exclude_this_node", "shutdown_workload")
"""What a worker may ask for."""

ROUTES: dict[str, str] = {
    "hello": "",
    "milestone": "/resurge_api.rendezvous.v1.RendezvousService/Attach",
    "event": "",
    "control": "/resurge_api.rendezvous.v1.RendezvousService/ReportControlRequest",
    "listen": "",
    "fired": "/resurge_api.rendezvous.v1.RendezvousService/Attach",
    "crashed": "/resurge_api.rendezvous.v1.RendezvousService/Attach",
    "spared": "",
    "over": "",
    "mustered": "",
}
"""Which gRPC method carries a verb on from the launcher: one call per verb; empty: it ends at the launcher."""


class FrameError(ValueError):
    """The bytes are no frame; the sentence says what is wrong. Whoever reads them closes the socket."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who sends a frame: the generation lets the launcher drop what comes from an older worker."""

    pid: int
    rank: int
    generation: int
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class Hello:
    """First frame of a worker."""

    VERB: ClassVar[str] = "hello"
    speaker: Speaker
    sdk_version: str = ""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A step of a start is done; the same is on the page."""

    VERB: ClassVar[str] = "milestone"
    speaker: Speaker
    kind: str
    at_ns: int
    """CLOCK_MONOTONIC."""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something a worker wants noted: a fixed name and small typed fields."""

    VERB: ClassVar[str] = "event"
    speaker: Speaker
    name: str
    at_ns: int
    fields: dict[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Control:
    """What a worker asks for; the one frame that is answered, by a payload as `ControlAnswer` writes it."""

    VERB: ClassVar[str] = "control"
    speaker: Speaker
    action: str
    at_ns: int
    """CLOCK_MONOTONIC."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Listen:
    """From now on this connection takes orders down; it says nothing more up."""

    VERB: ClassVar[str] = "listen"
    speaker: Speaker


@dataclass(frozen=True, slots=True)
class Fired:
    """A guard of this rank passed its deadline: its peers are to be released from the same phase."""

    VERB: ClassVar[str] = "fired"
    speaker: Speaker
    phase: str
    number: int
    """Rises with each guard of this process that is told."""
    left_ms: int
    """For so long after `at_ns` the news is worth acting upon."""
    at_ns: int
    """CLOCK_MONOTONIC."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The loop of this rank raised: it ends itself, and its launcher its world, when the grace is over."""

    VERB: ClassVar[str] = "crashed"
    speaker: Speaker
    error: str
    kill_in_ms: int
    """From `at_ns` on."""
    at_ns: int
    """CLOCK_MONOTONIC."""


@dataclass(frozen=True, slots=True)
class Spared:
    """The crash of this rank has reached who had to know: nobody is ended for it."""

    VERB: ClassVar[str] = "spared"
    speaker: Speaker


@dataclass(frozen=True, slots=True)
class Over:
    """The script of this rank is over, its atexit functions too, and its files are flushed."""

    VERB: ClassVar[str] = "over"
    speaker: Speaker


@dataclass(frozen=True, slots=True)
class Mustered:
    """This rank restarts in place: it has joined an iteration, has finished it, or says how it stands with it."""

    VERB: ClassVar[str] = "mustered"
    speaker: Speaker
    kind: str
    iteration: int
    sentence: str = ""
    needed: int = 0
    """To join: the smallest world to go on with; to finish: so many ranks are to."""
    limit_ms: int = 0
    """From the break of one iteration to the start of the next."""
    spans_nodes: bool = False
    """To join, where the world is on several nodes: this SDK meets the ranks of others through their store."""
    replace_ms: int | None = None
    """To join: so long a fresh process in the place of a lost rank is to be waited for. None: its SDK knows of none."""


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """What came of a wish."""

    delivered: bool
    """The control plane has it, durably."""
    carried_out: bool
    """It was done; False where it changes nothing, as an exclusion that would leave too few nodes."""
    sentence: str = ""

    def encoded(self) -> bytes:
        """As it goes over the socket, its length before it."""
        payload = json.dumps(asdict(self), separators=(",", ":")).encode()
        return _LENGTH.pack(len(payload)) + payload

    @classmethod
    def of(cls, payload: bytes) -> ControlAnswer:
        """The answer in a payload. Raises FrameError."""
        try:
            record = json.loads(payload)
            return cls(bool(record["delivered"]), bool(record["carried_out"]), str(record["sentence"])[:TEXT_LIMIT])
        except (ValueError, KeyError, TypeError) as error:
            raise FrameError(f"the answer is none: {error!r}") from error


Frame = Hello | Milestone | Event | Control | Listen | Fired | Crashed | Spared | Over | Mustered
_KINDS: tuple[type[Frame], ...] = (Hello, Milestone, Event, Control, Listen, Fired, Crashed, Spared, Over, Mustered)
_FRAMES: dict[str, type[Frame]] = {kind.VERB: kind for kind in _KINDS}
_SPEAKER_FIELDS = tuple(entry.name for entry in fields(Speaker))


def encode(frame: Frame) -> bytes:
    """The frame as bytes; raises FrameError when a value does not fit, before anything is sent."""
    record = asdict(frame)
    record.update(record.pop("speaker"))
    record["verb"] = frame.VERB
    if isinstance(frame, Mustered) and not frame.spans_nodes:
        del record["spans_nodes"]  # an older launcher takes no field that it does not know
    if isinstance(frame, Mustered) and frame.replace_ms is None:
        del record["replace_ms"]
    _parse(record)
    try:
        payload = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        raise FrameError(f"{frame.VERB} holds a value that cannot be sent: {error}") from error
    if len(payload) > FRAME_LIMIT_BYTES:
        raise FrameError(f"{frame.VERB} would have {len(payload)} bytes, at most {FRAME_LIMIT_BYTES} are allowed")
    return _LENGTH.pack(len(payload)) + payload


class FrameDecoder:
    """Cuts a byte stream into frames; holds at most one frame's worth of bytes beyond what it is fed."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that are whole now; raises FrameError at the first that is none."""
        self._pending += data
        frames: list[Frame] = []
        while len(self._pending) >= _LENGTH.size:
            (size_bytes,) = _LENGTH.unpack_from(self._pending)
            if size_bytes > FRAME_LIMIT_BYTES:
                raise FrameError(
                    f"a frame of {size_bytes} bytes was announced, at most {FRAME_LIMIT_BYTES} are allowed"
                )
            end = _LENGTH.size + size_bytes
            if len(self._pending) < end:
                break
            frames.append(decode(bytes(self._pending[_LENGTH.size : end])))
            del self._pending[:end]
        return frames


def decode(payload: bytes) -> Frame:
    """The frame that a payload (without its length) holds; raises FrameError."""
    try:
        record = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the payload is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise FrameError(f"the payload is a {type(record).__name__}, not an object")
    return _parse(record)


def _parse(record: dict[str, Any]) -> Frame:
    verb = record.get("verb")
    kind = _FRAMES.get(verb) if isinstance(verb, str) else None
    if kind is None:
        raise FrameError(f"unknown verb {verb!r}; known: {', '.join(_FRAMES)}")
    own_fields = tuple(entry.name for entry in fields(kind) if entry.name != "speaker")
    strange = record.keys() - {"verb", *_SPEAKER_FIELDS, *own_fields}
    if strange:
        raise FrameError(f"{verb} has unknown fields: {', '.join(sorted(map(str, strange)))}")
    speaker = Speaker(
        pid=_whole(record, "pid"),
        rank=_whole(record, "rank"),
        generation=_whole(record, "generation"),
        traceparent=_text(record, "traceparent"),
    )
    if kind is Hello:
        return Hello(speaker, _text(record, "sdk_version"))
    if kind is Milestone:
        name = _text(record, "kind")
        if name not in MILESTONES:
            raise FrameError(f"kind is {name!r}, one of {', '.join(MILESTONES)} is needed")
        step = _whole(record, "step") if record.get("step") is not None else None
        return Milestone(speaker, name, _whole(record, "at_ns"), step)
    if kind is Control:
        action = _text(record, "action")
        if action not in CONTROL_ACTIONS:
            raise FrameError(f"action is {action!r}, one of {', '.join(CONTROL_ACTIONS)} is needed")
        return Control(speaker, action, _whole(record, "at_ns"), _text(record, "reason"))
    return _news(kind, speaker, record)


def _news(kind: type[Frame], speaker: Speaker, record: dict[str, Any]) -> Frame:
    """What guards have to say, and events."""
    if kind is Listen:
        return Listen(speaker)
    if kind is Spared:
        return Spared(speaker)
    if kind is Over:
        return Over(speaker)
    if kind is Mustered:
        return _mustered(speaker, record)
    if kind is Crashed:
        return Crashed(speaker, _text(record, "error"), _whole(record, "kill_in_ms"), _whole(record, "at_ns"))
    if kind is Fired:
        phase, left_ms = _text(record, "phase"), _whole(record, "left_ms")
        return Fired(speaker, phase, _whole(record, "number"), left_ms, _whole(record, "at_ns"))
    return Event(speaker, _text(record, "name"), _whole(record, "at_ns"), _event_fields(record.get("fields", {})))


def _mustered(speaker: Speaker, record: dict[str, Any]) -> Mustered:
    kind = _text(record, "kind")
    if kind not in MUSTERED:
        raise FrameError(f"kind is {kind!r}, one of {', '.join(MUSTERED)} is needed")
    iteration, needed, limit_ms = (_whole(record, name) for name in ("iteration", "needed", "limit_ms"))
    spans_nodes = record.get("spans_nodes", False)
    if not isinstance(spans_nodes, bool):
        raise FrameError(f"spans_nodes is {spans_nodes!r}, true or false is needed")
    replace_ms = _whole(record, "replace_ms") if record.get("replace_ms") is not None else None
    return Mustered(speaker, kind, iteration, _text(record, "sentence"), needed, limit_ms, spans_nodes, replace_ms)


def _whole(record: dict[str, Any], name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _WHOLE_LIMIT:
        raise FrameError(f"{name} is {value!r}, a whole number from 0 is needed")
    return value


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise FrameError(f"{name} must be a text of at most {TEXT_LIMIT} characters")
    return whole_text(value)


def whole_text(text: str) -> str:
    """The text without halves of surrogate pairs, as a path that is no UTF-8 leaves them: no wire takes those."""
    return text.encode("utf-8", "replace").decode()


def _event_fields(value: Any) -> dict[str, str | int | float | bool]:
    if not isinstance(value, dict) or len(value) > FIELDS_LIMIT:
        raise FrameError(f"fields must be an object of at most {FIELDS_LIMIT} entries")
    for name, entry in value.items():
        if not isinstance(name, str) or not isinstance(entry, str | int | float | bool):
            raise FrameError(f"fields.{name} is {entry!r}, a text, a number or a truth value is needed")
        if isinstance(entry, str) and len(entry) > TEXT_LIMIT:
            raise FrameError(f"fields.{name} has {len(entry)} characters, at most {TEXT_LIMIT} are allowed")
    return {whole_text(name): whole_text(entry) if isinstance(entry, str) else entry for name, entry in value.items()}
