"""Whether something listens at an endpoint: one connection, nothing said."""

from __future__ import annotations

import socket

from resurge_libs.rpc.endpoint import Endpoint

PROBE_LIMIT_S = 0.5


def answers(endpoint: Endpoint) -> bool:
    """Whether something accepts connections there. Blocks for at most PROBE_LIMIT_S per address."""
    if endpoint.is_unix:
        addresses = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", endpoint.path)]
    else:
        try:
            addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)  # type: ignore[assignment]
        except OSError:
            return False
    for family, kind, proto, _, address in addresses:
        with socket.socket(family, kind, proto) as probe:
            probe.settimeout(PROBE_LIMIT_S)
            try:
                probe.connect(address)
            except OSError:
                continue
            return True
    return False
