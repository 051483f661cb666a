"""The services without a launcher: what is imported when, what a fork does to a call, and what cannot be asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent import futures

import grpc
import pytest

from resurge import direct
from resurge.direct import CallFailed, Services, Where
from resurge.environment import WorkerEnvironment, read_environment
from resurge.worker_session import Session
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc


class Rendezvous(rendezvous_pb2_grpc.RendezvousServiceServicer):
    """Holds the first call until it is let go; remembers what it was told beside the calls."""

    def __init__(self, holds: bool = False) -> None:
        self.held, self.go_on = threading.Event(), threading.Event()
        self.calls, self.holds, self.metadata = 0, holds, {}

    def GetJob(self, request, context):
        self.calls += 1
        self.metadata = dict(context.invocation_metadata())
        if self.holds and self.calls == 1:
            self.held.set()
            self.go_on.wait(30)
        return pb.GetJobResponse(job=pb.Job(phase=pb.JOB_PHASE_RUNNING, restarts_spent=2))


@pytest.fixture
def served(tmp_path_factory):
    servers = []

    def serve(holds: bool = False):
        said, server = Rendezvous(holds), grpc.server(futures.ThreadPoolExecutor(4))
        rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(said, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append((said, server))
        return said, f"127.0.0.1:{port}"

    yield serve
    for said, server in servers:
        said.go_on.set()
        server.stop(0).wait(10)


def test_the_job_is_asked_with_the_secret_and_the_trace(served):
    said, endpoint = served()
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    with Services(Where(endpoint, "job", token="secret", traceparent=trace)) as services:
        assert (services.job().phase, services.job().restarts_spent) == ("running", 2)
    assert (said.metadata["x-resurge-job-token"], said.metadata["traceparent"]) == ("secret", trace)
    assert "secret" not in repr(services._where)


def test_what_cannot_be_sent_is_told_at_once_and_not_tried_again(monkeypatch):
    tries = []

    class Stub:
        def __init__(self, channel):
            pass

        def GetJob(self, request, **how):
            tries.append(request)
            raise ValueError("no such option")

    monkeypatch.setitem(direct._api().stubs, "RendezvousService", Stub)
    with Services(Where("127.0.0.1:1", "job")) as services:
        with pytest.raises(CallFailed, match="INVALID_ARGUMENT: no such option") as caught:
            services.job(wait=1)
        assert caught.value.definite and services.stop_restarting("nan", wait=1).delivered
    assert len(tries) == 2


def test_a_call_that_a_fork_cuts_short_is_made_again(served):
    said, endpoint = served(holds=True)
    phases = []
    with Services(Where(endpoint, "job")) as services:
        asking = threading.Thread(target=lambda: phases.append(services.job(wait=30).phase))
        asking.start()
        assert said.held.wait(20)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        asking.join(20)
        assert phases == ["running"] and said.calls == 2


def test_no_channel_is_open_in_a_forked_child_and_it_asks_nobody(served):
    _, endpoint = served()
    with Services(Where(endpoint, "job")) as services:
        services.job()
        assert services._lines
        child = os.fork()
        if child == 0:
            is_silent = not services._lines and not services.stop_restarting("nan").delivered
            services.hang_up()
            try:
                services.job()
            except CallFailed as failed:
                os._exit(0 if is_silent and failed.code == "FORKED" else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert services.job().phase == "running", "the next call opens another channel"


CLOSED_WHILE_MADE = """
import sys, threading
from resurge import direct

real = direct._api().stubs["RendezvousService"]
closing, services = [], direct.Services(direct.Where(sys.argv[1], "job"))

def made_while_another_thread_hangs_up(channel):
    if not closing:
        closing.append(threading.Thread(target=services.hang_up))
        closing[0].start()
        closing[0].join(0.5)
    return real(channel)

direct._api().stubs["RendezvousService"] = made_while_another_thread_hangs_up
assert services.job(wait=30).phase == "running"
closing[0].join(10)
print("the same call, made again")
"""


def test_a_channel_is_not_closed_while_its_stub_is_being_made(served):
    _, endpoint = served()
    command = [sys.executable, "-X", "faulthandler", "-c", CLOSED_WHILE_MADE, endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the same call, made again\n"), done.stderr


def test_what_the_environment_says():
    told = read_environment(
        {"RESURGE_ENDPOINT": "c:1", "RESURGE_POLICY_ENDPOINT": "p:2", "RESURGE_JOB_ID": "j", "RESURGE_NODE_ID": "n",
         "RESURGE_JOB_TOKEN": "t", "RANK": "3", "RESURGE_GENERATION": "7"}
    )  # fmt: skip
    assert Where.of(told) == Where("c:1", "j", "p:2", "n", 3, 7, "t")
    assert "'t'" not in repr(told)


def test_a_session_that_has_a_launcher_or_knows_nobody_asks_nobody_directly():
    assert not Session(WorkerEnvironment()).stop_restarting("nan").delivered
    lost = Session(WorkerEnvironment(page="/nonexistent", endpoint="127.0.0.1:1"))
    assert lost.stop_restarting("nan").sentence == "no launcher is there to be asked"


def test_grpc_is_imported_by_the_first_call_and_its_want_is_an_answer():
    program = (
        "import sys, resurge.direct as d; assert not {'grpc', 'google'} & set(sys.modules);"
        "sys.modules['grpc'] = None; s = d.Services(d.Where('127.0.0.1:1', 'job'));"
        "print(s.stop_restarting('nan').sentence);"
        "s.job()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install 'resurge[grpc]'" in done.stdout, "who asks for the end is not stopped by an error of ours"
    assert "ImportError: resurge.direct needs gRPC" in done.stderr
