"""What a leaf took of a client of NVIDIA's extension is offered to the root until it is durable there."""

from __future__ import annotations

import asyncio

import pytest

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Unimplemented, Unready
from resurge_log_aggregator.core.model import Follows, Repeats, SourceState
from resurge_log_aggregator.core.step import made_durable, place
from resurge_log_aggregator.leaf import nvrx
from resurge_log_aggregator.leaf.nvrx import Client, Shelf
from resurge_log_aggregator.nvrx_lines import Numbers

LIMIT_S = 10
PATH = "/logs/app_cycle0.log"
AWAY = Unready(Because(Reason.LOG_NOT_WRITTEN, "it is away"))


class Root:
    """The uplink and the root behind it: takes blocks by the rules of the core; can be lost, and refuse."""

    def __init__(self) -> None:
        self.states: dict = {}
        self.text: list[bytes] = []
        self.ears: dict = {}
        self.clients: list[Client] = []
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.refuses: dict = {}
        self.forgets_written = False

    async def found(self) -> None:
        await self.is_up.wait()

    async def room(self) -> None: ...

    async def open_source(self, key, world_size, listener) -> None:
        if not self.is_up.is_set():
            raise AWAY
        if key.name in self.refuses:
            listener.refuse(self.refuses[key.name])
            return
        state = self.states.setdefault(key, SourceState(key))
        self.ears[key] = listener
        listener.ack(key, state, go_on_from=state.written)

    def take(self, key, head, text, at) -> None:
        placed = place(self.states[key], head)
        assert isinstance(placed, Follows | Repeats), "it does not follow"
        if isinstance(placed, Follows):
            self.states[key] = placed.after
            self.text.append(text)

    def durable(self) -> None:
        """All that is written is durable now."""
        for key, ear in self.ears.items():
            self.states[key] = made_durable(self.states[key], self.states[key].written, True)
            ear.ack(key, self.states[key])

    def lose(self, client: Client) -> None:
        """It dies with what it had only written."""
        self.is_up.clear()
        self.ears = {}
        self.states = {
            key: SourceState(key, written=one.durable, durable=one.durable) for key, one in self.states.items()
        }
        client.refuse(AWAY)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(nvrx, "AGAIN_S", 0.0)


def chunk(data: bytes, path: str = PATH) -> pb.LogChunk:
    return pb.LogChunk(node_id="n0", data=data, file_path=path)


async def settle(until) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not until():  # noqa: ASYNC110  # the fake answers within the loop
            await asyncio.sleep(0)


async def test_what_was_not_durable_when_the_root_died_is_sent_again_in_its_order():
    root = Root()
    client = Client(root, Shelf(1 << 20), Numbers())
    delivery = asyncio.create_task(client.deliver())
    client.take(chunk(b"0: a\n1: b\n"))
    await settle(lambda: len(root.text) == 2)
    root.durable()
    assert client.held == 0
    client.take(chunk(b"0: c\n1: d\n0: half"))
    await settle(lambda: len(root.text) == 4)
    root.lose(client)
    client.take(chunk(b" a line\n"))
    client.finish()
    await settle(lambda: not delivery.done())
    del root.text[2:]  # what it had not made durable
    root.is_up.set()
    await settle(lambda: all(state.has_ended for state in root.states.values()))
    assert not delivery.done(), "it is kept until the end is durable"
    root.durable()
    await asyncio.wait_for(delivery, LIMIT_S)
    assert b"".join(root.text) == b"0: a\n1: b\n0: c\n1: d\n0: half a line\n"
    assert client.held == 0


async def test_what_is_refused_for_good_does_not_hold_up_the_rest():
    root = Root()
    root.refuses["/outside"] = BadRequest.of("file_path", "is outside")
    client = Client(root, Shelf(1 << 20), Numbers())
    delivery = asyncio.create_task(client.deliver())
    client.take(chunk(b"x\n", "/outside"))
    client.take(chunk(b"0: a\n"))
    client.finish()
    await settle(lambda: root.text == [b"0: a\n", b""])
    assert str(client.problem.result()) == str(root.refuses["/outside"])
    root.durable()
    await asyncio.wait_for(delivery, LIMIT_S)


