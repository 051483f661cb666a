"""Whatever bytes come, frames are whole or refused; whatever phases open and close, the page shows the right one."""

import contextlib
import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from resurge.environment import read_environment
from resurge.frames import (
    CONTROL_ACTIONS,
    MILESTONES,
    TEXT_LIMIT,
    Control,
    Event,
    FrameDecoder,
    FrameError,
    Hello,
    Milestone,
    Speaker,
    encode,
)
from resurge.page import PHASE_NAME_BYTES, LauncherCells, PageReader, PageWriter, clipped_utf8
from resurge.phases import OpenPhases

whole = st.integers(0, 2**64 - 1)
text = st.text(max_size=TEXT_LIMIT // 8)
speakers = st.builds(Speaker, pid=whole, rank=whole, generation=whole, traceparent=text)
values = st.one_of(text, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
frames = st.one_of(
    st.builds(Hello, speakers, text),
    st.builds(Milestone, speakers, st.sampled_from(MILESTONES), whole, st.none() | whole),
    st.builds(Event, speakers, text, whole, st.dictionaries(text, values, max_size=4)),
    st.builds(Control, speakers, st.sampled_from(CONTROL_ACTIONS), whole, text),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(frames, max_size=4), st.data())
def test_frames_survive_any_cut(sent, data):
    stream = b"".join(map(encode, sent))
    decoder, found, at = FrameDecoder(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += decoder.feed(stream[at : at + size])
        at += size
    assert found == sent


@given(st.binary(max_size=200))
def test_noise_is_refused_or_waited_for(noise):
    with contextlib.suppress(FrameError):
        FrameDecoder().feed(noise)


@given(frames, st.sampled_from(["verb", "pid", "rank", "at_ns", "kind", "step", "name", "fields", "more"]), anything)
def test_a_frame_with_a_field_of_any_kind_is_read_or_refused(frame, name, value):
    record = json.loads(encode(frame)[4:])
    record[name] = value
    payload = json.dumps(record).encode()
    with contextlib.suppress(FrameError):
        FrameDecoder().feed(struct.pack(">I", len(payload)) + payload)


@given(st.text(max_size=80), st.integers(0, PHASE_NAME_BYTES))
def test_a_clipped_name_is_a_whole_beginning(name, limit_bytes):
    clipped = clipped_utf8(name, limit_bytes)
    assert len(clipped) <= limit_bytes
    assert name.encode("utf-8", "replace").decode().startswith(clipped.decode())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 10**12)), max_size=30))
def test_the_page_shows_the_innermost_phase_and_the_earliest_deadline(tmp_path_factory, moves):
    path = tmp_path_factory.mktemp("pages") / "rank-0.page"
    LauncherCells.create(path, generation=1).close()
    reader, writer = PageReader(path), PageWriter(path)
    phases, open_now = OpenPhases(writer, beat=lambda: None), []
    for opens, which, limit_ns in moves:
        if opens:
            open_now.append(phases.opened(f"phase {len(open_now)}", limit_ns))
        elif open_now:
            phases.close(open_now.pop(which % len(open_now)))
        shown = reader.read().phase
        if not open_now:
            assert shown is None
            continue
        assert (shown.name, shown.opened_ns) == (open_now[-1].name, open_now[-1].opened_ns)
        assert shown.depth == len(open_now)
        ends = [phase.opened_ns + phase.limit_ns for phase in open_now if phase.limit_ns]
        assert shown.deadline_ns == (min(ends) if ends else 0)
    reader.close()
    writer.close()


names = st.sampled_from(["RANK", "WORLD_SIZE", "RESURGE_GENERATION", "RESURGE_CYCLE", "RESURGE_BEAT_LIMIT_S", "X"])


@given(st.dictionaries(names, st.text(max_size=12)))
def test_no_environment_stops_a_worker(variables):
    told = read_environment(variables)
    assert told.rank >= 0
    assert told.world_size >= 0
    assert 0 <= told.beat_limit_s < float("inf")
