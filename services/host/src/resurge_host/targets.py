"""Every service that a host can run, in the order in which they start. The only importer of several services."""

from __future__ import annotations

from resurge_libs.hosting.module import Target
from resurge_log_aggregator.leaf.module import TARGET as LOG_LEAF
from resurge_log_aggregator.module import TARGET as LOG_AGGREGATOR
from resurge_rendezvous.module import RELAY
from resurge_rendezvous.module import TARGET as RENDEZVOUS
from resurge_restart_policy.module import TARGET as RESTART_POLICY

# a relay and a leaf stand alone, each in a process of its own
# policy first, so that rendezvous' first question is answered; none of them needs another to start
TARGETS: tuple[Target, ...] = (RESTART_POLICY, RENDEZVOUS, LOG_AGGREGATOR, RELAY, LOG_LEAF)
