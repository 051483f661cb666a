"""Real containers, real faults: the job recovers from each, and the record and its trace say what happened."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("testcontainers", reason="testcontainers is not installed: make setup brings it")

from resurge_launcher.views.model import RecoveryView
from resurge_libs.testing import wait_until
from tests.e2e.compose.simulation import NODES, Simulation, why_not

REASON = why_not()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(420),
    pytest.mark.skipif(REASON is not None, reason=f"no Compose simulation here: {REASON}"),
]
CAN_LOSE_PACKETS = os.geteuid() == 0 and shutil.which("nsenter") and shutil.which("iptables")
TOLD = {"detect", "decide", "teardown", "rendezvous", "spawn", "init", "checkpoint_restore", "first_step"}
"""Every phase that a recovery must account for."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulation]:
    simulation = Simulation(Path(tmp_path_factory.mktemp("compose")))
    try:
        simulation.start()
        yield simulation
    except BaseException:
        simulation.print_logs()
        raise
    finally:
        simulation.end()


@pytest.fixture
def simulation(started: Simulation) -> Iterator[Simulation]:
    """Whole at the start of each test, whatever the last one left."""
    wait_until(started.is_whole, 90, "three nodes that train, and a spare")
    try:
        yield started
    finally:
        started.print_logs()


def victim_of(simulation: Simulation) -> str:
    """A node that trains and does not hold rank 0."""
    return max(simulation.active())


def recovered(simulation: Simulation, before: list[RecoveryView], fault: Callable[[], None]) -> RecoveryView:
    """The record of the recovery that the fault leads to."""
    known = {view.incident for view in before}
    fault()

    def fresh() -> RecoveryView | None:
        found = [view for view in simulation.recoveries() if view.incident not in known]
        return found[0] if found else None

    view = wait_until(fresh, 90, "the record of the recovery")
    assert view.outcome == "recovered", view
    assert view.coverage >= 0.95, view.phases
    assert set(view.phases) >= TOLD, view.phases
    assert view.generation_to > view.generation_from
    spans = wait_until(lambda: simulation.trace(view.trace_id), 10, "the trace of the recovery")
    [root] = [span for span in spans if span["parent_span_id"] is None]
    told = root["attributes"]
    assert (root["name"], told["resurge.reason"]) == ("recovery", view.reason), root
    assert told["resurge.culprit"].replace("/", " rank ") == view.culprit, root
    assert {span["parent_span_id"] for span in spans if span is not root} == {root["span_id"]}
    return view


def test_a_killed_rank(simulation: Simulation):
    victim = victim_of(simulation)
    [worker] = simulation.workers(victim)
    view = recovered(simulation, simulation.recoveries(), lambda: simulation.kill_inside(victim, worker))
    assert (view.reason, view.culprit.split()[0]) == ("WORKER_SIGNAL", victim)
    assert view.decided_by == "policy"
    assert view.restored_step


def test_a_killed_launcher_is_replaced_by_the_spare_and_comes_back(simulation: Simulation):
    victim, restarts = victim_of(simulation), simulation.restarts(victim_of(simulation))
    view = recovered(simulation, simulation.recoveries(), lambda: simulation.kill_main(victim))
    assert view.culprit.split()[0] == victim, view
    wait_until(lambda: simulation.restarts(victim) > restarts, 30, "the node's container, started again")
    wait_until(lambda: simulation.standings().get(victim) in ("SPARE", "ACTIVE"), 60, f"the return of {victim}")


def test_a_paused_node_is_replaced_and_comes_back(simulation: Simulation):
    victim = victim_of(simulation)
    try:
        view = recovered(simulation, simulation.recoveries(), simulation.container(victim).pause)
        assert (view.reason, view.culprit.split()[0]) == ("LEASE_EXPIRED", victim), view
        assert victim not in simulation.active()
    finally:
        simulation.container(victim).unpause()
    wait_until(lambda: simulation.standings().get(victim) == "SPARE", 60, f"the return of {victim}")


def test_a_node_without_its_network_is_replaced_and_comes_back(simulation: Simulation):
    victim = victim_of(simulation)
    container, network = simulation.container(victim), simulation.network()
    try:
        view = recovered(simulation, simulation.recoveries(), lambda: network.disconnect(container))
        assert (view.reason, view.culprit.split()[0]) == ("LEASE_EXPIRED", victim), view
    finally:
        network.connect(container, aliases=[victim])
    wait_until(lambda: simulation.standings().get(victim) == "SPARE", 90, f"the return of {victim}")


@pytest.mark.skipif(not CAN_LOSE_PACKETS, reason="losing packets needs root, nsenter and iptables")
def test_a_node_whose_packets_are_lost_one_way_is_replaced_and_comes_back(simulation: Simulation):
    victim = victim_of(simulation)
    try:
        view = recovered(simulation, simulation.recoveries(), lambda: simulation.lose_sent(victim))
        assert (view.reason, view.culprit.split()[0]) == ("LEASE_EXPIRED", victim), view
    finally:
        simulation.lose_sent(victim, heal=True)
    wait_until(lambda: simulation.standings().get(victim) == "SPARE", 60, f"the return of {victim}")


@pytest.mark.parametrize("service", ["restart-policy", "rendezvous", "log-aggregator", "log-leaf"])
def test_a_killed_service_comes_back_and_no_worker_notices(simulation: Simulation, service: str):
    before = {node: simulation.workers(node) for node in NODES}
    known, restarts, generation = len(simulation.recoveries()), simulation.restarts(service), simulation.generation()
    simulation.kill_main(service)
    wait_until(lambda: simulation.has_restarted(service, restarts + 1), 60, f"{service}, started again")
    wait_until(simulation.is_whole, 60, "the job as it was")
    assert {node: simulation.workers(node) for node in NODES} == before
    assert (simulation.generation(), len(simulation.recoveries())) == (generation, known)
    victim = victim_of(simulation)
    [worker] = simulation.workers(victim)
    view = recovered(simulation, simulation.recoveries(), lambda: simulation.kill_inside(victim, worker))
    assert (view.reason, view.decided_by) == ("WORKER_SIGNAL", "policy")


def test_a_rank_killed_while_the_policy_is_down(simulation: Simulation):
    victim = victim_of(simulation)
    [worker] = simulation.workers(victim)
    policy = simulation.container("restart-policy")
    policy.stop(timeout=2)
    try:
        view = recovered(simulation, simulation.recoveries(), lambda: simulation.kill_inside(victim, worker))
        assert (view.reason, view.decided_by) == ("WORKER_SIGNAL", "default")
    finally:
        policy.start()
