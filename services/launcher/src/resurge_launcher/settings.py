"""What one `resurge run` was told, typed and frozen.

Decides nothing about running; holds what was decided about the input. It never starts anything and never changes the
environment. `resurge_launcher.commands.run` builds the value; the agent only reads it.
"""

from __future__ import annotations

import enum
import hashlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resurge_launcher.core.findings import Captures
from resurge_launcher.core.reclaim import ReclaimRules
from resurge_launcher.worker_limits import WorkerLimits
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.progress import ProgressRules
from resurge_libs.core.recommendation import StopAction
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.endpoint import Endpoint

GRPC_VERBOSITY = "NONE"
"""Of gRPC's own log, unless the user says otherwise."""


CYCLE_INFO_VARIABLE = "RESURGE_RENDEZVOUS__CYCLE_INFO_DIR"
"""By which a control plane learns where the records of cycles go."""


class EntryKind(enum.Enum):
    """How the training program is started."""

    SCRIPT = "script"  # python -u train.py
    MODULE = "module"  # python -u -m package.train
    PROGRAM = "program"  # --no-python: the program itself


class Std(enum.IntFlag):
    """The standard streams of a worker that an option names, numbered as torchrun numbers them."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


class Warm(enum.Enum):
    """Whether workers are forked from a process that has made their imports already."""

    AUTO = "auto"  # where it can be done
    ON = "on"  # refused at start where it cannot be done
    OFF = "off"


class OnLostControl(enum.Enum):
    """What a launcher does with healthy workers once its lease is over and rendezvous is unreachable."""

    KEEP = "keep"  # they go on while they progress, at most lost_control_limit_s
    STOP = "stop"  # they end with the lease


class OnExcluded(enum.Enum):
    """What an excluded launcher does."""

    PARK = "park"  # stays without workers until the job ends, exits with the job's code
    EXIT = "exit"  # leaves at once with 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The training program and its arguments, untouched."""

    kind: EntryKind
    program: str
    args: tuple[str, ...] = ()

    def digest(self) -> str:
        """Tells two jobs of one id apart: the same program with the same arguments has the same digest."""
        whole = "\0".join((self.kind.value, Path(self.program).name, *self.args))
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    def command(self, python: str) -> tuple[str, ...]:
        """The command line of a worker; `python` is the interpreter for scripts and modules."""
        match self.kind:
            case EntryKind.SCRIPT:
                return (python, "-u", self.program, *self.args)
            case EntryKind.MODULE:
                return (python, "-u", "-m", self.program, *self.args)
            case EntryKind.PROGRAM:
                return (self.program, *self.args)


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Which streams of which local ranks: one answer for all, or one per rank (`0:1,1:2`; ranks not named: none)."""

    everywhere: Std = Std.NONE
    per_rank: Mapping[int, Std] = field(default_factory=dict)

    def of(self, local_rank: int) -> Std:
        """The streams chosen for one local rank."""
        return self.per_rank.get(local_rank, self.everywhere)


@dataclass(frozen=True, slots=True)
class Excluding:
    """What verdicts may exclude, who is told of exclusions, and what an excluded launcher does."""

    max_share: float = 0.2  # of the nodes, within the window
    window_s: float = 3600.0
    file: Path | None = None  # written by the control plane that is started here
    then: OnExcluded = OnExcluded.PARK  # what this launcher does when its machine is excluded


class LogWay(enum.Enum):
    """How the lines of workers come into the file of their cycle."""

    SERVER = "server"  # one log server writes it
    DIRECT = "direct"  # every node appends to it


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Where what workers print goes, and how."""

    way: LogWay
    prefix: Path
    spool_dir: Path  # of this node, on a local disk
    launcher_log: Path | None = None
    endpoint: Endpoint | None = None  # of the log server; None: nodes append
    leaves: tuple[Endpoint, ...] = ()  # between nodes and the log server
    first_leaf: int = 0  # of this node
    leaf_queue_blocks: int = 16_384
    serve_here: bool = False  # this launcher starts it if none answers
    sync: str = "interval"
    stop_limit_s: float = 10.0
    spool_limit_bytes: int = 10 * 1024**3
    servers_log_prefix: Path | None = None  # of what server and leaves started here say; None: in the state directory

    @property
    def own_leaves(self) -> tuple[Endpoint, ...]:
        """The leaves in the order in which this node tries them."""
        return self.leaves[self.first_leaf :] + self.leaves[: self.first_leaf]


