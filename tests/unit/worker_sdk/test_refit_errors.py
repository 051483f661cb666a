"""The errors of a refit: R1 to R8 of the watchdog's statements."""

import pickle

import pytest

from resurge import refit_watchdog
from resurge.refit_watchdog import (
    REFIT_ABORTED_TOKEN,
    REFIT_CONTEXT_LOST_TOKEN,
    RefitAborted,
    is_refit_abort,
    is_refit_context_lost,
)


def test_R1_tokens_and_grace():
    assert REFIT_ABORTED_TOKEN == "[refit-aborted]"
    assert REFIT_CONTEXT_LOST_TOKEN == "[refit-context-lost]"
    assert refit_watchdog.RELEASE_GRACE_S == 30.0


def test_R2_the_token_is_put_in_front_and_other_arguments_stay():
    error = RefitAborted("the peer is silent", 7, None)
    assert isinstance(error, RuntimeError)
    assert error.args == ("[refit-aborted] the peer is silent", 7, None)


@pytest.mark.parametrize("again", [lambda e: RefitAborted(str(e)), lambda e: pickle.loads(pickle.dumps(e))])
def test_R3_the_token_stands_once(again):
    error = again(again(RefitAborted("late")))
    assert type(error) is RefitAborted
    assert str(error).count(REFIT_ABORTED_TOKEN) == 1
    assert is_refit_abort(error)


@pytest.mark.parametrize("args", [(), (None,), (7, "text"), (ValueError("inner"),)])
def test_R4_construction_never_fails_and_adds_no_token_then(args):
    assert RefitAborted(*args).args == args
    assert is_refit_abort(RefitAborted(*args))


def test_R5_a_flattened_abort_is_recognised():
    flattened = Exception(f"EngineCore: RuntimeError: {RefitAborted('late')}")
    assert is_refit_abort(flattened)
    assert is_refit_abort(RefitAborted())


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory in update_weights_refit"),
        ValueError("refit aborted: shape mismatch"),
        Exception("RefitAbortWatchdog"),
        KeyError("refit-aborted"),
    ],
)
def test_R6_another_error_is_no_abort(error):
    assert not is_refit_abort(error)
    assert not is_refit_context_lost(error)


def test_R6_an_error_that_cannot_be_printed_is_no_abort():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert not is_refit_abort(Mute())


def test_R7_context_lost_survives_flattening_and_a_plain_abort_is_not_it():
    lost = RefitAborted.context_lost("bulk transfer")
    assert is_refit_context_lost(lost)
    assert is_refit_context_lost(Exception(str(lost)))
    assert not is_refit_context_lost(RefitAborted("late"))


def test_R8_context_lost_is_an_abort_that_says_what_and_is_not_to_be_rebuilt():
    lost = RefitAborted.context_lost("bulk transfer")
    assert isinstance(lost, RefitAborted)
    assert "bulk transfer" in str(lost)
    assert is_refit_abort(Exception(str(lost)))
