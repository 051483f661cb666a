"""Texts that are no UTF-8, as paths may be: they cost nobody anything, on whatever way they come."""

from __future__ import annotations

import asyncio
import json
import os
import time

from resurge.control import WorkloadAction, ask
from resurge.frames import ControlAnswer, Event, Speaker, decode
from resurge_launcher.local_socket import LocalSocket
from resurge_launcher.team import read_error
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.rpc.errors import because_to_proto

BAD = os.fsdecode(b"/data/shard-\xff.bin")
GOOD = "/data/shard-?.bin"


def test_a_reason_on_the_wire_holds_no_half_characters():
    assert because_to_proto(Because(Reason.WORKER_EXIT, f"cannot read {BAD}")).sentence == f"cannot read {GOOD}"


def test_an_error_file_with_such_a_path_is_shown(tmp_path):
    (tmp_path / "error.json").write_text(json.dumps({"message": f"cannot read {BAD}"}))
    assert read_error(tmp_path / "error.json") == f"cannot read {GOOD}"


def test_an_event_s_names_and_texts_are_whole():
    payload = {"verb": "event", "pid": 1, "rank": 0, "generation": 1, "name": BAD, "at_ns": 1, "fields": {BAD: BAD}}
    event = decode(json.dumps(payload).encode())
    assert isinstance(event, Event)
    assert (event.name, event.fields) == (GOOD, {GOOD: GOOD})


async def test_a_wish_with_such_a_reason_is_carried(tmp_path):
    heard = []

    async def carry(wish):
        heard.append(wish.reason.encode())  # as a message does
        return ControlAnswer(True, True, "done")

    socket = LocalSocket(tmp_path / "s.sock", lambda _: None, carry)
    await socket.start()
    speaker = Speaker(os.getpid(), 0, 1)
    told = await asyncio.to_thread(ask, str(socket.path), speaker, WorkloadAction.ExcludeThisNode, BAD, 5.0)
    await socket.stop()
    assert told is not None and heard == [GOOD.encode()]


async def test_a_connection_that_fails_costs_no_more_than_itself(tmp_path):
    async def carry(wish):
        raise UnicodeEncodeError("utf-8", "x", 0, 1, "as a bug of ours would")

    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    socket = LocalSocket(tmp_path / "s.sock", lambda _: None, carry)
    await socket.start()
    began = time.monotonic()
    await asyncio.to_thread(ask, str(socket.path), Speaker(os.getpid(), 0, 1), WorkloadAction.ExcludeThisNode, "x", 5.0)
    await socket.stop()
    assert complaints == [], "the loop's handler ends the launcher and its workers"
    assert time.monotonic() - began < 5
