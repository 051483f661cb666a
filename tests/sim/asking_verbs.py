"""Verbs by which attribution recommends, and workers ask by way of their launcher, which asks until it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resurge_libs.core.ids import FencingToken, Generation, JobId, NodeId, Rank, RequestId
from resurge_libs.core.recommendation import Recommendation, RecommendationKind
from resurge_rendezvous.core import model as rm
from tests.sim.launcher import Launcher
from tests.sim.service import knows_answer

if TYPE_CHECKING:
    from tests.sim.world import World

CARRY_EVERY_S = 0.2
CARRY_LIMIT_S = 120.0
LEAVE_AFTER_S = 2.0
"""A worker that asked leaves by its error path no later than this."""


class AskingVerbs:
    """Verbs of a world."""

    def recommend(self: World, at_s: float | None = None, *, kind: str = "STOP") -> None:
        """Attribution recommends something, by way of policy, which sends it until it is taken."""
        said = Recommendation(RecommendationKind(kind), "the world said so", source="world")

        def act() -> None:
            self.faulted |= kind == "STOP"
            self.log("rdzv", f"is recommended: {kind}")
            request = RequestId(f"recommendation-{self.now_s}")
            self.carry(request, lambda stamp: rm.RecommendationMade(stamp, request, said), None, self.now_s)

        self.at(at_s, act)

    def wish(self: World, node: str, at_s: float | None = None, *, action: str = "SHUTDOWN_WORKLOAD") -> None:
        """A worker asks to stop restarting, or to leave its node out, and leaves by its error path a little later."""

        def act() -> None:
            asking = self.processes(node)[:1]
            there = [launcher for launcher in self.launchers() if launcher.node == node]
            if not asking or not there or self.job.spec is None:
                return
            self.faulted = True
            process, launcher = asking[0], there[-1]
            self.log(node, f"rank {process.rank} of g{process.generation} asks: {action}")
            request = RequestId(f"wish-{node}-{self.now_s}")
            token = FencingToken(JobId("job"), self.job.attempt, Generation(process.generation))
            at = launcher.clock.wall(self.now_s)

            def made(stamp: rm.Stamp) -> rm.ControlAsked:
                wanted = rm.ControlAction(action)
                return rm.ControlAsked(stamp, request, token, NodeId(node), Rank(process.rank), wanted, "nan", at)

            self.carry(request, made, launcher, self.now_s)
            leaves_s = self.chance.uniform(0.01, LEAVE_AFTER_S)
            self.timeline.after(leaves_s, lambda: self.crash(node, rank=process.rank, code=1))

        self.at(at_s, act)

    def carry(self: World, request: RequestId, made: object, launcher: Launcher | None, since_s: float) -> None:
        """Ask rendezvous until it has answered durably, as long as the launcher lives."""
        if (launcher is not None and not launcher.alive) or self.now_s > since_s + CARRY_LIMIT_S:
            return
        if self.service.alive and not self.service.paused and knows_answer(self.service, request):
            return
        if self.service.alive and not self.service.paused and self.job.spec is not None:
            self.service.ask(made(self.service.stamp()))
        self.timeline.after(CARRY_EVERY_S, lambda: self.carry(request, made, launcher, since_s))
