"""The documented rows of the table of time limits, and how derived values follow from the given ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One row: its name, what it is derived from, what it bounds, and its value."""

    name: str
    derived_from: str
    bounds: str
    value_s: float = 0.0


# in an order in which each needs only what stands above it
DERIVED: dict[str, Callable[[Any], float]] = {
    "lease_margin_s": lambda t: t.lease_ttl_s / 10,
    "beat_interval_s": lambda t: t.lease_ttl_s / 2.5,
    "resume_window_s": lambda t: min(1.0, t.lease_ttl_s / 5),
    "stream_loss_limit_s": lambda t: 2 * t.resume_window_s,
    "reconnect_backoff_min_s": lambda t: min(0.2, t.lease_ttl_s / 25),
    "reconnect_backoff_max_s": lambda t: min(1.0, t.lease_ttl_s / 5),
    "keepalive_s": lambda t: min(1.0, t.lease_ttl_s / 5),
    "client_ping_timeout_s": lambda t: min(2.0, t.lease_ttl_s / 2.5),
    "late_tick_s": lambda t: min(0.5, t.lease_ttl_s / 10),
    "reconnect_window_s": lambda t: 2 * t.reconnect_backoff_max_s,
    "verdict_limit_s": lambda t: min(2.0, t.lease_ttl_s / 2.5),
    "marker_read_limit_s": lambda t: t.verdict_limit_s / 4,
    "last_call_s": lambda t: 1.5 * t.lease_ttl_s,
    "finish_window_s": lambda t: t.lease_ttl_s,
    "settle_s": lambda t: 2 * t.lease_ttl_s,
    "server_ping_timeout_s": lambda t: t.lease_ttl_s + t.lease_margin_s + 2.0,
    "teardown_limit_s": lambda t: 20 * t.fault_grace_s,
}

ROWS: tuple[LimitRow, ...] = (
    LimitRow("lease_ttl_s", "given", "a node's promise of life, counted by the launcher from sending a beat"),
    LimitRow("fault_grace_s", "given", "from TERM to KILL after a fault; less where all scripts say they are over"),
    LimitRow("lease_margin_s", "lease_ttl_s / 10", "how much longer the server waits than the launcher counts"),
    LimitRow("beat_interval_s", "lease_ttl_s / 2.5", "from one beat to the next"),
    LimitRow("resume_window_s", "lease_ttl_s / 5, at most 1", "in an incident: a node whose stream closed may return"),
    LimitRow("stream_loss_limit_s", "2 x resume_window_s", "else: a node whose stream its kernel closed is lost"),
    LimitRow("reconnect_window_s", "2 x reconnect_backoff_max_s", "added to every known lease after a service restart"),
    LimitRow("verdict_limit_s", "lease_ttl_s / 2.5, at most 2", "a silent policy; then the default verdict"),
    LimitRow("marker_read_limit_s", "verdict_limit_s / 4", "reading the checkpoint marker; then the check is skipped"),
    LimitRow("last_call_s", "1.5 x lease_ttl_s", "a round with a quorum waits for nodes that were active before"),
    LimitRow("finish_window_s", "lease_ttl_s", "a fault waits while some nodes are Finished"),
    LimitRow("settle_s", "2 x lease_ttl_s", "a start without milestones counts as STARTED_ONLY"),
    LimitRow("server_ping_timeout_s", "lease_ttl_s + lease_margin_s + 2", "the server's own wait for a ping's answer"),
    LimitRow("teardown_limit_s", "20 x fault_grace_s", "workers alive after KILL; then the node is given up"),
    LimitRow("quorum_wait_s", "given", "a round below MIN nodes; then a named end"),
    LimitRow("all_lost_wait_s", "given", "all nodes of a generation unreachable; then go on behind the strict fence"),
    LimitRow("start_process_group_limit_s", "given", "from spawn to a ready process group"),
    LimitRow("start_restore_limit_s", "given", "from there to the restored checkpoint"),
    LimitRow("start_first_step_limit_s", "given", "from there to the first committed step"),
    LimitRow("hang_limit_s", "given", "a worker that has beaten and stops"),
    LimitRow("finish_skew_limit_s", "given", "a rank that ended with 0 while its peers run"),
    LimitRow("lost_control_limit_s", "given", "a launcher without control and progress; then CONTROL_LOST"),
    LimitRow("drain_grace_s", "given", "from a signal to KILL when the scheduler ends the job"),
    LimitRow("checkpoint_grace_s", "given", "a teardown waits for a checkpoint that is open and still written"),
    LimitRow("fence_wait_s", "given", "a commit that waits for the lease to come back"),
    LimitRow("terminal_ack_limit_s", "given", "launchers wait for one another's acknowledgement of the end"),
    LimitRow(
        "late_tick_s",
        "lease_ttl_s / 10, at most 0.5",
        "a tick later than this means the service itself did not run",
    ),
    LimitRow("keepalive_s", "lease_ttl_s / 5, at most 1", "an idle connection is pinged"),
    LimitRow("client_ping_timeout_s", "lease_ttl_s / 2.5, at most 2", "a launcher's wait for a ping's answer"),
    LimitRow("reconnect_backoff_min_s", "lease_ttl_s / 25, at most 0.2", "the first wait before a new connection"),
    LimitRow("reconnect_backoff_max_s", "lease_ttl_s / 5, at most 1", "the longest wait before a new connection"),
    LimitRow("first_contact_limit_s", "given", "a control plane that never answered"),
    LimitRow("export_limit_s", "given", "exporting traces at exit"),
    LimitRow("collective_timeout_s", "given (the framework's)", "a collective; all of the above must be sooner"),
)
