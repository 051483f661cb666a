"""This process forks again and again, by torch's data loaders or barely, while five of its threads ask rendezvous."""

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from resurge.direct import Services, Where

ASKING = 4
"""Threads beside the main one."""
LEAST, ENOUGH_S = 20, 60
"""Rounds that are always made, and for how long more are: a round takes long on a busy machine."""
LIMIT_S = 150
"""For the rounds, from the start; then the stacks of all threads, and the end."""
CALL_S = 40
"""For one call, with those that are made again after a fork."""
ENDING_S = 45
"""From the last round on; then the stacks, if it has not ended. There are none of an interpreter that is ending."""
LAST_S = 260
"""From the start: then the kernel ends it, wherever it stands. Who runs it looks before that."""


def loaders() -> Callable[[], None]:
    """A round of forks for the most part: a data loader over a small data set."""
    import torch

    numbers = [torch.tensor(each) for each in range(16)]

    def go_round() -> None:
        loader = torch.utils.data.DataLoader(numbers, batch_size=4, num_workers=2, multiprocessing_context="fork")
        assert sum(int(batch.sum()) for batch in loader) == sum(range(16))

    return go_round


def bare() -> None:
    """A round of one child, which ends at once."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main(endpoint: str, job: str, kind: str, rounds: int) -> None:
    """So many rounds at most; the last line says how many were made, and how many calls were answered beside them."""
    began = time.monotonic()
    signal.alarm(LAST_S)
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    services, over, answered = Services(Where(endpoint, job)), threading.Event(), [0] * (ASKING + 1)

    def ask(place: int) -> None:
        assert services.job(wait=CALL_S).phase == "running"
        answered[place] += 1

    def keep_asking(place: int) -> None:
        while not over.is_set():
            ask(place)

    asking = [threading.Thread(target=keep_asking, args=(place,)) for place in range(1, ASKING + 1)]
    go_round = loaders() if kind == "loaders" else bare
    for each in asking:
        each.start()
    try:
        enough_at, made = time.monotonic() + ENOUGH_S, 0
        while made < LEAST or (made < rounds and time.monotonic() < enough_at):
            ask(0)
            go_round()
            made += 1
    finally:
        over.set()
    print(f"the last of {made} rounds ended after {time.monotonic() - began:.0f} s", flush=True)
    faulthandler.dump_traceback_later(ENDING_S)
    for each in asking:
        each.join()
    assert all(answered), answered
    print(f"{made} rounds of forks, {sum(answered)} calls answered; after {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
