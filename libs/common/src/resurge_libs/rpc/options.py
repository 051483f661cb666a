"""The gRPC options of every server and channel of the house, from the table of time limits. Pure."""

from __future__ import annotations

import json

from resurge_libs.core.time_limits import TimeLimits

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 1024 * 1024
"""What may be under way on a stream before its reader asks for more: enough for 1 Gbit/s over 8 ms."""
MAX_PENDING_REQUESTS = 100_000
"""A burst of more than 1,000 simultaneous calls is silently cancelled at gRPC's own default."""
PINGERS_MAX = 2_000
"""From 2.5 times so many launchers of one job on, beats too come more rarely, and pings with them."""
PINGERS_USUAL = 400
"""So many ping at the pace of the table of time limits."""
RARER_THAN_BEATS = 2.5
"""Times `keepalive_s`: longer than from beat to beat. An answered beat stands for a ping, and what was sent and not
acknowledged ends a connection after `client_ping_timeout_s` as an unanswered ping does."""
LEASES_SILENT = 4
"""Leases for which nothing came on a connection before a server pings its peer."""

Options = list[tuple[str, str | int]]


def server_options(limits: TimeLimits) -> Options:
    """Options of a server. Its ping timeout is longer than a lease, so that an earlier close is the kernel's word."""
    return [
        ("grpc.server.max_pending_requests", MAX_PENDING_REQUESTS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_REQUESTS),
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", MAX_PENDING_REQUESTS),
        ("grpc.http2.ping_timeout_ms", _ms(limits.server_ping_timeout_s)),
        ("grpc.keepalive_timeout_ms", _ms(limits.server_ping_timeout_s)),
        # leases find dead launchers; our pings only clear their connections away, and ten thousand of them cost. So
        # only who is more silent than any living launcher, whose own pings come every few seconds, is pinged
        ("grpc.keepalive_time_ms", _ms(LEASES_SILENT * limits.lease_ttl_s)),
        *_both_sides(limits),
    ]


def channel_options(limits: TimeLimits, peers: int = 1) -> Options:
    """Options of a client channel: pings find a dead peer within `client_ping_timeout_s`.

    Where many peers ping one server each does so more rarely: 1,000 only where no beat is answered.
    """
    rarer = max(1.0, min(peers / PINGERS_USUAL, RARER_THAN_BEATS), peers / PINGERS_MAX)
    keepalive_s = limits.keepalive_s * rarer
    return [
        ("grpc.keepalive_time_ms", _ms(keepalive_s)),
        ("grpc.initial_reconnect_backoff_ms", _ms(limits.reconnect_backoff_min_s)),
        # how long one attempt may take: a peer that is merely busy must not look like one that is gone
        ("grpc.min_reconnect_backoff_ms", _ms(limits.reconnect_backoff_max_s)),
        ("grpc.max_reconnect_backoff_ms", _ms(limits.reconnect_backoff_max_s)),
        ("grpc.http2.ping_timeout_ms", _ms(limits.client_ping_timeout_s)),
        ("grpc.keepalive_timeout_ms", _ms(limits.client_ping_timeout_s)),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),  # retries are ours alone: by request id, and only where it is safe
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"pick_first": {}}]})),
        *_both_sides(limits),
    ]


def _both_sides(limits: TimeLimits) -> Options:
    return [
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
        # gRPC would follow what comes on a quiet connection with a ping, to learn how wide the window should be: a
        # seventh of what thousands of launchers cost a relay. One window serves them, and logs, as well
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
