"""The fenced store."""

from __future__ import annotations

import pytest

from resurge_libs.core.ids import Attempt, FencingToken, Generation, JobId, NodeId, RequestId
from resurge_libs.core.refusals import BadRequest, StaleGeneration, Unready, WrongJob
from resurge_rendezvous.core import fold, store
from resurge_rendezvous.core.model import (
    Added,
    AnnounceKey,
    Deleted,
    ExcludeAsked,
    PutDone,
    ShutdownAsked,
    StoreAddAsked,
    StoreCompareAndSetAsked,
    StoreDeleteAsked,
    StorePutAsked,
    Swapped,
)
from tests.unit.rendezvous.desk import Desk, started


def token(generation: int = 1, attempt: int = 1, job: str = "job") -> FencingToken:
    return FencingToken(JobId(job), Attempt(attempt), Generation(generation))


def put(d: Desk, key: str, value: bytes, request: str = "r", at: FencingToken | None = None):
    step = d.ask(StorePutAsked(d.stamp(), RequestId(request), at or token(), key, value))
    return d.replies[-1], step


def test_a_value_is_written_read_and_announced():
    d = started()
    reply, step = put(d, "k", b"v")
    assert reply == PutDone()
    assert AnnounceKey("k") in step.actions
    assert store.read(d.job, token(), "k") == b"v"
    assert store.read(d.job, token(), "other") is None


def test_a_repeat_under_one_request_id_is_one_write():
    d = started()
    for _ in range(3):
        d.ask(StoreAddAsked(d.stamp(), RequestId("r"), token(), "n", 5))
    assert d.replies[-1] == Added(5)
    d.ask(StoreAddAsked(d.stamp(), RequestId("r2"), token(), "n", -7))
    assert d.replies[-1] == Added(-2)


def test_a_request_id_of_another_call_is_refused_and_nothing_is_done():
    d = started()
    put(d, "k", b"v", request="r")
    for event in (
        StoreAddAsked(d.stamp(), RequestId("r"), token(), "n", 5),
        StoreDeleteAsked(d.stamp(), RequestId("r"), token(), "k"),
        ExcludeAsked(d.stamp(), RequestId("r"), NodeId("n0"), "smoke"),
        ShutdownAsked(d.stamp(), RequestId("r"), "enough"),
    ):
        with pytest.raises(BadRequest, match="request_id"):
            d.ask(event)
    assert store.read(d.job, token(), "k") == b"v"
    assert all(entry.exclusion is None for entry in d.job.nodes)


def test_compare_and_set_says_what_holds():
    d = started()
    for number, (expected, answer) in enumerate(
        [
            (b"x", Swapped(False, None)),
            (None, Swapped(True, b"1")),
            (None, Swapped(False, b"1")),
            (b"1", Swapped(True, b"1")),
        ]
    ):
        d.ask(StoreCompareAndSetAsked(d.stamp(), RequestId(f"r{number}"), token(), "k", expected, b"1"))
        assert d.replies[-1] == answer


def test_delete_says_whether_it_was_there():
    d = started()
    put(d, "k", b"v")
    for request, existed in (("d1", True), ("d2", False), ("d1", True)):
        d.ask(StoreDeleteAsked(d.stamp(), RequestId(request), token(), "k"))
        assert d.replies[-1] == Deleted(existed)


@pytest.mark.users_row(10)
def test_the_running_generation_is_refused_from_the_moment_it_is_fenced():
    d = started()
    d.crash("n1")
    with pytest.raises(StaleGeneration) as refused:
        put(d, "k", b"v")
    assert refused.value.current.generation == 2
    assert "k" not in d.job.store
    with pytest.raises(StaleGeneration):
        store.read(d.job, token(), "k")


def test_the_next_generation_reads_what_the_one_before_wrote():
    d = started()
    put(d, "k", b"v")
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    assert store.read(d.job, token(2), "k") == b"v"
    with pytest.raises(StaleGeneration):
        put(d, "k", b"late", "late")


@pytest.mark.parametrize("wrong", [token(0), token(2), token(1, attempt=0)])
@pytest.mark.users_row(8)
def test_other_tokens_are_stale(wrong):
    d = started()
    with pytest.raises(StaleGeneration):
        put(d, "k", b"v", at=wrong)


def test_another_jobs_token_is_wrong():
    d = started()
    with pytest.raises(WrongJob):
        put(d, "k", b"v", at=token(job="other"))


def test_without_a_job_nothing_is_written():
    with pytest.raises(Unready):
        put(Desk(), "k", b"v")


@pytest.mark.parametrize(
    ("key", "value", "field"), [("", b"", "key"), ("k" * 1025, b"", "key"), ("k", b"x" * (1024 * 1024 + 1), "value")]
)
def test_keys_and_values_are_bounded(key, value, field):
    d = started()
    with pytest.raises(BadRequest) as refused:
        put(d, key, value)
    assert refused.value.violations[0].field == field


@pytest.mark.parametrize("held", [b"text", b"", b"--1", b"9" * 30, "²".encode()])
def test_only_counters_are_added_to(held):
    d = started()
    put(d, "k", held)
    with pytest.raises(BadRequest):
        d.ask(StoreAddAsked(d.stamp(), RequestId("a"), token(), "k", 1))


def test_a_counter_stays_within_64_bits():
    d = started()
    d.ask(StoreAddAsked(d.stamp(), RequestId("a"), token(), "k", 2**63 - 1))
    with pytest.raises(BadRequest):
        d.ask(StoreAddAsked(d.stamp(), RequestId("b"), token(), "k", 1))


def test_the_store_as_a_whole_is_bounded_and_a_smaller_value_in_place_of_a_larger_fits(monkeypatch):
    monkeypatch.setattr(store, "STORE_BYTES_MAX", 1000)
    d = started()
    put(d, "a", b"x" * 600, request="1")
    with pytest.raises(BadRequest, match="1000 bytes"):
        put(d, "b", b"y" * 600, request="2")
    put(d, "a", b"z" * 300, request="3")
    put(d, "b", b"y" * 600, request="4")
    assert store.read(d.job, token(), "b") == b"y" * 600


def test_remembered_answers_are_bounded():
    d = started(Desk(check=False))
    for number in range(1100):
        d.ask(StoreAddAsked(d.stamp(), RequestId(f"r{number}"), token(), "n", 1))
    assert len(d.job.answers) == 1024
    assert store.answer_to(d.job, RequestId("r0"), Added) is None


def swap(d: Desk, request: str, expected: bytes | None, value: bytes):
    d.ask(StoreCompareAndSetAsked(d.stamp(), RequestId(request), token(), "k", expected, value))
    return d.replies[-1]


def test_remembered_answers_are_bounded_by_the_bytes_they_hold_and_cheap_ones_stay(monkeypatch):
    monkeypatch.setattr(fold, "ANSWER_BYTES_MAX", 1000)
    d = started()
    put(d, "k", b"x" * 400, request="first")
    for number in range(5):
        assert swap(d, f"s{number}", b"other", b"y") == Swapped(False, b"x" * 400)
    assert [known.request for known in d.job.answers] == ["first", "s3", "s4"]
    assert swap(d, "s4", b"other", b"y") == Swapped(False, b"x" * 400)


def test_a_written_value_is_not_kept_a_second_time_and_a_repeat_gets_it_all_the_same():
    d = started()
    value = b"v" * 100
    for _ in range(2):
        assert swap(d, "s", None, value) == Swapped(True, value)
    assert d.job.answers[-1].answer == Swapped(True, None)
