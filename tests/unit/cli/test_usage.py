"""What people are told: the nearest word, and which addresses were tried and why each failed."""

from __future__ import annotations

import pytest

from resurge_launcher.usage import (
    ConnectAttempt,
    UsageProblem,
    attempt_of,
    foreign_answer,
    nearest,
    sentence_of,
    unreachable,
)

GONE = "UNAVAILABLE: failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("complaint", "address", "why"),
    [
        (f"{GONE}UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused", "127.0.0.1:1",
         "Connection refused"),
        (f"{GONE}UNKNOWN: ipv6:%5B::1%5D:2: Failed to connect to remote host: Connection refused", "[::1]:2",
         "Connection refused"),
        (f"{GONE}FAILED_PRECONDITION: unix:/x.sock: connect failed: addr: unix:/x.sock error: No such file",
         "unix:/x.sock", "No such file"),
        ("UNAVAILABLE: errors resolving n0:1: [field:hostname lookup error:address lookup failed for n0:1: Not found]",
         "n0:9", "Not found"),
        ("rendezvous said nothing for 5 s", "n0:9", "rendezvous said nothing for 5 s"),
    ],
)  # fmt: skip
def test_a_transports_complaint_is_told_as_address_and_reason(complaint, address, why):
    assert attempt_of("n0:9", complaint, 1.5) == ConnectAttempt(address, why, 1.5)


def test_every_address_is_named_once_with_its_last_error():
    tries = [
        ConnectAttempt("10.0.0.1:9", "Connection refused", 0.1),
        ConnectAttempt("10.0.0.2:9", "No route to host", 0.5),
        ConnectAttempt("10.0.0.1:9", "Timed out", 3.0),
    ]
    said = sentence_of(unreachable("n0:9", tries), "run")
    assert said.startswith("resurge run: --rdzv-endpoint: no control plane answered at n0:9: tried for 3.0 s")
    assert "10.0.0.1:9: Timed out; 10.0.0.2:9: No route to host" in said
    assert "nothing was started" in said
    assert "resurge serve" in said


@pytest.mark.parametrize(
    ("complaint", "what"),
    [
        ("UNIMPLEMENTED: Received http2 header with status: 404", "HTTP status 404"),
        ("UNAVAILABLE: Trying to connect an http1.x server", "HTTP/1"),
    ],
)
def test_what_is_no_control_plane_is_told_with_the_endpoint_and_a_remedy(complaint, what):
    said = foreign_answer("n0:9", complaint)
    assert "n0:9" in said and what in said and "no_proxy" in said
    assert not foreign_answer("n0:9", f"{GONE}UNKNOWN: ipv4:127.0.0.1:1: Connection refused")


def test_what_somebody_typed_is_quoted_as_it_is():
    said = sentence_of(UsageProblem("--rdzv-id", "'../../etc/x' is no job id.", "Give letters."), "run")
    assert said == "resurge run: --rdzv-id: '../../etc/x' is no job id. Give letters."


def test_no_try_at_all_is_said():
    assert "no address could be tried" in str(unreachable("n0:9", []))


def test_an_abbreviation_is_nearer_than_a_similar_word():
    assert nearest("--nproc", ["--nnodes", "--nproc-per-node"]) == "--nproc-per-node"
    assert nearest("--max-restrats", ["--max-restarts", "--tee"]) == "--max-restarts"
    assert nearest("--zzz", ["--max-restarts"]) is None
