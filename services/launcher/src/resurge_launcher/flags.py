"""The options of `resurge run`: one row each. Flag, variables, YAML key, help and the reference page all come from it.

A table; decides nothing. Spelling with dashes and with underscores is the same option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any

from resurge_launcher.commands import values
from resurge_libs.core.limit_rows import DERIVED, ROWS
from resurge_libs.core.time_limits import TimeLimits

SECTIONS = ("launcher", "limits")
FOREIGN_SECTIONS = ("host", "policy", "rendezvous", "worker")  # read by `resurge serve` and by others


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting of `resurge run`."""

    name: str  # field of its section
    flags: tuple[str, ...]
    parse: Callable[[str], Any]
    help: str
    metavar: str = "TEXT"
    default: str | None = None  # as it would be written; None: see help
    section: str = "launcher"
    group: str = ""
    is_switch: bool = False
    is_torchruns: bool = False  # PET_<NAME> is its second variable
    has_effect: bool = True
    is_common: bool = True  # shown by --help; the reference page shows all

    @property
    def flag(self) -> str:
        """Its first long spelling."""
        return next(flag for flag in self.flags if flag.startswith("--"))

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"RESURGE_{self.section.upper()}__{self.name.upper()}"

    @property
    def pet_variables(self) -> tuple[str, ...]:
        """torchrun's own variables for it."""
        if not self.is_torchruns:
            return ()
        names = (flag.removeprefix("--").replace("-", "_").upper() for flag in self.flags if flag.startswith("--"))
        return tuple(f"PET_{name}" for name in names)

    @property
    def key(self) -> str:
        """Its name in the YAML file, with its section."""
        return f"{self.section}.{self.name}"


JOB, NODE, CONTROL, FAULTS, FILES, LIMITS, QUIET = (
    "Job", "This node", "Control plane", "Faults and endings", "Program and output", "Time limits", "Without effect",
)  # fmt: skip

_torch = partial(Option, is_torchruns=True)
_whole = values.whole

_JOB = (
    _torch(name="nnodes", flags=("--nnodes",), parse=values.nnodes, metavar="N|MIN:MAX", default="1", group=JOB,
           help="Nodes that run. With MIN:MAX exactly MIN run and the other MAX-MIN wait as spares."),
    _torch(name="nproc_per_node", flags=("--nproc-per-node",), parse=values.nproc, metavar="N|cpu|gpu|auto",
           default="1", group=JOB, help="Workers on this node; auto: one per GPU, else one per CPU."),
    _torch(name="job_id", flags=("--rdzv-id", "--job-id"), parse=values.job_id, metavar="ID", group=JOB,
           help="Name of the job. Default: the Slurm job id, else a new name on one node, 'default' on several."),
    _torch(name="max_restarts", flags=("--max-restarts",), parse=partial(_whole, low=0, high=1_000_000), metavar="N",
           default="0", group=JOB, help="Restarts allowed for the whole job; counted once, not per node."),
    Option(name="max_restarts_by_cause", flags=("--max-restarts-by-cause",), parse=values.pairs,
           metavar="CAUSE=N,...", default="", group=JOB,
           help="Restarts allowed for single causes, beside --max-restarts: exit, signal, oom, hardware, hang, node, "
                "start, other; docs/policy.md."),
    Option(name="restart_refund_after", flags=("--restart-refund-after",), parse=values.seconds, metavar="S",
           default="0", group=JOB,
           help="After so long without a fault one restart is given back, and again after each further such time. "
                "0: never."),
    Option(name="restart_backoff", flags=("--restart-backoff",), parse=values.pairs, metavar="K=V,...", default="",
           group=JOB, is_common=False,
           help="Waits of a crash loop: first, factor, max, fast, free, jitter. Default: as the policy service is set "
                "up; docs/policy.md."),
    Option(name="segment", flags=("--segment", "--ft-segment"), parse=partial(_whole, low=0, high=values.MAX_NODES),
           metavar="N", default="0", group=JOB,
           help="Nodes of one topology domain that stand together; MIN must be a multiple of it. 0: no constraint."),
    Option(name="attempt", flags=("--attempt",), parse=partial(_whole, low=0, high=2**31), metavar="N", group=JOB,
           help="Launch of the job by its scheduler. Default: SLURM_RESTART_COUNT + 1, else 0.", is_common=False),
    Option(name="strict_fence", flags=("--strict-fence",), parse=values.switch, is_switch=True, default="0", group=JOB,
           help="Workers commit only behind resurge.fence(); a lost generation may then be replaced unseen."),
)  # fmt: skip

