"""A leaf's queue: sources to be opened count as text does, so that no message grows beyond what the wire takes."""

from __future__ import annotations

from resurge_api.logs.v1 import logs_pb2
from resurge_log_aggregator.core.model import BlockHead, LogKind, SourceKey
from resurge_log_aggregator.leaf.links import MESSAGE_BYTES, Bounds, Links
from resurge_log_aggregator.leaf.uplink import _message_of

WIRE_MAX = 4 * 1024 * 1024
NODE = "n" * 256
MANY = 60_000
FAR = 2**62


def key(cycle: int) -> SourceKey:
    return SourceKey(LogKind.APPLICATION, 1, cycle, cycle, 0, NODE, 2**40)


def taken(links: Links) -> list[logs_pb2.PushRequest]:
    messages = []
    while part := links.take():
        messages.append(_message_of(part))
    return messages


def test_very_many_sources_go_up_in_messages_that_the_wire_takes():
    links = Links(Bounds(1 << 40, 1 << 40))
    for cycle in range(MANY):
        links.open(key(cycle), 1, None)
    messages = taken(links)
    assert max(message.ByteSize() for message in messages) <= 1.5 * MESSAGE_BYTES < WIRE_MAX
    assert [one.number for message in messages for one in message.open] == list(range(1, MANY + 1))


def test_very_many_blocks_without_text_go_up_in_messages_that_the_wire_takes():
    links = Links(Bounds(1 << 40, 1 << 40))
    links.window_bytes = 1
    links.open(key(0), 1, None)
    links.acknowledged(1, FAR, False, FAR)
    taken(links)
    for _ in range(2 * MANY):
        assert links.put(key(0), BlockHead(FAR, 0, 0, 0, gap_bytes=FAR, gap_lines=FAR), b"")
    messages = taken(links)
    assert max(message.ByteSize() for message in messages) <= 1.5 * MESSAGE_BYTES < WIRE_MAX
    assert sum(len(message.blocks) for message in messages) == 2 * MANY


def test_sources_that_wait_fill_the_queue_and_leave_it_empty():
    links = Links(Bounds(64 * 1024, 1 << 40))
    opened = 0
    while not links.is_full:
        links.open(key(opened), 1, None)
        opened += 1
        assert opened < 1_000, "sources count nothing"
    assert taken(links) and not links.is_full and links._queued_bytes == 0
