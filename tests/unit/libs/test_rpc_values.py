"""Endpoints, tokens, deadlines, options: the parts of gRPC set-up that need no network."""

from __future__ import annotations

import socket

import pytest

from resurge_libs.core.ids import IncidentId
from resurge_libs.core.instant import Instant
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs.traceparent import TraceContext, parse_traceparent
from resurge_libs.rpc.auth import TokenFlawed, TokenMissing, is_right, require_token
from resurge_libs.rpc.context import call_metadata, trace_of
from resurge_libs.rpc.deadline import Deadline
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint
from resurge_libs.rpc.options import channel_options, server_options


@pytest.mark.parametrize(
    ("text", "endpoint", "target"),
    [
        ("node1:29400", Endpoint("node1", 29400), "node1:29400"),
        (" 10.0.0.1:1 ", Endpoint("10.0.0.1", 1), "10.0.0.1:1"),
        ("[::1]:29400", Endpoint("::1", 29400), "[::1]:29400"),
        ("unix:/run/r.sock", Endpoint(path="/run/r.sock"), "unix:/run/r.sock"),
        ("unix:///run/r.sock", Endpoint(path="/run/r.sock"), "unix:/run/r.sock"),
    ],
)
@pytest.mark.users_row(45)
def test_endpoints_as_people_write_them(text, endpoint, target):
    assert parse_endpoint(text) == endpoint
    assert endpoint.target == target


def test_a_default_port_stands_in():
    assert parse_endpoint("node1", default_port=29400) == Endpoint("node1", 29400)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("node1", "write node1:<port>"),
        ("", "no host"),
        (":29400", "no host"),
        ("node1:http", "port 'http' must be a number from 0 to 65535"),
        ("node1:70000", "0 to 65535"),
        ("node1:-1", "0 to 65535"),
        ("::1:29400", "[address]:port"),
        ("[::1:29400", "[address]:port"),
        ("tcp://node1:1", "must not be a URL"),
        ("unix:run/r.sock", "absolute path"),
        ("unix:/" + "x" * 120, "longer than 107 bytes"),
    ],
)
def test_a_bad_endpoint_says_what_would_be_right(text, right):
    with pytest.raises(BadEndpoint) as refused:
        parse_endpoint(text)
    assert right in str(refused.value)
    assert refused.value.exit_code == 2


def test_who_is_loopback_and_who_needs_a_token():
    for text in ("localhost:1", "127.0.0.1:1", "127.3.2.1:1", "[::1]:1", "unix:/a"):
        assert parse_endpoint(text).is_loopback, text
        require_token(parse_endpoint(text), None)
    for text in ("0.0.0.0:1", "10.0.0.1:1", "node1:1", "[::]:1"):
        with pytest.raises(TokenMissing, match="RESURGE_JOB_TOKEN"):
            require_token(parse_endpoint(text), "")
        require_token(parse_endpoint(text), "secret")


def test_this_host_is_known_by_its_names_and_addresses():
    assert parse_endpoint(f"{socket.gethostname()}:1").names_this_host()
    assert parse_endpoint("127.0.0.1:1").names_this_host()
    assert not parse_endpoint("192.0.2.7:1").names_this_host()  # an address for documents, nobody's
    assert not parse_endpoint("no-such-host.invalid:1").names_this_host()


@pytest.mark.parametrize("token", ["secret\n", " secret", "s\u00e9cret", "se\ncret"])
def test_a_token_that_no_call_could_carry_is_refused_at_start(token: str):
    for text in ("unix:/tmp/s", "127.0.0.1:1", "10.0.0.1:1"):
        with pytest.raises(TokenFlawed, match="RESURGE_JOB_TOKEN"):
            require_token(parse_endpoint(text), token)


def test_tokens_are_compared_whole():
    assert is_right("secret", "secret") and is_right(b"secret", "secret")
    for wrong in ("secre", "secret ", "", None):
        assert not is_right(wrong, "secret")


class Context:
    def __init__(self, left_s):
        self._left_s = left_s

    def time_remaining(self):
        return self._left_s


def test_a_deadline_only_shrinks():
    now = Instant(10.0)
    deadline = Deadline.of_call(Context(2.0), now, 5.0)
    assert deadline.left_s(now) == pytest.approx(1.98)
    assert deadline.shrunk_to(10.0, now) == deadline
    assert deadline.shrunk_to(0.5, now).left_s(now) == 0.5
    assert Deadline.of_call(Context(None), now, 5.0).left_s(now) == 5.0
    assert Deadline.of_call(Context(0.0), now, 5.0).is_over(now)


def test_trace_context_travels_in_metadata():
    context = TraceContext.of_recovery(IncidentId("i-1"))
    metadata = call_metadata("secret", context)
    assert trace_of(metadata) == context
    assert trace_of(call_metadata()) is None and call_metadata() == ()
    assert ("x-resurge-job-token", "secret") in metadata


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-00000000000000000000000000000000-0000000000000001-01",
        "00-00000000000000000000000000000001-0000000000000000-01",
        "ff-00000000000000000000000000000001-0000000000000001-01",
        "00-00000000000000000000000000000001-0000000000000001-01-more",
        "00-0000000000000000000000000000000G-0000000000000001-01",
    ],
)
def test_a_malformed_traceparent_is_absent(text):
    assert parse_traceparent(text) is None


def test_a_later_version_of_traceparent_is_read():
    found = parse_traceparent("01-00000000000000000000000000000001-0000000000000002-00-more")
    assert found is not None and not found.sampled


def test_pings_of_the_server_are_more_patient_than_a_lease_and_the_clients_less():
    limits = TimeLimits()
    server, client = dict(server_options(limits)), dict(channel_options(limits))
    lease_ms = limits.lease_ttl_s * 1000
    assert server["grpc.http2.ping_timeout_ms"] > lease_ms > client["grpc.http2.ping_timeout_ms"] == 2000
    assert server["grpc.server.max_pending_requests"] >= 10_000
    assert (client["grpc.initial_reconnect_backoff_ms"], client["grpc.max_reconnect_backoff_ms"]) == (200, 1000)
    for options in (server, client):
        assert options["grpc.http2.max_pings_without_data"] == 0
        assert options["grpc.http2.max_ping_strikes"] == 0
        assert options["grpc.http2.min_recv_ping_interval_without_data_ms"] == 500


def test_many_clients_ping_only_where_no_beat_is_answered():
    limits = TimeLimits()

    def pings_every_ms(peers: int) -> int:
        return int(dict(channel_options(limits, peers))["grpc.keepalive_time_ms"])

    assert pings_every_ms(400) == limits.keepalive_s * 1000
    assert pings_every_ms(1_000) > limits.beat_interval_s * 1000
    assert pings_every_ms(1_000) + limits.client_ping_timeout_s * 1000 < limits.lease_ttl_s * 1000
    assert pings_every_ms(2_000) == pings_every_ms(1_000) < pings_every_ms(10_000)


def test_a_server_pings_nobody_who_pings_it():
    limits = TimeLimits()
    server_ms = int(dict(server_options(limits))["grpc.keepalive_time_ms"])
    for peers in (1, 1_000, 2_000, 5_000):
        assert int(dict(channel_options(limits, peers))["grpc.keepalive_time_ms"]) < server_ms / 2
