"""Bounded waits and calls off the loop: R33 to R46 of the watchdog's statements."""

import asyncio
import contextvars
import inspect
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from resurge import refit_watchdog
from resurge.guards import bounds
from resurge.guards.bounds import off_loop, sync_within, teardown_within
from resurge.refit_watchdog import (
    RefitAborted,
    await_off_loop,
    is_refit_abort,
    is_refit_context_lost,
    release_within,
    sync_stream_within,
)
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Cuda, Stream, eventually, until


@pytest.fixture
def cuda(monkeypatch):
    fake = Cuda(device=3)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))
    return fake


class Stop(BaseException):
    pass


async def test_R33_result_and_thread():
    thread = await await_off_loop(threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.daemon


@pytest.mark.parametrize("error", [ValueError("mine"), Stop(), KeyError("k")])
async def test_R33_every_exception_reaches_the_awaiter(error):
    def fails():
        raise error

    with pytest.raises(type(error)) as raised:
        await await_off_loop(fails)
    assert raised.value is error


async def test_R34_other_coroutines_go_on_meanwhile():
    let_go = threading.Event()
    call = asyncio.ensure_future(await_off_loop(lambda: let_go.wait(WAIT_S)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not call.done()
    let_go.set()
    assert await call is True


async def test_R35_cancelling_frees_the_awaiter_only_and_the_late_settling_is_harmless():
    let_go, ended = threading.Event(), threading.Event()

    def blocks():
        let_go.wait(WAIT_S)
        ended.set()

    call = asyncio.ensure_future(await_off_loop(blocks))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not ended.is_set()
    trouble = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context))
    let_go.set()
    assert ended.wait(WAIT_S)
    await await_off_loop(lambda: None)
    assert trouble == []


def test_R36_a_stuck_call_does_not_delay_the_end_of_the_process():
    program = (
        "import asyncio, threading, resurge\n"
        "async def main():\n"
        "    try: await asyncio.wait_for(resurge.off_loop(threading.Event().wait), 0.05)\n"
        "    except TimeoutError: print('free')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "free"), done.stderr


def test_R36_there_is_no_limit_of_its_own():
    assert list(inspect.signature(await_off_loop).parameters) == ["fn"]


def test_R37_a_loop_that_was_closed_meanwhile_is_harmless(monkeypatch):
    trouble = []
    monkeypatch.setattr(threading, "excepthook", trouble.append)
    let_go, threads = threading.Event(), []

    def blocks():
        threads.append(threading.current_thread())
        let_go.wait(WAIT_S)

    async def gives_up():
        call = asyncio.ensure_future(await_off_loop(blocks))
        assert await until(lambda: threads)
        call.cancel()

    asyncio.run(gives_up())
    let_go.set()
    threads[0].join(WAIT_S)
    assert not threads[0].is_alive()
    assert trouble == []


async def test_R37_stop_iteration_is_converted():
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        await asyncio.wait_for(await_off_loop(lambda: next(iter(()))), WAIT_S)
    assert isinstance(raised.value.__cause__, StopIteration)


async def test_R37_context_variables_travel():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("mine")
    assert await await_off_loop(variable.get) == "mine"


async def test_R37_the_current_device_travels(cuda):
    assert await await_off_loop(cuda.current_device) == 3


async def test_R37_a_device_that_was_not_used_is_not_touched(cuda, monkeypatch):
    monkeypatch.setattr(cuda, "is_initialized", lambda: False)
    assert await await_off_loop(cuda.current_device) == 0


async def test_R38_an_order_is_heard_while_the_guarded_call_blocks():
    """A coroutine that blocks in native code never yields; off the loop, the order to abort gets through."""
    blocked, released = threading.Event(), threading.Event()

    def collective():
        blocked.set()
        return released.wait(WAIT_S)

    async def order():
        assert await until(blocked.is_set)
        released.set()

    assert (await asyncio.gather(await_off_loop(collective), order()))[0] is True


async def test_calls_for_one_group_wait_for_each_other():
    class Key:
        pass

    group, inside, most = Key(), [], []

    def collective():
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.01)
        inside.pop()

    await asyncio.gather(*(off_loop(collective, group=group) for _ in range(5)))
    assert most == [1] * 5


@pytest.mark.parametrize("budget_s", [None, 0, -1.0])
def test_R39_without_a_budget_it_is_the_plain_synchronize(cuda, budget_s):
    stream = Stream(looks=None)
    sync_stream_within(stream, budget_s, "transfer")
    assert (cuda.synchronized, stream.recorded, stream.queried) == (1, 0, 0)


def test_R40_an_event_is_polled_and_the_device_synchronized_once(cuda, monkeypatch):
    waits = []
    monkeypatch.setattr(bounds.time, "sleep", waits.append)
    stream = Stream(looks=3)
    sync_stream_within(stream, 600.0, "transfer")
    assert waits == [0.05] * 3
    assert (cuda.synchronized, stream.recorded, stream.queried) == (1, 1, 4)


def test_R40_a_stream_without_record_event_gets_an_event_of_torch(cuda):
    recorded = []
    event = SimpleNamespace(record=recorded.append, query=lambda: True)
    cuda.Event = lambda: event
    stream = object()
    sync_stream_within(stream, 5.0, "transfer")
    assert recorded == [stream]
    assert cuda.synchronized == 1


def test_R41_past_the_budget_it_raises_with_both_tokens(cuda):
    started = time.monotonic()
    with pytest.raises(RefitAborted, match=r"bulk transfer .*0\.1 s") as raised:
        sync_stream_within(Stream(looks=None), 0.1, "bulk transfer")
    assert 0.1 <= time.monotonic() - started < 5.0
    assert is_refit_abort(Exception(str(raised.value)))
    assert is_refit_context_lost(raised.value)
    assert cuda.synchronized == 0


def test_R41_it_never_waits_longer_than_budget_and_one_poll(cuda, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bounds.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(bounds.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    with pytest.raises(RefitAborted):
        sync_stream_within(Stream(looks=None), 0.12, "transfer")
    assert now[0] <= 0.12 + bounds.POLL_S


def test_R42_while_it_waits_other_threads_run(cuda):
    stream = Stream(looks=None)
    counted = [0]
    thread = threading.Thread(target=lambda: [counted.__setitem__(0, i) for i in range(1000)])
    thread.start()
    with pytest.raises(RefitAborted):
        sync_stream_within(stream, 0.05, "transfer")
    thread.join(WAIT_S)
    assert counted == [999]
    assert stream.queried >= 2


def test_a_stream_of_the_cpu_is_done_already(cuda):
    sync_within(Stream(looks=None, device="cpu"), 5.0)
    assert cuda.synchronized == 0


def test_a_build_without_devices_has_nothing_to_synchronize(monkeypatch):
    def fails():
        raise AssertionError("Torch not compiled with CUDA enabled")

    fake = Cuda(is_there=False)
    fake.synchronize = fails
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))
    sync_within(None, None)
    fake.is_there = True
    with pytest.raises(AssertionError):
        sync_within(None, None)


def test_R43_a_release_is_waited_for_at_most_so_long(capsys):
    let_go, ended = threading.Event(), threading.Event()

    def stuck():
        let_go.wait(WAIT_S)
        ended.set()

    started = time.monotonic()
    release_within(stuck, 0.05, "the old group")
    assert 0.05 <= time.monotonic() - started < 5.0
    assert not ended.is_set()
    assert "the old group did not end within 0.05 s" in capsys.readouterr().out
    let_go.set()
    assert ended.wait(WAIT_S)


def test_R43_a_release_in_time_says_nothing_and_its_errors_are_swallowed(capsys):
    threads = []

    def fails():
        threads.append(threading.current_thread())
        raise SystemExit("already gone")

    release_within(fails, WAIT_S, "the old group")
    assert threads[0].daemon
    assert threads[0] is not threading.current_thread()
    assert capsys.readouterr().out == ""


def test_R43_a_thread_that_cannot_be_had_is_said_not_raised(monkeypatch):
    def none(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    said = []
    assert not teardown_within(lambda: None, 1.0, "the old group", said.append)
    assert "can't start" in said[0]


def test_R44_the_callers_device_is_set_in_the_thread_before_the_release(cuda):
    seen = []
    release_within(lambda: seen.append((threading.current_thread().name, cuda.current_device())), WAIT_S, "old")
    assert seen == [("resurge-teardown", 3)]


def test_R44_without_cuda_it_runs_plainly(monkeypatch):
    fake = Cuda(is_there=False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))
    seen = []
    release_within(lambda: seen.append(fake.current_device()), WAIT_S, "old")
    monkeypatch.delitem(sys.modules, "torch")
    release_within(lambda: seen.append("no torch"), WAIT_S, "old")
    assert seen == [0, "no torch"]


def test_R45_the_new_rendezvous_is_bound_while_the_old_release_is_stuck():
    """Release after binding: the bound makes the order affordable, and a stuck release holds nobody up."""
    order, let_go = [], threading.Event()
    order.append("bound")
    release_within(lambda: (order.append("releasing"), let_go.wait(WAIT_S)), 0.02, "old")
    order.append("on")
    assert order == ["bound", "releasing", "on"]
    let_go.set()


def test_R46_one_stuck_thread_for_each_failed_release():
    let_go = threading.Event()

    def stuck():
        return sum(thread.name == "resurge-teardown" for thread in threading.enumerate())

    assert eventually(lambda: stuck() == 0)
    for _ in range(3):
        release_within(lambda: let_go.wait(WAIT_S), 0.01, "old")
    assert stuck() == 3
    let_go.set()
    assert eventually(lambda: stuck() == 0)


def test_the_grace_is_the_default_budget():
    assert inspect.signature(release_within).parameters["budget_s"].default == refit_watchdog.RELEASE_GRACE_S


def test_whether_it_ended_in_time_is_told_and_no_time_at_all_is_a_budget():
    let_go = threading.Event()
    assert teardown_within(lambda: None, WAIT_S)
    assert not teardown_within(lambda: let_go.wait(WAIT_S), 0.0)
    assert not teardown_within(lambda: let_go.wait(WAIT_S), -1.0)
    let_go.set()


def test_a_release_is_on_the_callers_device_though_the_caller_has_not_used_it_yet(cuda):
    cuda.is_initialized = lambda: False
    seen = []
    assert teardown_within(lambda: seen.append(cuda.current_device()), WAIT_S)
    assert seen == [3]


def test_a_forked_child_waits_for_no_call_of_its_parent():
    class Holder:
        pass

    group = Holder()
    parents = bounds._lock_of(group)
    assert bounds._lock_of(group) is parents
    bounds._after_fork_in_child()
    assert bounds._lock_of(group) is not parents
