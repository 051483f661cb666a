"""Opens client channels with the house's options and the job token. Connects lazily; decides nothing."""

from __future__ import annotations

import grpc
import grpc.aio

from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.auth import require_token
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.options import channel_options


def open_channel(endpoint: Endpoint, limits: TimeLimits, token: str | None = None, peers: int = 1) -> grpc.aio.Channel:
    """An asyncio channel. Raises TokenProblem where the token is missing or flawed.

    `peers` is how many like this one the server may have. The token travels in each call's metadata: see
    `rpc.context.call_metadata`.
    """
    require_token(endpoint, token)
    return grpc.aio.insecure_channel(endpoint.target, options=channel_options(limits, peers))


def open_sync_channel(endpoint: Endpoint, limits: TimeLimits, token: str | None = None) -> grpc.Channel:
    """A channel for blocking calls, as command-line tools make them. Raises TokenProblem as `open_channel` does."""
    require_token(endpoint, token)
    return grpc.insecure_channel(endpoint.target, options=channel_options(limits))
