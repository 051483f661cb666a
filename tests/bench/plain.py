"""A worker without torch: starts, tells its milestones where the worker SDK is, and then only counts.

Stamps as train.py does, but few per process: hundreds of restarts are read from one file.
"""

import time

_STARTED = time.time()

import json  # noqa: E402
import os  # noqa: E402
import threading  # noqa: E402
from contextlib import nullcontext  # noqa: E402
from pathlib import Path  # noqa: E402

try:
    import resurge
except ImportError:
    resurge = None

OUT = Path(os.environ["BENCH_OUT"])
SETTLED_STEPS = 10
STEP_S = 0.01
PAUSE = threading.Event()  # never set


def stamp(what, at=None):
    line = {"what": what, "at": time.time() if at is None else at, "rank": int(os.environ["RANK"]), "pid": os.getpid()}
    fd = os.open(OUT / "stamps.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps(line) + "\n").encode())
    os.close(fd)


def main():
    stamp("started", _STARTED)
    with resurge.session() if resurge else nullcontext() as session:
        if session:
            session.process_group_ready()
            session.checkpoint_restored(0)
        step = 0
        while not (OUT / "stop").exists():
            step += 1
            if session:
                session.beat(step)
                session.step_committed(step)
            if step == SETTLED_STEPS:
                stamp("settled")
            PAUSE.wait(STEP_S)


if __name__ == "__main__":
    main()
