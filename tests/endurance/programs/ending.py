"""A worker without torch that trains until it is told how to end: by files in a folder, each for one rank and once.

Run as `ending.py FOLDER PACE_S`. FOLDER/finish: leave with 0. FOLDER/crash-<rank>: exit with 1. FOLDER/shutdown-<rank>
and FOLDER/exclude-<rank>: ask the launcher, then leave by raising, as an application does whose loss is not a number.
Told to stop by the launcher, all ranks leave with 0 at one step.
"""

import os
import sys
import time

import resurge

folder, pace_s = sys.argv[1], float(sys.argv[2])
rank = int(os.environ["RANK"])


class LossIsNotANumber(RuntimeError):
    """What the application calls it."""


def told(name):
    """Whether this rank is told so now; it is told once."""
    try:
        os.unlink(os.path.join(folder, f"{name}-{rank}"))
    except FileNotFoundError:
        return False
    return True


with resurge.session(beat_limit=60, quick_exit=True) as session:
    session.process_group_ready()
    session.checkpoint_restored(0)
    step = 0
    while not os.path.exists(os.path.join(folder, "finish")):
        time.sleep(pace_s)
        step += 1
        session.step_committed(step)
        if session.should_stop():
            break
        if told("crash"):
            sys.exit(1)
        if told("shutdown"):
            session.stop_restarting("the loss is not a number")
            raise LossIsNotANumber
        if told("exclude"):
            session.exclude_this_node("this node computes wrong numbers")
            raise LossIsNotANumber
