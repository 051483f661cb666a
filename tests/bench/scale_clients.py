"""A process of simulated launchers: commands of the driver come as lines on stdin, answers go as JSON lines to stdout.

All times are CLOCK_MONOTONIC, which is one clock for all processes of a machine.

    python -m tests.bench.scale_clients TARGET[,TARGET...] FIRST COUNT NODES LEASE
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from typing import Any

from tests.bench.scale_fleet import Fleet, Given


def say(**answer: Any) -> None:
    """One answer to the driver."""
    print(json.dumps(answer), flush=True)


def answered(fleet: Any, words: list[str]) -> bool:
    """Do one command that needs no waiting; false when it was the last."""
    heard = fleet.heard
    match words:
        case ["join"]:
            say(began=time.monotonic())
            fleet.join()
        case ["fault"]:
            say(at=time.monotonic())
            fleet.fault()
        case ["reached", kind, generation]:
            times = heard.reached[kind, int(generation)]
            say(count=len(times), last=max(times, default=0.0), errors=heard.errors[:3], failed=len(heard.errors))
        case ["back", since]:
            times = fleet.back(float(since))
            say(count=len(times), last=max(times, default=0.0), lost=fleet.times_lost, errors=heard.errors[:3])
        case ["beats"]:
            say(beats=heard.beats, pings=heard.pings)
        case _:
            return False
    return True


def obeyed(fleet: Fleet, words: list[str]) -> bool:
    """Do one command; false when it was the last."""
    if words == ["connect"]:
        fleet.connect()
        say(connected=len(fleet.nodes))
        return True
    return answered(fleet, words)


def serve(fleet: Fleet) -> None:
    """Answer the driver until it says quit or is gone."""
    stdin = sys.stdin.fileno()
    fleet.listen_to(stdin)
    waiting = b""
    while True:
        if not fleet.round(stdin):
            continue
        data = os.read(stdin, 4096)
        *lines, waiting = (waiting + data).split(b"\n")
        if not data or not all(obeyed(fleet, line.decode().split()) for line in lines):
            return


def given_fleet() -> Given:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", type=lambda text: text.split(","))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("nodes", type=int)
    parser.add_argument("lease_s", type=float)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return Given(**vars(parser.parse_args()))


def main() -> None:
    fleet = Fleet(given_fleet())
    try:
        serve(fleet)
    finally:
        fleet.close()


if __name__ == "__main__":
    main()