_NODE = (
    Option(name="node_id", flags=("--node-id",), parse=values.node_id, metavar="NAME", group=NODE,
           help="Identity of this node. Default: Slurm's node name and id, else the node rank, else the host name."),
    _torch(name="node_rank", flags=("--node-rank",), parse=partial(_whole, low=0, high=values.MAX_NODES), metavar="N",
           group=NODE, help="Place of this node; ranks follow it. Default: SLURM_PROCID, else GROUP_RANK."),
    _torch(name="local_addr", flags=("--local-addr",), parse=values.text, metavar="ADDR", group=NODE,
           help="Address under which other nodes reach this one. Default: found by the route to the endpoint."),
    Option(name="domain", flags=("--domain",), parse=values.text, metavar="NAME", group=NODE,
           help="Topology of this node, as block.rack: for --segment, and a spare from nearby goes first. Default: "
                "SLURM_TOPOLOGY_ADDR without the node."),
    Option(name="take_over", flags=("--take-over",), parse=values.switch, is_switch=True, default="0", group=NODE,
           help="Take this node over from a live launcher of the same job. That one is killed (137), and a running "
                "job is started again, which costs a restart: see --max-restarts."),
)  # fmt: skip

_CONTROL = (
    _torch(name="standalone", flags=("--standalone",), parse=values.switch, is_switch=True, default="0", group=CONTROL,
           help="One node with its own control plane; an endpoint is ignored."),
    _torch(name="rdzv_endpoint", flags=("--rdzv-endpoint", "--endpoint"), parse=values.endpoint, metavar="HOST:PORT",
           group=CONTROL, help="Where the control plane is; unix:/PATH for a socket. One node needs none."),
    Option(name="relay", flags=("--relay",), parse=values.endpoints, metavar="HOST:PORT,...", group=CONTROL,
           help="Relays to the control plane, tried before --rdzv-endpoint; for jobs of some thousand nodes."),
    _torch(name="master_addr", flags=("--master-addr",), parse=values.text, metavar="ADDR", group=CONTROL,
           help="torchrun's static style: several nodes meet at MASTER_ADDR:MASTER_PORT."),
    _torch(name="master_port", flags=("--master-port",), parse=values.port, metavar="PORT", default="29500",
           group=CONTROL, help="See --master-addr."),
    _torch(name="rdzv_conf", flags=("--rdzv-conf",), parse=values.pairs, metavar="K=V,...", group=CONTROL,
           help="is_host=BOOL: start the control plane here or not. Also join_timeout, segment."),
    _torch(name="rdzv_backend", flags=("--rdzv-backend",), parse=values.one_of("c10d", "static", "resurge"),
           metavar="NAME", default="resurge", group=CONTROL,
           help="c10d and static are accepted; Resurge's own is used."),
    Option(name="state_dir", flags=("--state-dir",), parse=values.text, metavar="DIR", group=CONTROL,
           help="Durable state of the job; a local file system. Default: $XDG_STATE_HOME/resurge/ID, else "
                "/var/tmp/resurge-UID/ID."),
    Option(name="run_dir", flags=("--run-dir",), parse=values.text, metavar="DIR", group=CONTROL, is_common=False,
           help="Sockets and pages of this launcher. Default: under $XDG_RUNTIME_DIR, else the temporary directory."),
)  # fmt: skip

