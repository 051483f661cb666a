"""`python -m resurge_log_aggregator`: the log aggregator alone."""

from resurge_libs.hosting.command import host_command
from resurge_log_aggregator.module import TARGET

host_command("resurge-log-aggregator", (TARGET,), "Writes what workers print: one file per cycle.")()
