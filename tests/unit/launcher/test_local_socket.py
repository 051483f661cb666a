"""What the launcher orders its workers by their sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge.frames import Hello, Listen, Mustered, Over, Speaker, encode
from resurge.orders import Order, OrderDecoder
from resurge_launcher.core.muster_state import MusterHeard
from resurge_launcher.core.worker_news import OrderAbort, ScriptOver
from resurge_launcher.local_socket import LocalSocket, _event_of
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.testing import wait_until_async

G1 = Generation(1)


@pytest.fixture
def line() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        yield made


async def ordered(tmp_path: Path, line: socket.socket, order: OrderAbort) -> Order:
    async def carry(wish: object) -> None:
        raise AssertionError("nobody wishes anything")

    heard: list[int] = []
    server = LocalSocket(tmp_path / "s.sock", heard.append, carry)  # type: ignore[arg-type]
    await server.start()
    speaker = Speaker(os.getpid(), 0, G1)
    line.connect(str(server.path))
    line.sendall(encode(Hello(speaker)) + encode(Listen(speaker)))
    line.setblocking(False)
    decoder, found = OrderDecoder(), list[Order]()

    def came() -> list[Order]:
        if heard:  # the frame after it is taken with it
            server.order(order)
        with contextlib.suppress(BlockingIOError):
            found.extend(decoder.feed(line.recv(4096)))
        return found

    await wait_until_async(came, 10, "an order")
    await server.stop()
    return found[0]


async def test_an_order_for_a_phase_says_until_when_it_is_worth_obeying(tmp_path: Path, line: socket.socket):
    before = time.monotonic_ns()
    order = await ordered(tmp_path, line, OrderAbort(G1, 0.75, "the guard of rank 3 fired", "step"))
    assert (order.phase, order.left_ms, order.sentence) == ("step", 750, "the guard of rank 3 fired")
    assert before + 750 * 10**6 <= order.until_ns <= time.monotonic_ns() + 750 * 10**6


async def test_an_order_that_ends_a_generation_is_never_too_late(tmp_path: Path, line: socket.socket):
    order = await ordered(tmp_path, line, OrderAbort(G1, 0.0, "rank 3 has died"))
    assert (order.phase, order.until_ns) == ("", 0), "whoever hears it is ended in any case"


@pytest.mark.parametrize("spans_nodes", [True, False])
def test_what_a_rank_that_restarts_in_place_says_is_taken_whole(spans_nodes: bool):
    said = Mustered(Speaker(1, 2, 3), "join", 4, "why", 5, 6_000, spans_nodes)
    heard = MusterHeard(Generation(3), Rank(2), "join", 4, "why", 5, 6.0, spans_nodes, pid=1)
    assert _event_of(said) == heard


def test_the_end_of_a_script_is_taken_as_that_of_its_rank():
    assert _event_of(Over(Speaker(1, 2, 3))) == ScriptOver(Generation(3), Rank(2), 1)
