"""The names of spans and attributes, in one place, so that dashboards and tests find them. Pure."""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class SpanName(StrEnum):
    """The spans of one recovery."""

    RECOVERY = "recovery"
    DETECT = "detect"
    DECIDE = "decide"
    TEARDOWN = "teardown"
    RECLAIM = "reclaim"
    HEALTH_CHECK = "health_check"
    RENDEZVOUS = "rendezvous"
    SPAWN = "spawn"
    INIT = "init"
    CHECKPOINT_RESTORE = "checkpoint_restore"
    FIRST_STEP = "first_step"


@unique
class Attr(StrEnum):
    """The attributes of spans; all begin with `resurge.`."""

    JOB = "resurge.job"
    NODE = "resurge.node"
    RANK = "resurge.rank"
    INCIDENT = "resurge.incident"
    GENERATION = "resurge.generation"
    OLD_GENERATION = "resurge.old_generation"
    CYCLE = "resurge.cycle"
    ATTEMPT = "resurge.attempt"
    INCARNATION = "resurge.incarnation"
    REASON = "resurge.reason"
    SENTENCE = "resurge.sentence"
    VERDICT = "resurge.verdict"
    VERDICT_SOURCE = "resurge.verdict_source"
    CULPRIT = "resurge.culprit"
    RESTARTS_LEFT = "resurge.restarts_left"
    SERVICE = "resurge.service"
    CLOCK_ERROR = "resurge.clock_error_s"
    OUTCOME = "resurge.outcome"