_FAULTS = (
    Option(name="on_lost_control", flags=("--on-lost-control",), parse=values.one_of("keep", "stop"),
           metavar="keep|stop", default="keep", group=FAULTS,
           help="Without control plane, healthy workers are kept while they progress, or stop with the lease."),
    Option(name="on_excluded", flags=("--on-excluded",), parse=values.one_of("park", "exit"), metavar="park|exit",
           default="park", group=FAULTS, help="An excluded node waits for the job's end, or leaves at once with 1."),
    Option(name="max_excluded_share", flags=("--max-excluded-share",), parse=values.share, metavar="SHARE",
           default="0.2", group=FAULTS,
           help="Share of the nodes that verdicts may exclude within --exclusion-window, but one. 0: none at all."),
    Option(name="exclusion_window_s", flags=("--exclusion-window",), parse=values.seconds, metavar="S",
           default="3600", group=FAULTS, help="See --max-excluded-share."),
    Option(name="exclusion_file", flags=("--exclusion-file",), parse=values.text, metavar="FILE", group=FAULTS,
           help="The control plane started here keeps the excluded hosts in it, for sbatch --exclude; also FILE.json."),
    Option(name="no_restart_exit_code", flags=("--ft-no-restart-exit-code",), parse=partial(_whole, low=1, high=255),
           metavar="N", default="93", group=FAULTS, help="Exit code that tells the scheduler not to requeue."),
    Option(name="attribution_stop_action", flags=("--ft-attribution-stop-action",),
           parse=values.one_of("log", "no-restart"), metavar="log|no-restart", default="log", group=FAULTS,
           help="A STOP of attribution is counted and recorded only, or ends the job with the code above."),
    Option(name="initial_rank_heartbeat_timeout", flags=("--ft-initial-rank-heartbeat-timeout", "--first-beat-limit"),
           parse=values.seconds_or_never, metavar="S|none", default="none", group=FAULTS,
           help="From the start of a worker's SDK to its first beat; then it hangs. docs/hangs.md."),
    Option(name="rank_section_timeouts", flags=("--ft-rank-section-timeouts",), parse=values.section_limits,
           metavar="NAME:S,...", default="", group=FAULTS,
           help="Limits of named sections. warmup is that of section step during the first steps of a run."),
    Option(name="rank_out_of_section_timeout", flags=("--ft-rank-out-of-section-timeout",),
           parse=values.seconds_or_never, metavar="S|none", default="none", group=FAULTS,
           help="Limit while no monitored section is open, for workers that use RankMonitorClient."),
    Option(name="safety_factor", flags=("--ft-safety-factor",), parse=values.factor, metavar="X", default="5",
           group=FAULTS, help="A limit that is learned is the longest time seen, times this."),
    Option(name="num_warmup_iterations", flags=("--ft-num-warmup-iterations",),
           parse=partial(_whole, low=0, high=1_000_000), metavar="N", default="5", group=FAULTS,
           help="See --ft-rank-section-timeouts."),
    Option(name="capture_stacks", flags=("--capture-stacks",), parse=values.one_of("none", "sections", "all"),
           metavar="none|sections|all", default="all", group=FAULTS,
           help="Take the stacks of all threads before a worker that hangs is ended: never, where a section's limit is "
                "over, or always."),
    Option(name="checkpoint_iteration_file", flags=("--ft-checkpoint-iteration-file",), parse=values.text,
           metavar="FILE", group=FAULTS,
           help="File with the iteration of the newest completed checkpoint, as Megatron's "
                "latest_checkpointed_iteration.txt. A job that restarts without getting on is ended; docs/policy.md."),
    Option(name="min_progress_iterations", flags=("--ft-min-progress-iterations",),
           parse=partial(_whole, low=1, high=2**31), metavar="N", default="1", group=FAULTS,
           help="A cycle whose checkpoint is fewer iterations beyond the one before counts as one without progress."),
    Option(name="max_no_progress_cycles", flags=("--ft-max-no-progress-cycles",),
           parse=partial(_whole, low=0, high=1_000_000), metavar="N", default="3", group=FAULTS,
           help="So many cycles in a row without progress end the job with the exit code that means no requeue. "
                "0: they never do; for a program that replays steps on purpose."),
    Option(name="progress_source", flags=("--progress-source",), parse=values.one_of("marker", "sdk"),
           metavar="marker|sdk", default="marker", group=FAULTS, is_common=False,
           help="What counts as progress: the marker file, or the steps that workers commit through the SDK."),
    Option(name="gpu_memory_reclaim_timeout", flags=("--ft-gpu-memory-reclaim-timeout",), parse=values.seconds,
           metavar="S", default="50", group=FAULTS,
           help="A restart waits so long for the memory of this node's GPUs to be free; then it goes on, with an "
                "error in the log. 0: it does not wait."),
    Option(name="gpu_memory_tolerance_mb", flags=("--ft-gpu-memory-tolerance-mb",),
           parse=partial(_whole, low=0, high=10_000_000), metavar="MIB", default="512", group=FAULTS,
           help="A GPU with no more memory in use counts as free; what its driver keeps for itself does not count."),
    Option(name="gpu_memory_poll_interval", flags=("--ft-gpu-memory-poll-interval",), parse=values.seconds, metavar="S",
           group=FAULTS, help="How often it is looked at. Default: 0.2 s in the first two seconds, then 2 s."),
    Option(name="preempted_exit_code", flags=("--preempted-exit-code",), parse=partial(_whole, low=0, high=255),
           metavar="N", default="0", group=FAULTS,
           help="Exit code of a job that was told to leave. 0: 128 + the signal, 143 for resurge drain."),
    Option(name="drain_signals", flags=("--drain-signals",), parse=values.signals, metavar="NAMES",
           default="SIGTERM,SIGINT,SIGHUP", group=FAULTS,
           help="Signals that give notice: ranks that ask s.should_stop() save and stop at one step."),
    _torch(name="signals_to_handle", flags=("--signals-to-handle",), parse=values.signals, metavar="NAMES",
           default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", group=FAULTS,
           help="Signals forwarded to the workers before the end."),
)  # fmt: skip

