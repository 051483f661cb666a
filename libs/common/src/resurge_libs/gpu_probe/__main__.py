"""The probe's program: one line with a number in, one line with an answer out, until its input ends.

Started by whoever wants to know, as a process of its own, because a driver's library may hang for ever: it is killed
then, and it dies with whoever started it. `python -m resurge_libs.gpu_probe memory [VISIBLE]`, where VISIBLE is what
CUDA_VISIBLE_DEVICES would say; without it every GPU is meant.
"""

from __future__ import annotations

import ctypes
import signal
import sys

from resurge_libs.gpu_probe.answer import MemoryAnswer, encode

PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """Answer until the input ends; 2 for words that are none."""
    if not words or words[0] != "memory" or len(words) > 2:
        sys.stderr.write("usage: python -m resurge_libs.gpu_probe memory [VISIBLE]\n")
        return 2
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    visible = words[1] if len(words) == 2 else None
    probe = None
    for line in sys.stdin:
        number = int(line) if line.strip().isdigit() else 0
        if probe is None:
            try:
                from resurge_libs.gpu_probe.memory import MemoryProbe
            except ImportError as error:
                _say(MemoryAnswer(number, problem=f"nvidia-ml-py is not installed: {error}"))
                continue
            probe = MemoryProbe(visible)
        _say(probe.look(number))
    return 0


def _say(answer: MemoryAnswer) -> None:
    sys.stdout.write(encode(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
