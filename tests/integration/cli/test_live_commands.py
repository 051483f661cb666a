"""The reading commands and the operator's orders against a real gRPC server on a Unix socket."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_api.rendezvous.v1 import attach_pb2, drain_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_launcher.cli import main
from resurge_libs.rpc.records import append_recovery
from tests.recovery_sample import all_three


class Rendezvous(rendezvous_pb2_grpc.RendezvousServiceServicer):
    def __init__(self):
        self.asked = []
        self.earlier = 0
        self.phase = rendezvous_pb2.JOB_PHASE_RUNNING

    def GetJob(self, request, context):
        return rendezvous_pb2.GetJobResponse(
            job=rendezvous_pb2.Job(spec=attach_pb2.JobSpec(job_id="live"), phase=self.phase)
        )

    def ListRecoveries(self, request, context):
        return rendezvous_pb2.ListRecoveriesResponse(recoveries=all_three()[self.earlier :], earlier=self.earlier)

    def ExcludeNode(self, request, context):
        self.asked.append(request)
        node = rendezvous_pb2.Node(node_id=request.node_id, standing=rendezvous_pb2.NODE_STANDING_EXCLUDED)
        node.exclusion.because.sentence, node.exclusion.by = request.reason, request.by
        node.exclusion.until.FromSeconds(1_700_000_000)
        return rendezvous_pb2.ExcludeNodeResponse(node=node, warning="1 nodes are left of the 2 that must run")

    def ReadmitNode(self, request, context):
        self.asked.append(request)
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such node")

    def RequestShutdown(self, request, context):
        self.asked.append(request)
        decision = rendezvous_pb2.TerminalDecision(because=ids_pb2.Because(code="SHUTDOWN_REQUESTED", sentence="bye"))
        return rendezvous_pb2.RequestShutdownResponse(decision=decision)

    def Drain(self, request, context):
        return drain_pb2.DrainResponse(because=ids_pb2.Because(code="DRAINED", sentence="ranks save"))


class Policy(policy_pb2_grpc.RestartPolicyServiceServicer):
    def Explain(self, request, context):
        rule = policy_pb2.RuleOutcome(rule="the_rule", decided=True, because=ids_pb2.Because(sentence="said so"))
        return policy_pb2.ExplainResponse(incident=request.incident, rules=[rule])


@pytest.fixture
def service(tmp_path):
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    rendezvous = Rendezvous()
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(rendezvous, server)
    policy_pb2_grpc.add_RestartPolicyServiceServicer_to_server(Policy(), server)
    server.add_insecure_port(f"unix:{tmp_path}/c.sock")
    server.start()
    (tmp_path / "control.json").write_text(json.dumps({"pid": 1, "endpoint": f"unix:{tmp_path}/c.sock", "targets": []}))
    yield rendezvous
    server.stop(grace=None).wait()


def told(capsys, tmp_path, *words):
    code = main([*words, "--state-dir", str(tmp_path)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_announced_control_plane_is_asked(capsys, tmp_path, service):
    assert "live" in told(capsys, tmp_path, "status")[1]
    assert "3 recoveries" in told(capsys, tmp_path, "recoveries")[1]
    code = main(["status", "--endpoint", f"unix:{tmp_path}/c.sock"])
    assert code == 0
    assert "live" in capsys.readouterr().out


def test_what_the_control_plane_remembers_no_longer_is_shown_from_its_files(capsys, tmp_path, service):
    service.earlier = 2
    append_recovery(tmp_path, all_three()[1])
    _, out, err = told(capsys, tmp_path, "recoveries", "--json")
    assert [row["incident"] for row in json.loads(out)] == ["inc-2", "inc-3"]
    assert err == "resurge: 1 earlier recovery is not shown: only the newest are kept\n"
    main(["recoveries", "--endpoint", f"unix:{tmp_path}/c.sock", "--json"])
    out, err = capsys.readouterr()
    assert [row["incident"] for row in json.loads(out)] == ["inc-3"]
    assert err.startswith("resurge: 2 earlier recoveries are not shown") and "--state-dir" in err
    assert "inc-2" in told(capsys, tmp_path, "explain", "inc-2")[1]


def test_policy_explains_where_it_answers(capsys, tmp_path, service):
    out = told(capsys, tmp_path, "explain", "inc-1")[1]
    assert "the restart policy" in out
    assert "=> the_rule  said so" in out


def test_orders_carry_a_request_id_and_a_reason(capsys, tmp_path, service):
    code, out, err = told(capsys, tmp_path, "exclude", "n1", "--for", "10m", "--reason", "fans are loud")
    assert code == 0
    assert "excluded" in out
    order = service.asked[0]
    assert (order.node_id, order.reason, order.lasts.seconds) == ("n1", "fans are loud", 600)
    assert "fans are loud" in out and "2023-11-14 22:13:20 UTC" in out and order.by in out
    assert err == "resurge: warning: 1 nodes are left of the 2 that must run\n"
    assert order.request_id and "@" in order.by
    code, out, _ = told(capsys, tmp_path, "shutdown", "--reason", "maintenance")
    assert code == 0
    assert "SHUTDOWN_REQUESTED: bye" in out
    assert service.asked[1].reason == "maintenance"


def test_a_refusal_is_one_line_and_ends_with_1(capsys, tmp_path, service):
    code, _, err = told(capsys, tmp_path, "readmit", "n9")
    assert code == 1
    assert "no such node" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("order", ["shutdown", "drain"])
def test_an_order_to_a_job_that_is_over_says_that_it_did_nothing(capsys, tmp_path, service, order):
    nothing = "The job had ended already, and nothing was done: "
    code, out, _ = told(capsys, tmp_path, order)
    assert code == 0 and nothing not in out
    service.phase = rendezvous_pb2.JOB_PHASE_ENDED
    code, out, _ = told(capsys, tmp_path, order)
    assert code == 0 and out.startswith(nothing)
