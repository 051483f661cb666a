"""A group that may be aborted from any thread: R24 to R27 of the watchdog's statements."""

import threading

import pytest

import resurge
from resurge.guards.groups import Abortable, AbortableGroup
from resurge.refit_watchdog import RefitAborted
from tests.unit.worker_sdk.abort_fakes import WAIT_S


class Communicator:
    def __init__(self, store):
        self.store = store
        self.broken = 0
        self.seen = []

    def destroy(self):
        raise AssertionError("destroy is collective: it hangs without the dead rank")


def made(break_=None):
    def breaks(communicator):
        communicator.broken += 1

    return AbortableGroup(Communicator, break_ or breaks, RefitAborted, "the refit group")


def test_R24_abort_without_a_communicator_is_safe_and_final():
    group = made()
    assert isinstance(group, Abortable)
    group.abort()
    group.abort()
    assert group.aborted


def test_R24_abort_takes_the_communicator_and_the_store_away_before_it_breaks_them_once():
    seen = []
    group = made(lambda communicator: seen.append((group.aborted, group.initialized, group._store)))
    group.init("store")
    assert group.initialized
    group.abort()
    group.abort()
    assert seen == [(True, False, None)]


def test_R24_two_aborts_at_once_break_it_once():
    gate = threading.Barrier(2)
    entered = []
    group = made(entered.append)
    group.init("store")

    def abort():
        gate.wait(WAIT_S)
        group.abort()

    threads = [threading.Thread(target=abort) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(entered) == 1


def test_R25_after_an_abort_the_next_operation_says_aborted_and_before_init_never_initialized():
    group = made()
    with pytest.raises(RuntimeError, match="never initialized") as raised:
        group.run(lambda communicator: None)
    assert not isinstance(raised.value, RefitAborted)
    group.init("store")
    group.abort()
    with pytest.raises(RefitAborted, match="aborted and cannot be used"):
        group.run(lambda communicator: None)


def test_R25_an_operation_reads_the_communicator_once():
    group = made()
    group.init("store")

    def operation(communicator):
        group.abort()
        return communicator.store

    assert group.run(operation) == "store"


def test_R26_an_aborted_group_is_not_made_again():
    group = made()
    group.init("store")
    group.abort()
    with pytest.raises(RefitAborted, match="fresh port or prefix"):
        group.init("another store")
    assert not group.initialized


def test_R26_an_abort_while_it_is_made_breaks_what_was_made():
    broken = []

    def open_(store):
        group.abort()
        return Communicator(store)

    group = AbortableGroup(open_, broken.append, RefitAborted)
    with pytest.raises(RefitAborted):
        group.init("store")
    assert len(broken) == 1
    assert not group.initialized


def test_R27_teardown_is_abort_never_destroy():
    group = made()
    group.init("store")
    communicator = group.run(lambda own: own)
    group.abort()
    assert communicator.broken == 1
    assert not hasattr(group, "destroy")


def test_an_aborted_group_is_not_even_opened_again():
    opened = []
    group = AbortableGroup(opened.append, lambda _: None)
    group.abort()
    with pytest.raises(resurge.CollectiveAborted, match="made again"):
        group.init("store")
    assert opened == []
