"""A signal's handler at each place where one can come in between: calls it there, once per run of a block.

CPython runs handlers on the main thread only where an instruction looks for them: after calls, at the begin of
functions, and at jumps backwards. Between two of those nothing comes in between, so no other places are tried.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

LOOKS = frozenset(
    opcode.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD") if name in opcode.opmap
)
"""Instructions after which a handler may run."""


def run_interrupted(block: Callable[[], object], handler: Callable[[], object], at: int, within: str) -> bool:
    """Run the block; at the place of that number, from 1, in files whose path has `within`, the handler runs.

    False when the block has fewer places.
    """
    before: dict[FrameType, int] = {}
    places = 0

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal places
        if within not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if before.get(frame) in LOOKS:
                places += 1
                if places == at:
                    handler()
            before[frame] = frame.f_code.co_code[frame.f_lasti]
        return look

    sys.settrace(look)
    try:
        block()
    finally:
        sys.settrace(None)
    return places >= at
