"""Times to proto. Decides nothing; has no effects."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def timestamp(wall_s: float) -> Timestamp:
    """Unix seconds as a Timestamp."""
    seconds, nanos = divmod(round(wall_s * 1e9), 1_000_000_000)
    return Timestamp(seconds=seconds, nanos=nanos)


def duration(seconds: float) -> Duration:
    """Seconds as a Duration."""
    whole, nanos = divmod(round(seconds * 1e9), 1_000_000_000)
    return Duration(seconds=whole, nanos=nanos) if seconds >= 0 else negative(seconds)


def negative(seconds: float) -> Duration:
    """Seconds as a Duration, also fewer than none."""
    value = Duration()
    value.FromNanoseconds(round(seconds * 1e9))
    return value
