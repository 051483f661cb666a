"""A function that is called again in the same process after a fault: no new interpreter, no import, no model to build.

    from resurge import inprocess

    @inprocess.Wrapper()
    def train(call: inprocess.Call) -> None:
        call.init_process_group("gloo")
        ...

Coordination is the launcher's: no rank is trusted with it. What cannot be restarted from so is restarted from by the
launcher, as ever.
"""

from resurge.inprocess.assignment import Order, fill_gaps, shift_ranks
from resurge.inprocess.interrupting import RankShouldRestart
from resurge.inprocess.tree import Fill, Layer, Tree
from resurge.inprocess.wrapper import Call, RestartAbort, Wrapper

__all__ = [
    "Call",
    "Fill",
    "Layer",
    "Order",
    "RankShouldRestart",
    "RestartAbort",
    "Tree",
    "Wrapper",
    "fill_gaps",
    "shift_ranks",
]
