"""The c10d store of a generation as a process of its own: offered when it answers, ends last, is replaced when lost."""

from __future__ import annotations

import os
import socket

import pytest

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_launcher.processes import kernel
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import is_alive, kill
from tests.integration.launcher.launching import PREAMBLE, Launched

pytestmark = pytest.mark.integration
# a torch whose import is quick; its store answers every connection with the process that serves it
TORCH = """
import types
def initial_seed(): return 0
default_generator = types.SimpleNamespace(seed=lambda: None)
"""
STORE = """
import os, socket, threading
class TCPStore:
    def __init__(self, host, port, *, is_master, wait_for_workers, master_listen_fd):
        self.listening = socket.socket(fileno=master_listen_fd)
        assert is_master and not wait_for_workers and self.listening.getsockname()[1] == port
        threading.Thread(target=self.serve, daemon=True).start()
    def serve(self):
        while True:
            with self.listening.accept()[0] as peer:
                peer.sendall(b"%d" % os.getpid())
"""
FOREVER = (
    PREAMBLE
    + "said('agent-' + me, os.environ['TORCHELASTIC_USE_AGENT_STORE'])\nsaid('pid-' + me, os.getpid())\n"
    + "threading.Event().wait()\n"
)


def with_torch(launched: Launched, distributed: str = STORE) -> None:
    for name, text in (("torch", TORCH), ("torch/distributed", distributed)):
        (launched.folder / name).mkdir()
        (launched.folder / name / "__init__.py").write_text(text)


def serving_pid(offer: attach_pb2.StoreOffer) -> int:
    with socket.create_connection((offer.address, offer.port), 5) as peer:
        peer.settimeout(5)
        return int(peer.recv(64))


@pytest.mark.users_row(1)
async def test_the_store_is_a_child_of_the_launcher_and_outlasts_its_generation(launched: Launched):
    with_torch(launched)
    launched.start(FOREVER, "--warm", "on", workers=2)
    pids = await launched.running(workers=2)
    first = launched.rendezvous.told.store_offer
    store = serving_pid(first)
    assert first.is_served and (launched.folder / "agent-1-0").read_text() == "True\n"
    stat = kernel.stat_of(store)
    assert stat is not None and stat.parent == launched.pid and os.getsid(store) == store
    kill(pids[0])
    told = await launched.rendezvous.until("READY", 1)
    assert told.store_offer != first, "the last offer is spent"
    await wait_until_async(lambda: launched.rendezvous.told.store_offer.port, 10, "another offer")
    told = launched.rendezvous.told
    assert told.store_offer.is_served and serving_pid(told.store_offer) != store
    await wait_until_async(lambda: not is_alive(store), 5, "the end of the older store")
    launched.rendezvous.want_run(2, 2)
    await launched.rendezvous.until("RUNNING", 2)
    await launched.pids(2, 2)
    second = serving_pid(told.store_offer)
    kill(launched.pid)
    await wait_until_async(lambda: not is_alive(second), 5, "the store's end with the launcher")


async def test_a_store_that_is_lost_stops_no_worker_and_the_next_has_its_own(launched: Launched):
    with_torch(launched)
    launched.start(FOREVER, "--warm", "on", workers=2)
    pids = await launched.running(workers=2)
    first = launched.rendezvous.told.store_offer
    kill(serving_pid(first))
    await wait_until_async(lambda: launched.rendezvous.told.store_offer.port != first.port, 10, "another offer")
    assert serving_pid(launched.rendezvous.told.store_offer)
    assert "store_ended" in launched.output()
    assert all(is_alive(pid) for pid in pids)
    kill(pids[1])
    await launched.rendezvous.until("READY", 1)
    await wait_until_async(lambda: launched.rendezvous.told.store_offer.is_served, 10, "another offer")
    assert serving_pid(launched.rendezvous.told.store_offer)


@pytest.mark.parametrize(
    "distributed",
    ["", "class TCPStore:\n    def __init__(self, *_, **__):\n        raise OSError('no store today')\n"],
    ids=["none", "refuses"],
)
async def test_without_a_store_a_held_port_is_offered(launched: Launched, distributed: str):
    with_torch(launched, distributed)
    launched.start(FOREVER, "--warm", "on", workers=2)
    await launched.running(workers=2)
    offer = launched.rendezvous.told.store_offer
    assert offer.port and not offer.is_served
    assert "store_not_served" in launched.output()
    assert (launched.folder / "agent-1-1").read_text() == "False\n"
    with socket.socket() as rank0:
        rank0.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rank0.bind(("0.0.0.0", offer.port))
        rank0.listen()


async def test_a_cold_launcher_offers_a_held_port_at_once(launched: Launched):
    launched.start(FOREVER)
    await launched.running()
    assert not launched.rendezvous.told.store_offer.is_served
    assert (launched.folder / "agent-1-0").read_text() == "False\n"
