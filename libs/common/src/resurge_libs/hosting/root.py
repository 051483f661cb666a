"""The root of a service that stands between it and others, as a setting names it."""

from __future__ import annotations

from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.auth import TokenMissing, require_token
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint


def root_of(text: str, field: str, wanted: str, token: str | None) -> Endpoint:
    """The endpoint that `field` names. Raises UsageError, with `wanted` for what would be right."""
    if not text:
        raise UsageError(field, "is missing", wanted)
    try:
        root = parse_endpoint(text)
        require_token(root, token)
    except BadEndpoint as error:
        raise UsageError(field, str(error), wanted) from error
    except TokenMissing as error:
        raise UsageError(field, str(error), "set RESURGE_JOB_TOKEN") from error
    return root