@dataclass(frozen=True, slots=True)
class MachineId:
    """Which machine this is."""

    value: str = ""  # empty: not known
    is_given: bool = False  # by RESURGE_MACHINE_ID; else from /etc/machine-id


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """What gives notice to leave, and how a job that left ends."""

    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    exit_code: int = 0  # 0: 128 + the signal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One node's share of one job, as given by flags, environment, file and defaults. Durations are in seconds."""

    # the job
    job_id: str
    attempt: int = 0
    min_nodes: int = 1
    max_nodes: int = 1
    nproc_per_node: int = 1
    max_restarts: int = 0
    segment: int = 0  # 0: no constraint
    no_restart_exit_code: int = 93
    attribution_stop_action: StopAction = StopAction.LOG
    excluding: Excluding = Excluding()
    strict_fence: bool = False
    entry: Entry
    role: str = "default"

    # this node
    node_id: str
    host_name: str
    infra_rank: int | None = None  # --node-rank, else SLURM_PROCID, else GROUP_RANK
    domain: str = ""
    machine: MachineId = MachineId()
    local_addr: str | None = None  # as given
    take_over: bool = False

    # the control plane
    endpoint: Endpoint | None = None  # None: this launcher starts an embedded one
    relays: tuple[Endpoint, ...] = ()  # ways to the endpoint, tried before the endpoint itself
    serve_here: bool = False  # the endpoint names this host: this launcher starts the control plane if none answers
    is_id_made_up: bool = False  # nobody named the job: nobody comes back to it
    job_token: str = field(default="", repr=False)
    config_path: Path | None = None  # YAML given with --ft-cfg-path; `resurge serve` reads its own sections of it

    # faults and endings
    limits: TimeLimits = field(default_factory=TimeLimits)
    given_limits: Mapping[str, float] = field(default_factory=dict)  # those that were given, not derived
    rank_heartbeat_limit_s: float | None = 60.0  # None: a worker is never called hung
    worker_limits: WorkerLimits = field(default_factory=WorkerLimits)  # what the SDK in a worker is told
    capture_stacks: Captures = Captures.ALL
    on_lost_control: OnLostControl = OnLostControl.KEEP
    restarts: RestartRules = field(default_factory=RestartRules)
    progress: ProgressRules = field(default_factory=ProgressRules)
    checkpoint_marker: Path | None = None  # the file that names the newest completed checkpoint
    signals_to_handle: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

    reclaim: ReclaimRules | None = None  # None: no GPU here, no restart allowed, or switched off
    draining: DrainSettings = field(default_factory=lambda: DrainSettings())

    # the start of workers
    warm: Warm = Warm.AUTO
    preload: tuple[str, ...] = ()

    # files
    state_dir: Path  # the control plane's durable state, when this launcher starts one
    run_dir: Path  # sockets, pages, flock of this launcher; short enough for a Unix socket; not yet created
    log_dir: Path | None = None  # None: under state_dir
    logs: LogPlan | None = None  # None: output reaches the terminal and per-rank files of this node
    cycle_info_dir: Path | None = None  # records of cycles for workers and tools; None: workers are told of none
    redirects: StreamChoice = StreamChoice()
    tee: StreamChoice = StreamChoice()
    local_ranks_filter: frozenset[int] | None = None  # None: every rank's output reaches the terminal

    # what workers inherit
    python: str  # interpreter of scripts and modules (PYTHON_EXEC, else ours)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)  # snapshot at start

    # sentences to be said once at start (spares, options without effect)
    notices: tuple[str, ...] = ()

    @property
    def log_root(self) -> Path:
        """Where the output of this job's workers goes."""
        return ((self.log_dir or self.state_dir / "logs") / self.job_id).absolute()

    @property
    def term_timeout_s(self) -> float:
        """From a forwarded signal to KILL when the launcher itself was told to end."""
        return self.limits.drain_grace_s

    @property
    def handled_signals(self) -> tuple[int, ...]:
        """The signals that the launcher does something about, each once."""
        return tuple(sorted({int(number) for number in (*self.signals_to_handle, *self.draining.signals)}))

    @property
    def control_environ(self) -> dict[str, str]:
        """The environment of a control plane started here: what was given as a flag counts for it as well."""
        variables = {f"RESURGE_LIMITS__{name.upper()}": repr(value) for name, value in self.given_limits.items()}
        if self.cycle_info_dir is not None:
            variables[CYCLE_INFO_VARIABLE] = str(self.cycle_info_dir)
        if self.excluding.file is not None:
            variables["RESURGE_RENDEZVOUS__EXCLUSION_FILE"] = str(self.excluding.file)
        return {"GRPC_VERBOSITY": GRPC_VERBOSITY, **self.environ, **variables}

    @property
    def command_digest(self) -> str:
        """Digest of program and arguments."""
        return self.entry.digest()


def environment() -> dict[str, str]:
    """The environment as it stands at start; nothing else of the launcher reads it."""
    return dict(os.environ)


def calm_grpc() -> None:
    """Before gRPC is imported: its fork handlers stay out, for workers are exec'd and never forked from here; and so
    do its own log lines, for what went wrong is told by our events."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", GRPC_VERBOSITY)
