"""The names of things. Decides nothing but which of two fencing tokens is older; has no effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
IncidentId = NewType("IncidentId", str)
RequestId = NewType("RequestId", str)

Incarnation = NewType("Incarnation", int)
"""Raised each time the launcher of a node starts."""
Generation = NewType("Generation", int)
"""Raised whenever a round closes, over the whole life of a job id: the fencing number."""
Attempt = NewType("Attempt", int)
"""One launch of the job by its scheduler."""
Cycle = NewType("Cycle", int)
"""The count of generations within an attempt, from 0: what people see."""
Rank = NewType("Rank", int)
"""A worker's number in one generation."""

TraceId = NewType("TraceId", bytes)
"""16 bytes."""
SpanId = NewType("SpanId", bytes)
"""8 bytes."""


@dataclass(frozen=True, slots=True, order=False)
class FencingToken:
    """What every write carries, so that a holder of an older generation is refused."""

    job: JobId
    attempt: Attempt
    generation: Generation
