"""A rank that beats, and then holds the interpreter's lock in native code: its launcher ends it past its limit.

usage: holding.py FOLDER [ANYTHING]. Writes its pid and when it is overdue, by CLOCK_MONOTONIC, before it holds.
"""

import os
import sys
import time
from pathlib import Path

import resurge
from resurge.testing import hold_gil

FOLDER = Path(sys.argv[1])
LIMIT_S, HOLD_S = 0.3, 10.0


def main():
    own = resurge.session(beat_limit=LIMIT_S)
    if own.cycle >= int((FOLDER / "cycles").read_text()):
        return
    own.process_group_ready()
    own.checkpoint_restored(0)
    own.step_committed(0)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        own.beat()
        time.sleep(0.01)
    path = FOLDER / f"holds-{own.cycle}"
    own.beat()
    path.with_suffix(".part").write_text(f"{os.getpid()} {time.monotonic() + LIMIT_S!r}")
    path.with_suffix(".part").rename(path)
    hold_gil(HOLD_S)


main()