_FILES = (
    _torch(name="module", flags=("-m", "--module"), parse=values.switch, is_switch=True, default="0", group=FILES,
           help="The program is a Python module, as in python -m."),
    _torch(name="no_python", flags=("--no-python",), parse=values.switch, is_switch=True, default="0", group=FILES,
           help="The program is started itself, without Python."),
    _torch(name="log_dir", flags=("--log-dir",), parse=values.text, metavar="DIR", group=FILES,
           help="Per-rank log files and error files. Default: logs/ in the state directory."),
    Option(name="cycle_info_dir", flags=("--ft-cycle-info-dir", "--cycle-info-dir"), parse=values.text, metavar="DIR",
           group=FILES, help="Records of cycles, JOB/ATTEMPT/cycle_N.json in here, for workers and tools; on a "
                             "file system that all nodes see. See docs/records.md."),
    Option(name="applog_prefix", flags=("--ft-per-cycle-applog-prefix", "--applog-prefix"), parse=values.text,
           metavar="PATH", group=FILES,
           help="What workers print goes to PATH with _cycle<N> in its name, a file per cycle. See docs/logs.md."),
    Option(name="enable_log_server", flags=("--ft-enable-log-server", "--enable-log-server"), parse=values.switch,
           is_switch=True, default="0", group=FILES,
           help="One log server writes the files; nothing that was acknowledged is lost. Without it several nodes "
                "append to one file themselves."),
    Option(name="launcher_log", flags=("--ft-nvrx-logfile", "--launcher-log"), parse=values.text, metavar="PATH",
           group=FILES, help="What launchers log goes here as well, through the log server, which it turns on."),
    Option(name="log_server_port", flags=("--ft-log-server-port", "--log-server-port"), parse=values.port,
           metavar="PORT", default="50051", group=FILES,
           help="Port of the log server, on the endpoint's host; with leaves theirs begin here, and the log server's "
                "follows on them."),
    Option(name="log_leaf_count", flags=("--ft-log-aggregator-count", "--log-leaf-count"),
           parse=partial(_whole, low=0, high=1_000), metavar="N", default="0", group=FILES,
           help="Leaves between nodes and the log server, on its host. 1: none. 0: none up to 1536 nodes, then one for "
                "as many.", is_common=False),
    Option(name="log_leaf_queue_blocks", flags=("--ft-log-leaf-max-queue-chunks", "--log-leaf-queue-blocks"),
           parse=values.leaf_queue, metavar="N", default="-1", group=FILES,
           help="Blocks that may wait in a leaf, at least 64. -1: 256 for each of its nodes, 16384 to a million.",
           is_common=False),
    Option(name="log_endpoint", flags=("--log-endpoint",), parse=values.endpoints, metavar="HOST:PORT,...", group=FILES,
           help="A log server that was started elsewhere, as by resurge serve --targets log_aggregator; or leaves.",
           is_common=False),
    Option(name="log_server_stop_limit_s",
           flags=("--ft-log-server-graceful-shutdown-timeout", "--log-server-graceful-shutdown-timeout"),
           parse=values.seconds, metavar="S", default="10", group=FILES,
           help="How long the end of a launcher waits for lines that are still under way, in all. Sender and log "
                "server may go on without it, the server for up to 60 s or this.", is_common=False),
    Option(name="log_server_log_prefix", flags=("--ft-log-server-log-prefix", "--log-server-log-prefix"),
           parse=values.text, metavar="PATH", group=FILES,
           help="What the log server and leaves started here say goes to PATH_root.log and PATH_leaf_<N>.log. Default: "
                "in the state directory.", is_common=False),
    Option(name="log_sync", flags=("--log-sync",), parse=values.one_of("none", "interval", "ack"),
           metavar="none|interval|ack", default="interval", group=FILES,
           help="When a line counts as durable: when the kernel has it, or the disk, asked each second or at once.",
           is_common=False),
    Option(name="strict_logs", flags=("--strict-logs",), parse=values.switch, is_switch=True, default="0", group=FILES,
           help="Refuse a prefix on several nodes without a log server.", is_common=False),
    Option(name="log_spool_dir", flags=("--log-spool-dir",), parse=values.text, metavar="DIR", group=FILES,
           help="Where this node keeps lines that are under way; on a local disk. Default: in the run directory.",
           is_common=False),
    Option(name="log_spool_limit_mib", flags=("--log-spool-limit-mib",), parse=partial(_whole, low=1, high=1 << 30),
           metavar="MIB", default="10240", group=FILES,
           help="Beyond this the oldest lines are given up, and a line in the file says how many.", is_common=False),
    _torch(name="redirects", flags=("-r", "--redirects"), parse=values.streams, metavar="0-3|R:S,...", default="0",
           group=FILES, help="Streams kept off the terminal: 1 stdout, 2 stderr, 3 both; or per local rank."),
    _torch(name="tee", flags=("-t", "--tee"), parse=values.streams, metavar="0-3|R:S,...", default="0", group=FILES,
           help="Streams shown on the terminal although -r names them. Files are always written."),
    _torch(name="local_ranks_filter", flags=("--local-ranks-filter",), parse=values.local_ranks, metavar="R,R,...",
           default="", group=FILES, help="Only these local ranks reach the terminal; files are complete."),
    Option(name="warm", flags=("--warm",), parse=values.one_of("auto", "on", "off"), metavar="auto|on|off",
           default="auto", group=FILES,
           help="Fork workers from a process that has imported torch already. auto: where it can be done."),
    Option(name="preload", flags=("--preload",), parse=values.modules, metavar="MODULE,...", default="", group=FILES,
           help="Modules that this process imports as well; see docs/warm-start.md for what that can break."),
    _torch(name="role", flags=("--role",), parse=values.text, metavar="NAME", default="default", group=FILES,
           help="Name of the workers' role, for their environment."),
)  # fmt: skip

