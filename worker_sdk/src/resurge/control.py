"""What a worker may ask of the whole job: to stop restarting, or to go on without its node.

The one call of the SDK that waits for an answer, for a bounded time: a worker that asks is about to leave. It leaves
through its own error path, whatever the answer: state that the worker itself calls wrong must not be stepped on with,
nor saved. Never raises; without a launcher nothing is asked and the answer says so. Decides nothing. Effects: one
connection to the launcher's socket.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from resurge.frames import FRAME_LIMIT_BYTES, TEXT_LIMIT, Control, ControlAnswer, FrameError, Hello, Speaker, encode

if TYPE_CHECKING:
    import socket

WAIT_S = 10.0
"""How long an answer is waited for unless the caller says otherwise."""
_LENGTH = struct.Struct(">I")


class WorkloadAction(Enum):
    """What a worker asks for."""

    Continue = "continue"
    """Nothing: training goes on."""
    ExcludeThisNode = "exclude_this_node"
    """Train on without this node."""
    ShutdownWorkload = "shutdown_workload"
    """End the job, and do not restart it."""


@dataclass(frozen=True, slots=True)
class WorkloadControlRequest:
    """A wish, and why, for the record."""

    action: WorkloadAction
    description: str = ""


UNASKED = ControlAnswer(False, False, "no launcher is there to be asked")


def ask(path: str, speaker: Speaker, action: WorkloadAction, reason: str, wait_s: float = WAIT_S) -> ControlAnswer:
    """Ask the launcher at this socket, and wait so long for the answer."""
    if action is WorkloadAction.Continue:
        return ControlAnswer(True, False, "the workload goes on, as it was asked")
    if not path:
        return UNASKED
    wish = Control(speaker, action.value, time.monotonic_ns(), str(reason)[:TEXT_LIMIT])
    until = time.monotonic() + max(0.0, wait_s)
    import socket  # only for whoever asks

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_left(until))
            line.connect(path)
            line.sendall(encode(Hello(speaker)) + encode(wish))
            return ControlAnswer.of(_answer(line, until))
    except TimeoutError:
        return ControlAnswer(False, False, f"no answer within {wait_s:g} s; the launcher goes on asking")
    except (OSError, ValueError) as error:
        return ControlAnswer(False, False, f"the launcher at {path} cannot be asked: {error}")


def _answer(line: socket.socket, until: float) -> bytes:
    (size_bytes,) = _LENGTH.unpack(_exactly(line, _LENGTH.size, until))
    if size_bytes > FRAME_LIMIT_BYTES:
        raise FrameError(f"an answer of {size_bytes} bytes was announced")
    return _exactly(line, size_bytes, until)


def _exactly(line: socket.socket, size_bytes: int, until: float) -> bytes:
    data = b""
    while len(data) < size_bytes:
        line.settimeout(_left(until))
        more = line.recv(size_bytes - len(data))
        if not more:
            raise ConnectionError("the launcher closed the connection without an answer")
        data += more
    return data


def _left(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
