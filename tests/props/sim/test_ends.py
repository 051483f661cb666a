"""However a job ends, and whoever crashes at that moment: S3, S4, S5 and S11 hold, and each verdict can be replayed.

Real cores in a simulated world, judged by its oracle. Hypothesis chooses how the job is to end, and which of the
policy, rendezvous and the launchers crash around that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import SOURCE_DEFAULT, SOURCE_POLICY, VerdictRules, default_verdict
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core.verdicts import POLICY
from resurge_rendezvous.wire_out import incident_to_proto, verdict_to_proto
from resurge_restart_policy import wire as policy_wire
from resurge_restart_policy.core.step import decide
from tests.sim.run import QUIET_LIMIT_S
from tests.sim.world import World

END_AT_S = 25.0
ENDS: dict[str, Callable[[World], None]] = {
    "nothing ends it": lambda w: w.crash("n1", END_AT_S),
    "two crashes": lambda w: (w.crash("n1", END_AT_S), w.crash("n2", END_AT_S + 4.0)),
    "attribution": lambda w: w.recommend(END_AT_S),
    "attribution in a recovery": lambda w: (w.crash("n1", END_AT_S - 0.2), w.recommend(END_AT_S)),
    "an operator": lambda w: w.shutdown(END_AT_S),
    "a worker": lambda w: w.wish("n1", END_AT_S),
    "a worker in a recovery": lambda w: (w.crash("n2", END_AT_S - 0.1), w.wish("n1", END_AT_S)),
    "a node leaves": lambda w: w.wish("n1", END_AT_S, action="EXCLUDE_THIS_NODE"),
    "too few nodes": lambda w: (
        w.exclude("n1", END_AT_S - 1.0),
        w.exclude("n2", END_AT_S - 1.0),
        w.crash("n1", END_AT_S),
    ),
}


@dataclass(frozen=True)
class Crash:
    """What crashes, and when, counted from the moment of the end."""

    who: str
    after_s: float
    down_s: float

    def put(self, world: World) -> None:
        """On the world's timeline."""
        at_s = END_AT_S + self.after_s
        match self.who:
            case "rendezvous":
                world.kill_service(at_s, down_s=self.down_s)
            case "the policy":
                world.at(at_s, lambda: world.set_policy(dead=True))
                world.at(at_s + self.down_s, lambda: world.set_policy(dead=False))
            case "the policy, in silence":
                world.at(at_s, lambda: world.set_policy(mute=True))
                world.at(at_s + self.down_s, lambda: world.set_policy(mute=False))
            case node:
                world.kill_launcher(node, at_s, self.down_s)


crashes = st.builds(
    Crash,
    st.sampled_from(["rendezvous", "rendezvous", "the policy", "the policy, in silence", "n1", "n2", "n3"]),
    st.floats(-1.0, 4.0),
    st.sampled_from([0.1, 0.6, 3.0]),
)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(sorted(ENDS)),
    st.sampled_from([(2, 2), (3, 2), (3, 3)]),
    st.sampled_from([0, 1, 3]),
    st.lists(crashes, max_size=4),
)
def test_every_launcher_learns_the_one_end_and_each_verdict_replays(
    seed: int, end: str, nodes: tuple[int, int], max_restarts: int, around: list[Crash]
):
    world = World(
        seed=seed, nodes=nodes[0], min_nodes=nodes[1], max_restarts=max_restarts, attribution_stops=True, keep_lines=80
    )
    ENDS[end](world)
    for crash in around:
        if crash.who not in world.node_names and crash.who.startswith("n"):
            continue
        crash.put(world)
    world.run(END_AT_S + 20.0)
    world.heal()
    world.run_until_quiet(QUIET_LIMIT_S)
    world.oracle.check()
    for record in world.oracle.records:
        replayed(record)


def replayed(record: rm.RecoveryRecord) -> None:
    """The verdict of a record, decided anew from what the record holds, is the same to the last word."""
    verdict = record.verdict
    if verdict is None:
        return
    match verdict.source:
        case _ if verdict.source == SOURCE_POLICY:
            wrong = policy_wire.Violations()
            again = policy_wire.view_of(incident_to_proto(record.view, record), wrong, "incident")
            wrong.check()
            assert decide(record.view, VerdictRules()) == verdict
            # and through the record as it is stored for people
            assert verdict_to_proto(decide(again, VerdictRules())) == verdict_to_proto(verdict)
        case _ if verdict.source == SOURCE_DEFAULT:
            given_view = replace(record.view, advice_missing=(POLICY,))
            default = default_verdict(given_view, VerdictRules())
            assert verdict.because.sentence.startswith(default.because.sentence)
            assert replace(verdict, because=default.because) == default
        case "attribution":
            assert verdict.because.code is Reason.NO_RESTART_LATCHED
        case "rendezvous":
            assert verdict.because.code in (Reason.BUDGET_EXHAUSTED, Reason.NO_RESTART_LATCHED)
        case source:
            raise AssertionError(f"nobody replays for {source!r}")
