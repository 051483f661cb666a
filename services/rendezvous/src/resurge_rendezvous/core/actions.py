"""Everything rendezvous may want done. effects.py has one handler per action. Values only.

Answers to unary requests are `resurge_libs.core.machine.Reply`; a refused unary request raises a `Refused` from `step`.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import NodeId
from resurge_libs.core.machine import Reply
from resurge_libs.core.refusals import Refused
from resurge_libs.core.values import quick
from resurge_libs.core.verdict import IncidentView
from resurge_rendezvous.core.job import RecoveryRecord
from resurge_rendezvous.core.values import Desired


@quick
@dataclass(frozen=True, slots=True)
class SendDesired:
    """Send a node its whole desired state on its stream."""

    node: NodeId
    stream: str
    desired: Desired


@quick
@dataclass(frozen=True, slots=True)
class AnswerBeat:
    """Answer a beat; `lease_ttl_s` 0 grants nothing (the node lost its lease and still holds fenced workers)."""

    node: NodeId
    stream: str
    sequence: int
    launcher_sent: float
    received: float
    lease_ttl_s: float


@dataclass(frozen=True, slots=True)
class CloseStream:
    """End a stream; with a refusal when its launcher must know one, with None when a newer stream took its place."""

    node: NodeId
    stream: str
    refusal: Refused | None


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """Ask for a verdict; the answer is a `VerdictArrived` or `VerdictUnavailable` of the same incident and round."""

    view: IncidentView
    deadline_s: float
    question: int = 0
    """Its number, which the answer names."""


@dataclass(frozen=True, slots=True)
class PublishJob:
    """The job looks different now: tell observers."""


@dataclass(frozen=True, slots=True)
class AnnounceKey:
    """A key of the store was written: wake those who wait for it."""

    key: str


@dataclass(frozen=True, slots=True)
class ExportRecovery:
    """A recovery record was closed or amended: export its trace and tell policy."""

    record: RecoveryRecord


Action = SendDesired | AnswerBeat | CloseStream | AskPolicy | PublishJob | AnnounceKey | ExportRecovery | Reply