async def test_what_is_refused_for_now_is_offered_again_and_given_up_by_name_in_the_end(monkeypatch, capsys):
    root = Root()
    root.refuses[PATH] = AWAY
    client = Client(root, Shelf(1 << 20), Numbers())
    delivery = asyncio.create_task(client.deliver())
    client.take(chunk(b"0: a\n"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not client.problem.done() and client.held == 5 + nvrx.KEPT_BYTES
    monkeypatch.setattr(nvrx, "LEFT_LIMIT_S", -1.0)
    client.finish()
    with pytest.raises(Unready):
        await asyncio.wait_for(delivery, LIMIT_S)
    client.let_go()
    assert client.held == 0


async def test_the_time_of_refusals_begins_with_the_clients_end_and_leaves_out_the_roots_absence(monkeypatch):
    class Clock:
        now = 1_000.0
        monotonic = staticmethod(lambda: Clock.now)
        time = staticmethod(lambda: Clock.now)

    monkeypatch.setattr(nvrx, "time", Clock)
    root = Root()
    root.refuses[PATH] = AWAY
    root.is_up.clear()
    client = Client(root, Shelf(1 << 20), Numbers())
    delivery = asyncio.create_task(client.deliver())
    Clock.now += 2 * nvrx.LEFT_LIMIT_S
    client.take(chunk(b"0: a\n"))
    client.finish()
    await asyncio.sleep(0)
    Clock.now += 1.1 * nvrx.LEFT_LIMIT_S
    root.is_up.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert not delivery.done(), "it is refused since now"
    del root.refuses[PATH]
    await settle(lambda: root.text == [b"0: a\n", b""])
    root.durable()
    await asyncio.wait_for(delivery, LIMIT_S)


async def test_short_lines_of_ranks_in_turn_count_with_what_they_take_beside_their_text():
    shelf = Shelf(1 << 20)
    client = Client(Root(), shelf, Numbers())
    client.take(chunk(b"0: a\n1: b\n" * 50))
    assert client.held == shelf.held == 100 * (5 + nvrx.KEPT_BYTES)
    client.let_go()
    assert client.held == shelf.held == 0


async def test_what_an_older_root_cannot_take_is_refused_to_its_client(monkeypatch):
    root = Root()

    async def not_known(key, world_size, listener) -> None:
        raise Unimplemented("the log server is of an older release")

    monkeypatch.setattr(root, "open_source", not_known)
    client = Client(root, Shelf(1 << 20), Numbers())
    delivery = asyncio.create_task(client.deliver())
    client.take(chunk(b"0: a\n"))
    client.finish()
    await asyncio.wait_for(delivery, LIMIT_S)
    assert isinstance(client.problem.result(), Unimplemented) and client.held == 0


async def test_a_client_that_sends_more_than_may_be_kept_is_held_back():
    root = Root()
    shelf = Shelf(1_000)
    first, second = Client(root, shelf, Numbers()), Client(root, shelf, Numbers())
    root.is_up.clear()
    first.take(chunk(b"0: " + b"x" * 996 + b"\n"))

    async def chunks():
        yield chunk(b"0: mine\n")

    reading = asyncio.create_task(second.read(chunks()))
    delivery = asyncio.create_task(first.deliver())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not reading.done() and second.held == 0
    root.is_up.set()
    await settle(lambda: len(root.text) == 1)
    root.durable()
    await asyncio.wait_for(reading, LIMIT_S)
    assert second.held == 8 + nvrx.KEPT_BYTES
    delivery.cancel()


async def test_a_line_that_no_message_can_hold_is_broken_and_a_long_text_cut_between_lines():
    root = Root()
    client = Client(root, Shelf(1 << 30), Numbers())
    delivery = asyncio.create_task(client.deliver())
    lines = [b"0: " + b"x" * 60_000 + b"\n"] * 40
    client.take(chunk(b"".join(lines) + b"0: " + b"y" * (1 << 20) + b"\n"))
    client.finish()
    await settle(lambda: root.states and all(state.has_ended for state in root.states.values()))
    assert all(len(text) <= nvrx.BLOCK_BYTES and (not text or text.endswith(b"\n")) for text in root.text)
    assert b"".join(root.text).startswith(b"".join(lines))
    assert b"".join(root.text).replace(b"\n", b"").endswith(b"0: " + b"y" * (1 << 20))
    root.durable()
    await asyncio.wait_for(delivery, LIMIT_S)


async def test_names_that_cannot_be_are_refused_before_they_reach_the_root():
    client = Client(Root(), Shelf(1 << 20), Numbers())
    for wrong in (
        pb.LogChunk(node_id="n" * 300, file_path=PATH),
        pb.LogChunk(node_id="n", file_path="/" + "x" * 5_000),
    ):
        with pytest.raises(BadRequest):
            client.take(wrong)
