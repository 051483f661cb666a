"""What a host was told, from all sources; and the reasons for which it ends."""

import asyncio
from pathlib import Path

import pytest

from resurge_host.targets import TARGETS
from resurge_libs.config.settings import UsageProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.hosting.run import EXIT_FAILED, EXIT_OK, Ending
from resurge_libs.hosting.settings import HostSettings, LimitSettings, chosen_targets, plan
from resurge_libs.hosting.usage import UsageError

STATE = {"state_dir": "/somewhere"}


def names(*wanted):
    return [target.name for target in chosen_targets(wanted, TARGETS)]


def test_targets_are_chosen_by_name_list_or_all_in_the_hosts_order():
    assert names("all") == ["restart_policy", "rendezvous", "log_aggregator"]
    assert names("rendezvous,restart_policy") == names("rendezvous", "restart_policy") == names("all")[:2]
    assert names("rendezvous") == ["rendezvous"]
    for target in TARGETS:
        assert chosen_targets(["all"], [target]) == (target,), "who knows one service serves it, whatever it stands for"
    with pytest.raises(UsageError, match="did you mean 'restart_policy'"):
        names("restart-policy")
    with pytest.raises(UsageError, match="is empty"):
        names(" ")


def test_no_two_settings_of_a_host_share_a_flag():
    classes = [HostSettings, LimitSettings, *(target.settings for target in TARGETS)]
    flags = [name for cls in classes for name in cls.model_fields]
    assert len(flags) == len(set(flags))


def test_limits_derive_from_the_given_ones():
    planned = plan(TARGETS, {**STATE, "lease_ttl_s": "2"}, None, {"RESURGE_LIMITS__QUORUM_WAIT_S": "30"})
    assert (planned.limits.lease_ttl_s, planned.limits.beat_interval_s, planned.limits.quorum_wait_s) == (
        2.0,
        0.8,
        30.0,
    )
    assert planned.host.state_dir == Path("/somewhere")


@pytest.mark.users_row(39)
@pytest.mark.users_row(47)
def test_every_limit_of_the_table_is_a_setting_in_the_words_of_all_commands():
    assert set(LimitSettings.model_fields) == {row.name for row in TimeLimits().table()}
    environ = {"RESURGE_LIMITS__LEASE_TTL_S": "4000ms", "RESURGE_LIMITS__HANG_LIMIT_S": "none"}
    assert plan(TARGETS, STATE, None, environ).limits.lease_ttl_s == 4.0
    with pytest.raises(UsageProblem, match=r"limits.lease_ttl_s.*not a duration"):
        plan(TARGETS, STATE, None, {"RESURGE_LIMITS__LEASE_TTL_S": "soon"})


def test_one_file_serves_launchers_and_services_together_or_apart(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("launcher: {nnodes: 2}\nrendezvous: {hello_limit_s: 3}\npolicy: {fast_failure_s: 9}\nlimits: {}\n")
    for known in (TARGETS, TARGETS[:1], TARGETS[1:]):
        planned = plan(
            known, STATE, str(path), {"RESURGE_RENDEZVOUS__SNAPSHOT_EVERY": "7", "RESURGE_HOST__LISTEN": "a:1"}
        )
        assert planned.listen.host == "a"
    path.write_text("rendezvouz: {}\n")
    with pytest.raises(UsageProblem, match="did you mean 'rendezvous'"):
        plan(TARGETS[:1], STATE, str(path), {})


def test_two_limits_in_a_wrong_order_are_both_named():
    with pytest.raises(UsageProblem, match="lease_ttl_s") as refused:
        plan(TARGETS, {**STATE, "lease_ttl_s": "0.1"}, None, {})
    assert "fault_grace_s" in str(refused.value)


def test_the_secret_and_the_exporter_come_from_the_environment():
    environ = {"RESURGE_JOB_TOKEN": "s", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}
    planned = plan(TARGETS, STATE, None, environ)
    assert (planned.token, planned.otlp_endpoint) == ("s", "http://127.0.0.1:4317")
    assert (plan(TARGETS, STATE, None, {}).token, plan(TARGETS, STATE, None, {}).otlp_endpoint) == (None, None)


def test_policy_alone_needs_no_state_directory():
    assert plan(TARGETS, {"targets": ("restart_policy",)}, None, {}).host.state_dir is None
    with pytest.raises(UsageError, match="--state-dir"):
        plan(TARGETS, {"targets": ("rendezvous",)}, None, {})


def test_rendezvous_alone_is_told_where_the_policy_is():
    [rendezvous] = [target for target in TARGETS if target.name == "rendezvous"]
    arguments = {**STATE, "addresses": ("restart_policy=policy.example:7471",)}
    planned = plan([rendezvous], arguments, None, {})
    assert planned.addresses["restart_policy"].target == "policy.example:7471"
    with pytest.raises(UsageError, match="did you mean 'restart_policy'"):
        plan([rendezvous], {**STATE, "addresses": ("restart-policy=a:1",)}, None, {})


async def test_the_first_reason_to_end_stays():
    ending = Ending(exit_when_ended=True)
    ending.now(EXIT_OK, "SIGTERM")
    ending.now(EXIT_FAILED, "later")
    assert (await ending.wait(), ending.reason) == (EXIT_OK, "SIGTERM")


async def test_a_new_attempt_calls_the_end_off_and_a_failure_does_not_wait_for_it(monkeypatch):
    monkeypatch.setattr("resurge_libs.hosting.run.ENDED_LINGER_S", 0.02)
    monkeypatch.setattr("resurge_libs.hosting.run.FAILED_LINGER_S", 0.01)
    ending = Ending(exit_when_ended=True)
    ending.ended(True)
    ending.ended(False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ending.wait(), 0.1)
    ending.ended(True)
    assert await ending.wait() == EXIT_OK
    failing = Ending(exit_when_ended=True)
    failing.ended(True)
    failing.failed("no space left on device")
    failing.ended(False)
    assert (await failing.wait(), failing.reason) == (EXIT_FAILED, "no space left on device")
