"""Exclusions hold for machines, over every restart; verdicts are weighed, operators obeyed; offences are remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.ids import NodeId, RequestId
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import VerdictKind
from resurge_rendezvous.core import model as m
from resurge_rendezvous.core.exclusions import offence_counts, offences_of
from resurge_rendezvous.core.facts import NodeExcluded, NodeReadmitted, OffenceNoted, Terminated, WouldExclude
from resurge_rendezvous.core.identity import Identity, same_machine
from resurge_rendezvous.core.views import job_view
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started


def machine(node: str = "n0", host: str = "h", machine_id: str = "", given: bool = False, boot: str = "") -> Identity:
    return Identity(NodeId(node), host, machine_id, given, boot)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # a given id alone decides
        (machine(machine_id="a", given=True, boot="b"), machine(machine_id="a", given=True, boot="c", host="x"), True),
        (machine(machine_id="a", given=True, boot="b"), machine(machine_id="b", given=True, boot="b"), False),
        (machine(machine_id="a", given=True, boot="b"), machine(machine_id="b", boot="b"), False),
        # containers of one kernel, whatever they are called
        (machine(machine_id="a", boot="b"), machine("n1", "other", "c", boot="b"), True),
        # the same machine after a reboot
        (machine(machine_id="a", boot="b"), machine("n1", machine_id="a", boot="c"), True),
        # a new machine with an old name
        (machine(machine_id="a", boot="b"), machine(machine_id="c", boot="c"), False),
        # ids that came with a disk image
        (machine("n0", "h0", "a", boot="b"), machine("n1", "h1", "a", boot="c"), False),
        # nobody knows an id
        (machine("n0", "h"), machine("n1", "h"), True),
        (machine("n0", "h", "a"), machine("n0", "h1"), False),
        (machine("n0", ""), machine("n0", "h"), True),
        (machine("n0", ""), machine("n1", ""), False),
    ],
)
def test_what_is_one_machine(one: Identity, other: Identity, same: bool):
    assert same_machine(one, other) is same
    assert same_machine(other, one) is same


def exclude(d: Desk, node: str, lasts_s: float | None = None, request: str = "") -> m.OrderTaken:
    d.ask(m.ExcludeAsked(d.stamp(), RequestId(request or f"r{d.ids}"), NodeId(node), "fans", lasts_s, "ann@desk"))
    return d.replies[-1]


def readmit(d: Desk, node: str):
    d.ask(m.ReadmitAsked(d.stamp(), RequestId(f"r{d.ids}"), NodeId(node), "ann@desk"))


def excluding(*nodes: str):
    because = Because(Reason.REPEAT_OFFENDER, "3 faults began on it")
    return replace(RESTART, kind=VerdictKind.RESTART_EXCLUDING, because=because, excluded=frozenset(map(NodeId, nodes)))


def members(d: Desk) -> list[str]:
    return [place.node for place in d.job.last_formation.assignments]


def standings(d: Desk) -> dict[str, str]:
    return {node.node: node.standing.value for node in job_view(d.state).nodes}


def fault(d: Desk, node: str, verdict=RESTART, *down: str):
    """A worker of a node dies, all are down, the verdict comes."""
    d.crash(node)
    d.verdict(verdict)
    for name in down or members(d):
        if d.told(name).startswith("DOWN"):
            d.down(name)


# --- by identity


def out_of(d: Desk, *nodes: str) -> bool:
    entries = [d.state.durable.nodes.get(NodeId(node)) for node in nodes]
    return all(entry is not None and entry.exclusion is not None for entry in entries)


def test_another_name_on_an_excluded_machine_is_excluded_too():
    d = started(Desk(spec(max_nodes=4)), "n2")
    exclude(d, "n1")
    d.hello("n9", boot_id="boot-n1", host="container-7")
    d.ready("n9")
    assert standings(d)["n9"] == "EXCLUDED"
    assert d.told("n9") == "PARK" and d.goals["n9"].because.code is Reason.EXCLUDED
    fault(d, "n1")
    assert members(d) == ["n0", "n2"]


@pytest.mark.parametrize("first", ["n1", "n9"])
def test_nodes_that_a_boot_id_joined_stay_out_together_when_their_machine_comes_back_with_another(first: str):
    d = Desk(spec(max_nodes=4))
    for node in ("n0", "n1", "n2"):
        d.hello(node, machine_id=f"m-{node}")
        d.ready(node)
    d.proven("n0", "n1")
    d.hello("n9", boot_id="boot-n1", machine_id="m-n1", host="container-7")
    d.ready("n9")
    exclude(d, "n1")
    d.close("n1")
    d.close("n9")
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0", "n2"))
    others = {"n1": ("n1", "n1"), "n9": ("n9", "container-7")}
    for node, host in sorted(others.values(), key=lambda one: one[0] != first):
        d.hello(node, incarnation=2, boot_id="boot-later", machine_id="m-n1", host=host)
        d.ready(node)
    assert out_of(d, "n1", "n9")
    d.hello("n8", boot_id="boot-later", machine_id="m-n1", host="container-8")
    d.ready("n8")
    assert out_of(d, "n1", "n8", "n9")
    readmit(d, "n1")
    assert job_view(d.state).exclusions == ()
    assert not any(out_of(d, node) for node in ("n1", "n8", "n9"))


def test_a_node_that_comes_back_on_new_hardware_is_free_and_its_old_machine_stays_out():
    d = started(None, "n2")
    exclude(d, "n1")
    fault(d, "n1")
    assert members(d) == ["n0", "n2"]
    d.close("n1")
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0", "n2"))
    d.hello("n1", incarnation=2, boot_id="boot-new", machine_id="new")
    d.ready("n1")
    # without a machine id on the old side the host name says that it is the same
    assert standings(d)["n1"] == "EXCLUDED"
    readmit(d, "n1")
    assert standings(d)["n1"] == "SPARE"


def test_hardware_that_says_who_it_is_is_told_apart_under_one_name():
    d = Desk()
    for number, node in enumerate(("n0", "n1", "n2")):
        d.hello(node, infra_rank=number, machine_id=f"m{number}")
        d.ready(node)
    d.proven("n0", "n1")
    exclude(d, "n1")
    fault(d, "n1")
    d.close("n1")
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0", "n2"))
    d.hello("n1", incarnation=2, boot_id="boot-new", machine_id="m9")
    d.ready("n1")
    assert standings(d)["n1"] == "SPARE"
    (out,) = job_view(d.state).exclusions
    assert (out.identity.machine_id, out.identity.node) == ("m1", "n1")
    d.hello("n5", machine_id="m1", host="n1", boot_id="boot-later")
    d.ready("n5")
    assert standings(d)["n5"] == "EXCLUDED"
    readmit(d, "n1")  # under the name it was excluded by
    assert (standings(d)["n5"], job_view(d.state).exclusions) == ("SPARE", ())


def test_a_verdict_about_a_machine_does_not_meet_its_replacement():
    d = Desk()
    for number, node in enumerate(("n0", "n1", "n2")):
        d.hello(node, infra_rank=number, machine_id=f"m{number}")
        d.ready(node)
    d.proven("n0", "n1")
    d.crash("n1")
    d.close("n1")
    d.wait(d.limits.resume_window_s + 0.1, ("n0", "n2"))
    d.hello("n1", incarnation=2, boot_id="boot-new", machine_id="m9")
    d.verdict(excluding("n1"))
    d.down("n0")
    d.ready("n1")
    assert [fact.identity.machine_id for fact in d.facts_of(NodeExcluded)] == ["m1"]
    assert standings(d)["n1"] != "EXCLUDED"
    assert [fact.offence.identity.machine_id for fact in d.facts_of(OffenceNoted)] == ["m1"]


# --- durable


def test_an_exclusion_outlives_launcher_and_service_and_ends_when_it_should():
    d = started(None, "n2")
    exclude(d, "n1", lasts_s=60.0)
    d.restart_service()
    for node in ("n0", "n1", "n2"):
        d.hello(node, incarnation=2 if node == "n1" else 1)
    d.ready("n2")
    entry = d.job.nodes.get("n1")
    assert entry.exclusion.because == Because(Reason.EXCLUDED, "fans")
    assert (entry.exclusion.by, entry.exclusion.is_automatic) == ("ann@desk", False)
    d.wait(61.0, ("n0", "n1", "n2"))
    (over,) = d.facts_of(NodeReadmitted)
    assert over.because.sentence == "the exclusion of n1 is over"
    assert d.job.nodes.get("n1").exclusion is None and d.job.exclusions == ()


def test_the_same_order_twice_has_one_answer_and_a_later_one_replaces_it():
    d = started(None, "n2")
    first = exclude(d, "n2", 60.0, "same")
    assert exclude(d, "n2", 60.0, "same") == first
    assert len(d.facts_of(NodeExcluded)) == 1
    exclude(d, "n2")
    assert [one.exclusion.until for one in d.job.exclusions] == [None]


# --- operators


def test_an_operator_is_warned_and_obeyed():
    d = started(None, "n2")
    assert exclude(d, "n2").warning == ""
    warning = exclude(d, "n1").warning
    assert "1 nodes are left of the 2 that must run" in warning
    assert standings(d)["n1"] == "ACTIVE", "what runs goes on"


def test_an_operator_is_told_of_other_nodes_on_the_machine():
    d = started(Desk(spec(max_nodes=4)), "n2", "n3")
    d.hello("n9", boot_id="boot-n3")
    d.ready("n9")
    assert "n9 on the same machine is out with it" in exclude(d, "n3").warning


# --- verdicts are weighed


def test_a_verdict_excludes_and_a_spare_fills_in():
    d = started(None, "n2")
    fault(d, "n1", excluding("n1"))
    assert members(d) == ["n0", "n2"]
    (fact,) = d.facts_of(NodeExcluded)
    assert (fact.exclusion.by, fact.exclusion.is_automatic) == ("policy", True)


def test_a_node_without_which_no_round_could_form_is_kept():
    d = started()
    fault(d, "n1", excluding("n1"))
    assert members(d) == ["n0", "n1"]
    (kept,) = d.facts_of(WouldExclude)
    assert kept.because.sentence == "without n1 only 1 of 2 nodes are left: 3 faults began on it"
    assert job_view(d.state).nodes[1].would_exclude == kept.because


def test_too_few_whole_segments_are_too_few_nodes():
    d = Desk(spec(min_nodes=2, max_nodes=4, segment=2))
    for number, (node, domain) in enumerate((("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "c"))):
        d.hello(node, infra_rank=number, domain=domain)
        d.ready(node)
    d.proven("n0", "n1")
    fault(d, "n1", excluding("n1"))
    assert members(d) == ["n0", "n1"]
    assert "without n1 only 3 of 2 nodes" in d.facts_of(WouldExclude)[0].because.sentence


def crowd(share: float = 0.2, window_s: float = 600.0) -> Desk:
    d = Desk(spec(min_nodes=2, max_nodes=10, max_restarts=50, max_excluded_share=share, exclusion_window_s=window_s))
    d.join(*(f"n{number}" for number in range(10)))
    d.proven("n0", "n1")
    return d


def test_the_circuit_breaker_holds_for_verdicts_and_lets_go_after_its_window():
    d = crowd()
    for node in ("n0", "n1", "n2"):
        fault(d, node, excluding(node))
        d.proven(*members(d))
    assert [fact.node for fact in d.facts_of(NodeExcluded)] == ["n0", "n1"], "a fifth of ten nodes"
    (kept,) = d.facts_of(WouldExclude)
    assert (kept.node, kept.because.code) == ("n2", Reason.WOULD_EXCLUDE)
    assert kept.because.sentence.startswith(
        "the circuit breaker holds: verdicts excluded 2 machines within 600 s, and a share of 0.2 of the nodes allows 2"
    )
    assert "the circuit breaker holds" in exclude(d, "n9").warning, "an operator's order holds all the same"
    assert standings(d)["n9"] == "EXCLUDED"
    d.wait(601.0, tuple(f"n{number}" for number in range(10)))
    fault(d, "n2", excluding("n2"))
    assert standings(d)["n2"] == "EXCLUDED"


def test_a_verdict_that_names_too_many_excludes_none():
    d = crowd()
    fault(d, "n0", excluding("n0", "n1", "n2"))
    assert d.facts_of(NodeExcluded) == []
    assert {fact.node for fact in d.facts_of(WouldExclude)} == {"n0", "n1", "n2"}


def test_a_machine_that_is_out_already_is_not_excluded_again_and_takes_no_room():
    d = crowd(0.1)
    exclude(d, "n2")
    fault(d, "n0", excluding("n0", "n2"))
    assert [fact.node for fact in d.facts_of(NodeExcluded)] == ["n2", "n0"], "a tenth of ten nodes, and that is n0"
    assert d.facts_of(WouldExclude) == []


def test_two_nodes_on_one_machine_are_one_machine_to_a_verdict():
    d = crowd(0.1)
    d.hello("n10", boot_id="boot-n0", host="container-7", infra_rank=10)
    d.ready("n10")
    fault(d, "n0", excluding("n0", "n10"))
    assert [fact.node for fact in d.facts_of(NodeExcluded)] == ["n0"] and d.facts_of(WouldExclude) == []
    assert (standings(d)["n0"], standings(d)["n10"]) == ("EXCLUDED", "EXCLUDED")


@pytest.mark.parametrize(("share", "excluded"), [(0.0, 0), (0.01, 1), (1.0, 1)])
def test_a_small_share_allows_one_and_none_allows_none(share: float, excluded: int):
    d = crowd(share)
    fault(d, "n0", excluding("n0"))
    assert len(d.facts_of(NodeExcluded)) == excluded


def test_the_breaker_counts_over_a_restart_of_the_service_and_after_readmission():
    d = crowd(0.1)
    fault(d, "n0", excluding("n0"))
    readmit(d, "n0")
    d.proven(*members(d))
    d.restart_service()
    for node in (f"n{number}" for number in range(10)):
        d.hello(node, infra_rank=int(node[1:]))
        d.ready(node) if node not in members(d) else d.running(node)
    node = members(d)[0]
    fault(d, node, excluding(node))
    assert len(d.facts_of(NodeExcluded)) == 1


def test_the_nearest_spare_fills_in_for_an_excluded_node():
    d = Desk(spec(max_nodes=4))
    for number, (node, domain) in enumerate((("n0", "b1.r1"), ("n1", "b2.r1"), ("n2", "b1.r2"), ("n3", "b2.r9"))):
        d.hello(node, infra_rank=number, domain=domain)
        d.ready(node)
    d.proven("n0", "n1")
    fault(d, "n1", excluding("n1"))
    assert members(d) == ["n0", "n3"]


# --- offences


def test_faults_are_held_against_the_machine_on_which_they_began():
    d = started(None, "n2")
    for _ in range(2):
        fault(d, "n1")
        d.proven(*members(d))
    d.crash("n1")
    culprit = d.asked[-1].view.culprit
    assert (culprit.node, culprit.code, culprit.nodes_left, culprit.is_enough) == ("n1", Reason.WORKER_SIGNAL, 2, True)
    assert [(one.generation, one.elsewhere) for one in culprit.offences] == [(1, False), (2, False)]
    assert {node.node: node.offences for node in job_view(d.state).nodes} == {"n0": 0, "n1": 2, "n2": 0}


def test_an_offence_counts_in_a_new_attempt_and_under_a_new_name():
    d = started(Desk(spec(max_nodes=4)), "n2")
    fault(d, "n1")
    d.hello("n8", boot_id="boot-n1")
    assert {node.node: node.offences for node in job_view(d.state).nodes}["n8"] == 1


def test_counting_for_all_nodes_at_once_finds_the_same_as_looking_one_by_one():
    d = started(Desk(spec(max_nodes=6)), "n2")
    for _ in range(2):
        fault(d, "n1")
        d.proven(*members(d))
    fault(d, "n0")
    d.hello("n8", boot_id="boot-n1", host="elsewhere")
    d.hello("n9", boot_id="boot-n9", host="n0")
    counts = offence_counts(d.job)
    assert counts == {"n0": 1, "n1": 2, "n8": 2, "n9": 1}
    assert all(counts.get(entry.node, 0) == len(offences_of(d.job, entry.identity)) for entry in d.job.nodes)


# --- too few nodes


def test_too_few_nodes_wait_and_a_readmission_ends_the_wait():
    d = started()
    exclude(d, "n1")
    fault(d, "n1")
    d.wait(d.limits.quorum_wait_s - 1.0, ("n0", "n1"))
    assert d.stage == "Fenced"
    readmit(d, "n1")
    assert members(d) == ["n0", "n1"] and d.stage == "Proving"


def test_too_few_nodes_for_too_long_end_with_a_name_on_every_launcher():
    d = started()
    exclude(d, "n1")
    fault(d, "n1")
    d.wait(d.limits.quorum_wait_s + 1.0, ("n0", "n1"))
    (end,) = d.facts_of(Terminated)
    assert (end.decision.exit_code, end.decision.cause.value) == (1, "too_few_nodes")
    assert (d.told("n0"), d.told("n1")) == ("EXIT 1", "EXIT 1")
