"""Frames: whole, in pieces, several at once; and everything else refused by name."""

import json
import struct

import pytest

from resurge.frames import (
    FRAME_LIMIT_BYTES,
    ROUTES,
    Control,
    ControlAnswer,
    Crashed,
    Event,
    Fired,
    FrameDecoder,
    FrameError,
    Hello,
    Listen,
    Milestone,
    Mustered,
    Over,
    Spared,
    Speaker,
    decode,
    encode,
)

SPEAKER = Speaker(pid=4242, rank=3, generation=7, traceparent="00-" + "ab" * 16 + "-" + "cd" * 8 + "-01")
FRAMES = [
    Hello(SPEAKER, "0.1.0"),
    Milestone(SPEAKER, "checkpoint_restored", 123, 40),
    Milestone(SPEAKER, "process_group_ready", 99),
    Event(SPEAKER, "note", 5, {"text": "ü", "count": 1, "share": 0.5, "flag": True}),
    Control(SPEAKER, "shutdown_workload", 1, "the loss is not a number"),
    Listen(SPEAKER),
    Fired(SPEAKER, "step", 2, 1000, 77),
    Crashed(SPEAKER, "ValueError: x", 10_000, 78),
    Spared(SPEAKER),
    Over(SPEAKER),
    Mustered(SPEAKER, "join", 2, "", 3, 60_000),
    Mustered(SPEAKER, "join", 2, "", 3, 60_000, spans_nodes=True),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.VERB)
def test_round_trip(frame):
    assert FrameDecoder().feed(encode(frame)) == [frame]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 64, 10_000])
def test_any_cut_of_the_stream_gives_the_same_frames(piece_bytes):
    stream = b"".join(map(encode, FRAMES))
    decoder = FrameDecoder()
    found = []
    for at in range(0, len(stream), piece_bytes):
        found += decoder.feed(stream[at : at + piece_bytes])
    assert found == FRAMES


def test_a_launcher_that_knows_ranks_of_one_node_only_takes_their_frames_as_ever():
    record = json.loads(encode(Mustered(SPEAKER, "join", 2, "", 3, 60_000))[4:])
    assert "spans_nodes" not in record
    with pytest.raises(FrameError, match="spans_nodes is 1"):
        decode(json.dumps({**record, "spans_nodes": 1}).encode())


def test_every_frame_carries_the_trace_context():
    for frame in FRAMES:
        assert json.loads(encode(frame)[4:])["traceparent"] == SPEAKER.traceparent


def test_every_verb_has_a_route():
    assert {frame.VERB for frame in FRAMES} == ROUTES.keys()


def payload(**changes):
    record = json.loads(encode(FRAMES[1])[4:])
    record.update(changes)
    raw = json.dumps({name: value for name, value in record.items() if value is not ...}).encode()
    return struct.pack(">I", len(raw)) + raw


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (struct.pack(">I", FRAME_LIMIT_BYTES + 1), "announced"),
        (struct.pack(">I", 3) + b"{x}", "not JSON"),
        (struct.pack(">I", 2) + b"\xff\xff", "not JSON"),
        (struct.pack(">I", 2) + b"[]", "not an object"),
        (struct.pack(">I", 0), "not JSON"),
        (payload(verb="shutdown"), "unknown verb"),
        (payload(verb=["milestone"]), "unknown verb"),
        (payload(kind="lunch"), "kind"),
        (payload(rank=-1), "rank"),
        (payload(rank=True), "rank"),
        (payload(at_ns=...), "at_ns"),
        (payload(step=1.5), "step"),
        (payload(traceparent="x" * 2000), "traceparent"),
        (payload(color="red"), "color"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_reason(data, word):
    with pytest.raises(FrameError, match=word):
        FrameDecoder().feed(data)


@pytest.mark.parametrize(
    "frame",
    [
        Milestone(SPEAKER, "lunch", 1),
        Milestone(SPEAKER, "first_step", -1),
        Event(SPEAKER, "n", 1, {"x": float("nan")}),
        Event(SPEAKER, "n", 1, {"x": [1]}),
        Event(SPEAKER, "n" * 2000, 1),
        Event(SPEAKER, "n", 1, {f"k{i}": "y" * 1000 for i in range(32)}),
    ],
)
def test_a_frame_that_does_not_fit_is_never_sent(frame):
    with pytest.raises(FrameError):
        encode(frame)


def test_an_action_that_is_none_is_refused():
    record = json.loads(encode(Control(SPEAKER, "exclude_this_node", 1))[4:])
    raw = json.dumps({**record, "action": "continue"}).encode()
    with pytest.raises(FrameError, match="exclude_this_node, shutdown_workload"):
        FrameDecoder().feed(struct.pack(">I", len(raw)) + raw)


def test_an_answer_survives_the_socket_and_noise_is_none():
    answer = ControlAnswer(True, False, "too few nodes would be left")
    assert ControlAnswer.of(answer.encoded()[4:]) == answer
    for noise in (b"", b"[]", b"{}", b'{"delivered": true}', b"\xff"):
        with pytest.raises(FrameError, match="the answer is none"):
            ControlAnswer.of(noise)
