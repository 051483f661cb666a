"""`python -m resurge_log_aggregator.leaf`: a leaf alone."""

from resurge_libs.hosting.command import host_command
from resurge_log_aggregator.leaf.module import TARGET

host_command("resurge-log-leaf", (TARGET,), "Gathers what many nodes send, and passes it on to the log aggregator.")()
