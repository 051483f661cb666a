"""`python -m resurge_restart_policy`: the policy alone."""

from resurge_libs.hosting.command import host_command
from resurge_restart_policy.module import TARGET

host_command("resurge-restart-policy", (TARGET,), "Decides what to do about an incident.")()