_QUIET = (
    _torch(name="monitor_interval", flags=("--monitor-interval",), parse=values.seconds, metavar="S", group=QUIET,
           has_effect=False, is_common=False, help="No effect: deaths are seen when they happen; nothing is polled."),
    _torch(name="start_method", flags=("--start-method",), parse=values.one_of("spawn", "fork", "forkserver"),
           metavar="NAME", group=QUIET, has_effect=False, is_common=False,
           help="No effect: workers are programs of their own."),
)  # fmt: skip

_LIMIT_FLAGS: Mapping[str, tuple[str, ...]] = {
    "fault_grace_s": ("--fault-grace", "--workers-stop-timeout"),
    "drain_grace_s": ("--term-timeout", "--shutdown-timeout", "--drain-grace"),
    "first_contact_limit_s": ("--connect-timeout", "--first-contact-limit"),
    "hang_limit_s": ("--ft-rank-heartbeat-timeout", "--hang-limit"),
}
_COMMON_LIMITS = {*_LIMIT_FLAGS, "lease_ttl_s", "collective_timeout_s", "quorum_wait_s"}


def _limit_options() -> tuple[Option, ...]:
    rows = {row.name: row for row in ROWS}
    given = TimeLimits()
    options = []
    for item in fields(TimeLimits):
        row = rows[item.name]
        if item.name in DERIVED:
            default, origin = None, f" Default: {row.derived_from}."
        else:
            default, origin = f"{getattr(given, item.name):g}", ""
        options.append(
            Option(
                name=item.name,
                flags=_LIMIT_FLAGS.get(item.name, ("--" + item.name.removesuffix("_s").replace("_", "-"),)),
                parse=values.seconds_or_never if item.name == "hang_limit_s" else values.seconds,
                metavar="S",
                default=default,
                section="limits",
                group=LIMITS,
                is_torchruns=item.name == "drain_grace_s",
                is_common=item.name in _COMMON_LIMITS,
                help=f"{row.bounds[0].upper()}{row.bounds[1:]}.{origin}",
            )
        )
    return tuple(options)


