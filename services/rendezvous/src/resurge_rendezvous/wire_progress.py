"""What launchers say of a cycle's progress: proto to core values, checked. Decides nothing."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.core.progress import CycleProgress, MarkerReading
from resurge_libs.rpc.progress import iteration_in
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations


def progress_of(progress: attach_pb2.CycleProgress, wrong: Violations, at: str) -> CycleProgress:
    """The value; what does not fit is added to `wrong`."""
    return CycleProgress(
        at_start=_marker_of(progress, "at_start", wrong, at),
        at_end=_marker_of(progress, "at_end", wrong, at),
        is_over=progress.is_over,
        sdk_step=iteration_in(progress, "sdk_step", wrong, at),
    )


def _marker_of(progress: attach_pb2.CycleProgress, field: str, wrong: Violations, at: str) -> MarkerReading | None:
    if not progress.HasField(field):
        return None
    reading: attach_pb2.MarkerReading = getattr(progress, field)
    value = iteration_in(reading, "value", wrong, f"{at}.{field}")
    return MarkerReading(value, "" if value is not None else reading.skipped[:MAX_SENTENCE_CHARACTERS] or "not said")
