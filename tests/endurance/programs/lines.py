"""A worker without torch that prints numbered lines, and keeps on a page how many of them it has written.

Run as `lines.py FOLDER PACE_S`. Each line is `line <pid> <number>`; the page is FOLDER/written-<pid>, eight bytes, and
never says more than was passed to write(2). Every seventh line is written in two parts, so that a kill may come between
them. It ends with 0 once FOLDER/finish is there.
"""

import mmap
import os
import sys
import time

import resurge

BURST = 40
folder, pace_s = sys.argv[1], float(sys.argv[2])
pid = os.getpid()


def page_of(path):
    """Eight bytes that outlive this process."""
    descriptor = os.open(path + ".new", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 8)
    page = mmap.mmap(descriptor, 8)
    os.rename(path + ".new", path)
    return page


def say(number):
    """One line with one or two writes."""
    line = b"line %d %d\n" % (pid, number)
    if number % 7:
        os.write(1 + number % 2, line)
        return
    os.write(1, line[:-3])
    os.write(1, line[-3:])


with resurge.session(beat_limit=60) as session:
    session.process_group_ready()
    session.checkpoint_restored(0)
    page, number, step = page_of(os.path.join(folder, f"written-{pid}")), 0, 0
    while not os.path.exists(os.path.join(folder, "finish")):
        for _ in range(BURST):
            say(number)
            number += 1
            page[:] = number.to_bytes(8, "little")
        step += 1
        session.step_committed(step)
        time.sleep(pace_s)