OPTIONS: tuple[Option, ...] = (*_JOB, *_NODE, *_CONTROL, *_FAULTS, *_FILES, *_limit_options(), *_QUIET)
BY_NAME: Mapping[str, Option] = MappingProxyType({option.name: option for option in OPTIONS})
GROUPS = (JOB, NODE, CONTROL, FAULTS, FILES, LIMITS)

# options of other launchers that are refused, each with its reason
REFUSED: Mapping[str, str] = MappingProxyType({
    "--elastic": "The world size is fixed here: MIN nodes run and MAX-MIN are spares. Leave the option out; a job that "
                 "shrinks and grows is not built yet.",
    "--logs-specs": "Log plug-ins of torchrun are not loaded. Use --log-dir, -r and -t.",
    "--duplicate-stdout-filters": "Filtered copies are not written. Use -t 1 with --log-dir and filter the files.",
    "--duplicate-stderr-filters": "Filtered copies are not written. Use -t 2 with --log-dir and filter the files.",
    "--event-log-handler": "Events go to JSON lines in the state directory and, with OTEL_* variables, to a collector.",
    "--numa-binding": "Workers are not bound to CPUs. Start the program through numactl with --no-python.",
    "--virtual-local-rank": "LOCAL_RANK is the true one. Set CUDA_VISIBLE_DEVICES in the program.",
    "--run-path": "Leave the option out and give the script's path: it runs in an interpreter of its own.",
})  # fmt: skip
