"""Each kind of value: what is taken, and that what is not says what would be right."""

from __future__ import annotations

import signal

import pytest

from resurge_launcher.commands import values
from resurge_launcher.settings import Std
from resurge_libs.rpc.endpoint import Endpoint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n0:29400", Endpoint("n0", 29400)),
        ("n0", Endpoint("n0", 29400)),
        ("10.0.0.5:1", Endpoint("10.0.0.5", 1)),
        ("[::1]:5", Endpoint("::1", 5)),
        ("unix:/tmp/a.sock", Endpoint(path="/tmp/a.sock")),
        ("unix:///tmp/a.sock", Endpoint(path="/tmp/a.sock")),
    ],
)
def test_endpoints(text, expected):
    assert values.endpoint(text) == expected


@pytest.mark.parametrize(
    "text", ["http://n0:1", "n0:", "n0:0", "n0:70000", "n0:x", ":1", "::1:5", "a b:1", "unix:x", ""]
)
def test_endpoints_refused(text):
    with pytest.raises(values.Wrong) as caught:
        values.endpoint(text)
    assert "HOST:PORT" in caught.value.right


def test_nnodes():
    assert values.nnodes("4") == (4, 4)
    assert values.nnodes("2:3") == (2, 3)
    for text in ("0", "-1", "0:2", "3:2", "a", "1:2:3", "", "1:", "2000000"):
        with pytest.raises(values.Wrong):
            values.nnodes(text)


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "", "5000"])
def test_nproc_refused(text):
    with pytest.raises(values.Wrong) as caught:
        values.nproc(text)
    assert "cpu, gpu, auto" in caught.value.right


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("0.5", 0.5), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0)])
def test_seconds(text, seconds):
    assert values.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["-1", "soon", "nan", "inf", "", "3d", "1e999"])
def test_seconds_refused(text):
    with pytest.raises(values.Wrong):
        values.seconds(text)


def test_never():
    assert values.seconds_or_never("null") is None
    assert values.seconds_or_never("none") is None
    assert values.seconds_or_never("4") == 4.0


def test_streams():
    assert values.streams("3").of(7) == Std.ALL
    per_rank = values.streams("0:1,1:2")
    assert [per_rank.of(rank) for rank in (0, 1, 2)] == [Std.OUT, Std.ERR, Std.NONE]
    for text in ("4", "x", "0:4", "0:1,", "-1", "0:1;1:2"):
        with pytest.raises(values.Wrong):
            values.streams(text)


def test_signals():
    assert values.signals("TERM,SIGUSR1,SIGTERM") == (signal.SIGTERM, signal.SIGUSR1)
    for text in ("SIGKILL", "SIGNOPE", "", "SIGCHLD", "SIGSTOP"):
        with pytest.raises(values.Wrong):
            values.signals(text)


def test_pairs_and_ranks():
    assert values.pairs("a=1, b=2") == {"a": "1", "b": "2"}
    assert values.pairs("") == {}
    assert values.local_ranks("0,2") == frozenset({0, 2})
    assert values.local_ranks("") is None
    for parse, text in (
        (values.pairs, "a"),
        (values.pairs, "=1"),
        (values.local_ranks, "a"),
        (values.local_ranks, "1,"),
    ):
        with pytest.raises(values.Wrong):
            parse(text)


def test_job_and_node_ids_are_good_in_paths():
    assert values.job_id("run-1.2_x@y") == "run-1.2_x@y"
    for text in ("", "../x", "a/b", "-a", "a b", "x" * 129):
        with pytest.raises(values.Wrong):
            values.job_id(text)
        with pytest.raises(values.Wrong):
            values.node_id(text * 2)


def test_shares():
    assert [values.share(text) for text in ("0", "0.2", "1", "1e-3")] == [0.0, 0.2, 1.0, 0.001]


@pytest.mark.parametrize("text", ["", "20%", "-0.1", "1.01", "nan", "inf"])
def test_shares_refused(text):
    with pytest.raises(values.Wrong) as wrong:
        values.share(text)
    assert wrong.value.right == "Give a number from 0 to 1, for example 0.2."
