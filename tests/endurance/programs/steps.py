"""A worker without torch: commits a step every little while, behind the fence, and goes on where its rank's log ends.

Run as `steps.py FOLDER PACE_S`. Each committed step is one line `generation step pid` in FOLDER/commits-<rank>; the
worker ends with 0 once FOLDER/finish is there.
"""

import os
import sys
import time

import resurge

folder, pace_s = sys.argv[1], float(sys.argv[2])
rank = int(os.environ["RANK"])
path = os.path.join(folder, f"commits-{rank}")


def last_step():
    """What this rank committed last; 0 at the very start."""
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return 0
    return int(lines[-1].split()[1]) if lines else 0


with resurge.session(beat_limit=60) as session:
    session.process_group_ready()
    step = last_step()
    session.checkpoint_restored(step)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while not os.path.exists(os.path.join(folder, "finish")):
        time.sleep(pace_s)
        step += 1
        session.fence()
        os.write(log, f"{session.generation} {step} {os.getpid()}\n".encode())
        session.step_committed(step)
