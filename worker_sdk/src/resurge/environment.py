"""What a worker is told by its environment: the names, and the one place of the SDK that reads them.

The launcher writes RESURGE_* beside the variables of torchrun. A variable that is missing or cannot be read as what it
should be takes its default: a worker without a launcher is an ordinary case, and a training script is never stopped by
a bad variable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from resurge.limits import DEFAULT_SAFETY_FACTOR, DEFAULT_WARMUP_STEPS, GivenLimits

PAGE = "RESURGE_PAGE"
"""Path of the worker's shared page."""
SOCKET = "RESURGE_SOCKET"
"""Path of the launcher's Unix socket."""
GENERATION = "RESURGE_GENERATION"
CYCLE = "RESURGE_CYCLE"
JOB_ID = "RESURGE_JOB_ID"
ENDPOINT = "RESURGE_ENDPOINT"
"""Of rendezvous, for a process without a launcher on its node: host:port or unix:/path."""
POLICY_ENDPOINT = "RESURGE_POLICY_ENDPOINT"
"""Of restart policy; missing: as rendezvous."""
NODE_ID = "RESURGE_NODE_ID"
JOB_TOKEN = "RESURGE_JOB_TOKEN"
BEAT_LIMIT_S = "RESURGE_BEAT_LIMIT_S"
"""Limit between two beats when the script gives none; 0 or missing means no limit."""
FIRST_BEAT_LIMIT_S = "RESURGE_FIRST_BEAT_LIMIT_S"
"""Limit from the start of a worker's SDK to its first beat; 0 or missing means no limit."""
SECTION_LIMITS = "RESURGE_SECTION_LIMITS"
"""Limits of named sections, as name:seconds,name:seconds."""
OUT_OF_SECTION_LIMIT_S = "RESURGE_OUT_OF_SECTION_LIMIT_S"
SAFETY_FACTOR = "RESURGE_SAFETY_FACTOR"
WARMUP_STEPS = "RESURGE_WARMUP_STEPS"
FENCE_WAIT_S = "RESURGE_FENCE_WAIT_S"
"""How long a fence waits for the lease to come back when the script does not say."""
DEFAULT_FENCE_WAIT_S = 30.0
TRACEPARENT = "TRACEPARENT"
RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
"""The store of the generation, of which every worker is a client where the launcher has one served."""
RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
REFIT_HOLD_FILE = "NRL_REFIT_HOLD_FILE"
"""While a file of this name exists, a refit holds still: for tests that strike in its middle."""
REFIT_HOLD_MAX_S = "NRL_REFIT_HOLD_MAX_S"
DEFAULT_REFIT_HOLD_MAX_S = 120.0
CRASH_GRACE = ("RESURGE_RANK_CRASH_HARD_KILL_GRACE", "TLLM_RANK_CRASH_HARD_KILL_GRACE")
"""Seconds from the crash of a rank's loop to the end of its world; the first that is set counts."""
DEFAULT_CRASH_GRACE_S = 10.0
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """One worker's environment, as values."""

    page: str = ""
    socket: str = ""
    job_id: str = ""
    generation: int = 0
    cycle: int = 0
    rank: int = 0
    world_size: int = 1
    local_world_size: int = 0
    """Ranks on this node; 0 where that is not told."""
    beat_limit_s: float = 0.0
    fence_wait_s: float = DEFAULT_FENCE_WAIT_S
    traceparent: str = ""
    error_file: str = ""
    master_addr: str = ""
    master_port: int = 0
    limits: GivenLimits = field(default_factory=GivenLimits)
    endpoint: str = ""
    policy_endpoint: str = ""
    node_id: str = ""
    token: str = field(default="", repr=False)


def read_environment(variables: Mapping[str, str] | None = None) -> WorkerEnvironment:
    """The environment of this process, or the one given."""
    found: Mapping[str, str] = os.environ if variables is None else variables
    return WorkerEnvironment(
        page=found.get(PAGE, ""),
        socket=found.get(SOCKET, ""),
        job_id=found.get(JOB_ID, ""),
        generation=_whole(found, GENERATION, 0),
        cycle=_whole(found, CYCLE, _whole(found, RESTART_COUNT, 0)),
        rank=_whole(found, RANK, 0),
        world_size=_whole(found, WORLD_SIZE, 1),
        local_world_size=_whole(found, LOCAL_WORLD_SIZE, 0),
        beat_limit_s=_seconds(found, BEAT_LIMIT_S, 0.0),
        fence_wait_s=_seconds(found, FENCE_WAIT_S, DEFAULT_FENCE_WAIT_S),
        traceparent=found.get(TRACEPARENT, ""),
        error_file=found.get(ERROR_FILE, ""),
        master_addr=found.get(MASTER_ADDR, ""),
        master_port=_whole(found, MASTER_PORT, 0),
        limits=_limits(found),
        endpoint=found.get(ENDPOINT, ""),
        policy_endpoint=found.get(POLICY_ENDPOINT, ""),
        node_id=found.get(NODE_ID, ""),
        token=found.get(JOB_TOKEN, ""),
    )


def write_place(rank: int, world_size: int) -> None:
    """A function that restarts in place has another rank now; what reads the variables is to see it."""
    os.environ[RANK], os.environ[WORLD_SIZE] = str(rank), str(world_size)


def _limits(found: Mapping[str, str]) -> GivenLimits:
    return GivenLimits(
        first_beat_s=_seconds(found, FIRST_BEAT_LIMIT_S, 0.0) or None,
        beat_s=_seconds(found, BEAT_LIMIT_S, 0.0) or None,
        sections_s=_sections(found.get(SECTION_LIMITS, "")),
        out_of_section_s=_seconds(found, OUT_OF_SECTION_LIMIT_S, 0.0) or None,
        safety_factor=_seconds(found, SAFETY_FACTOR, 0.0) or DEFAULT_SAFETY_FACTOR,
        warmup_steps=_whole(found, WARMUP_STEPS, DEFAULT_WARMUP_STEPS),
    )


def _sections(text: str) -> dict[str, float]:
    """What can be read of the list; the launcher has refused what cannot."""
    pairs = (entry.rpartition(":") for entry in text.split(","))
    limits = {name.strip(): _seconds({name: value}, name, 0.0) for name, _, value in pairs}
    return {name: limit_s for name, limit_s in limits.items() if name and limit_s > 0}


def refit_hold(variables: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The path that holds a refit, empty for none, and for how many seconds at most; read anew at each call."""
    found: Mapping[str, str] = os.environ if variables is None else variables
    return found.get(REFIT_HOLD_FILE, ""), _seconds(found, REFIT_HOLD_MAX_S, DEFAULT_REFIT_HOLD_MAX_S)


def crash_grace(variables: Mapping[str, str] | None = None) -> tuple[float, str]:
    """The grace after a crash in seconds, negative for never; and what is wrong with the variable, or nothing."""
    found: Mapping[str, str] = os.environ if variables is None else variables
    name = next((name for name in CRASH_GRACE if found.get(name, "")), "")
    if not name:
        return DEFAULT_CRASH_GRACE_S, ""
    try:
        value = float(found[name])
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value, ""
    problem = f"{name} is {found[name]!r}, a finite number of seconds is needed: taking {DEFAULT_CRASH_GRACE_S:g}"
    return DEFAULT_CRASH_GRACE_S, problem


def _whole(found: Mapping[str, str], name: str, default: int) -> int:
    text = found.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else default


def _seconds(found: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(found.get(name, ""))
    except ValueError:
        return default
    return value if 0.0 <= value < float("inf") else default
