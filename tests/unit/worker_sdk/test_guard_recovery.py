"""The controller's side: R50 to R54 of the watchdog's statements. Time is virtual: the loop's clock jumps."""

import asyncio
import inspect
import logging

import pytest

import resurge
from resurge.guards import recovery
from resurge.guards.recovery import Recovery, RecoveryRules, let_unwind, wait_for_workers
from resurge.refit_watchdog import RefitAborted, RefitAbortWatchdog

pytestmark = pytest.mark.looptime
FOR_EVER_S = 10_000.0
SOON_S, LATE_S = 1.0, 15.0


@pytest.mark.parametrize(
    ("entrypoint", "keyword"),
    [
        (resurge.deadline, "timeout_s"),
        (resurge.bounded, "timeout_s"),
        (RefitAbortWatchdog, "timeout_s"),
        (wait_for_workers, "deadline_s"),
        (let_unwind, "deadline_s"),
        (Recovery.run, "deadline_s"),
    ],
)
def test_R50_every_entrypoint_takes_the_deadline_by_keyword(entrypoint, keyword):
    parameter = inspect.signature(entrypoint).parameters[keyword]
    assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


async def test_R50_the_deadline_reaches_every_call_of_a_recovery(looptime):
    calls = [asyncio.ensure_future(asyncio.sleep(FOR_EVER_S))]

    async def fails():
        raise RefitAborted("late")

    steps = Steps(gone=[])
    with pytest.raises(RefitAborted):
        await steps.recovery().run(fails, lambda: calls, deadline_s=7.0)
    assert looptime == 7.0 + recovery.UNWIND_GRACE_S


async def test_R51_the_controller_waits_longer_than_the_workers_deadline(looptime):
    with pytest.raises(RefitAborted, match="40 s"):
        await wait_for_workers(asyncio.sleep(FOR_EVER_S), 10.0, RefitAborted)
    assert looptime == 40.0
    assert recovery.UNWIND_GRACE_S > 0


async def test_R51_a_workers_own_error_wins():
    error = ValueError("out of memory")

    async def fails():
        await asyncio.sleep(LATE_S)
        raise error

    with pytest.raises(ValueError, match="out of memory") as raised:
        await wait_for_workers(fails(), 10.0)
    assert raised.value is error


@pytest.mark.parametrize("deadline_s", [None, 0, -1])
async def test_R51_without_a_deadline_there_is_no_bound(looptime, deadline_s):
    assert await wait_for_workers(asyncio.sleep(FOR_EVER_S, "done"), deadline_s) == "done"
    assert looptime == FOR_EVER_S


@pytest.mark.parametrize(("deadline_s", "limit_s"), [(10.0, 40.0), (0.5, 30.5), (None, 90.0), (0, 90.0)])
async def test_R52_all_are_given_time_to_unwind_and_then_it_goes_on(looptime, deadline_s, limit_s):
    async def fails():
        raise ValueError("straggler")

    late = await let_unwind([fails(), asyncio.sleep(SOON_S), asyncio.sleep(FOR_EVER_S)], deadline_s)
    assert late == 1
    assert looptime == limit_s


async def test_R52_nobody_is_waited_for_when_all_have_left(looptime):
    assert await let_unwind([], 10.0) == 0
    assert await let_unwind([asyncio.sleep(SOON_S)], 10.0) == 0
    assert looptime == SOON_S


class Steps:
    def __init__(self, gone):
        self.gone, self.done = gone, []

    async def probe(self):
        self.done.append("probe")
        return self.gone

    async def mark(self):
        self.done.append("mark partial")

    async def rebuild(self, gone):
        self.done.append(f"rebuild without {gone}")

    def recovery(self):
        return Recovery(self.probe, self.mark, self.rebuild)

    def transfer(self, *errors):
        left = list(errors)

        async def transfer():
            self.done.append("transfer")
            if left:
                raise left.pop(0)
            return "whole"

        return transfer


async def test_R53_after_an_abort_probe_mark_rebuild_and_once_more():
    steps = Steps(gone=[2])
    assert await steps.recovery().run(steps.transfer(RefitAborted("late")), deadline_s=5.0) == "whole"
    assert steps.done == ["transfer", "probe", "mark partial", "rebuild without [2]", "transfer"]


async def test_R53_survivors_are_partial_only_after_an_abort():
    steps = Steps(gone=[2])
    await steps.recovery().run(steps.transfer(ConnectionError("closed by peer")))
    assert steps.done == ["transfer", "probe", "rebuild without [2]", "transfer"]


async def test_R53_it_is_tried_once_more_and_not_again():
    steps = Steps(gone=[2])
    with pytest.raises(RefitAborted, match="second"):
        await steps.recovery().run(steps.transfer(RefitAborted("first"), RefitAborted("second")))
    assert steps.done.count("transfer") == 2


async def test_R53_where_nobody_is_gone_it_fails_with_the_first_error():
    steps = Steps(gone=[])
    with pytest.raises(RefitAborted, match="late") as raised:
        await steps.recovery().run(steps.transfer(RefitAborted("late")))
    assert steps.done == ["transfer", "probe"]
    assert "no rank is known to be gone" in raised.value.__notes__[0]


async def test_R8_R53_a_lost_context_is_not_recovered():
    steps = Steps(gone=[2])
    with pytest.raises(RefitAborted):
        await steps.recovery().run(steps.transfer(RefitAborted.context_lost("transfer")))
    assert steps.done == ["transfer"]


def test_R54_the_defaults():
    rules = RecoveryRules()
    assert (rules.probe_interval_s, rules.probe_timeout_s) == (5.0, 2.0)
    assert (rules.failures_to_condemn, rules.successes_to_trust) == (3, 2)
    assert rules.deadline_s is None
    assert rules.restarts is False
    assert rules.max_restarts_per_shard == 5


def test_R54_a_probe_must_end_before_the_next_one():
    with pytest.raises(ValueError, match="probe_timeout_s is 5"):
        RecoveryRules(probe_timeout_s=5.0)


def test_a_probe_may_be_given_less_than_a_second_but_not_none():
    assert RecoveryRules(probe_timeout_s=0.5).probe_timeout_s == 0.5
    with pytest.raises(ValueError, match="probe_timeout_s is 0"):
        RecoveryRules(probe_timeout_s=0.0)


async def test_a_deadline_of_less_than_a_second_is_one_and_what_is_too_late_is_cancelled(looptime):
    work = asyncio.ensure_future(asyncio.sleep(FOR_EVER_S))
    with pytest.raises(resurge.CollectiveAborted, match=r"30\.5 s"):
        await wait_for_workers(work, 0.5)
    assert looptime == 30.5
    await asyncio.wait([work], timeout=SOON_S)
    assert work.cancelled()


async def test_of_those_that_unwind_errors_are_noted_and_those_too_late_are_cancelled(caplog):
    async def fails():
        raise ValueError("straggler")

    gone = asyncio.ensure_future(asyncio.sleep(FOR_EVER_S))
    gone.cancel()
    late = asyncio.ensure_future(asyncio.sleep(FOR_EVER_S))
    with caplog.at_level(logging.DEBUG, "resurge"):
        assert await let_unwind([gone, late, fails(), asyncio.sleep(SOON_S)], 10.0) == 1
    assert [message for message in caplog.messages if "left a failed transfer" in message] == [
        "resurge: left a failed transfer by ValueError('straggler')"
    ]
    await asyncio.wait([late], timeout=SOON_S)
    assert late.cancelled()
