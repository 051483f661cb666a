"""`python -m resurge_host`, which `resurge serve` becomes: all services, or any subset, in one process."""

from resurge_host.targets import TARGETS
from resurge_libs.hosting.command import host_command

host_command("resurge-host", TARGETS, "Serve the control plane of one job: all services, or any subset.")()
