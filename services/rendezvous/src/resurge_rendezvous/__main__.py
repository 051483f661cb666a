"""`python -m resurge_rendezvous`: rendezvous alone."""

from resurge_libs.hosting.command import host_command
from resurge_rendezvous.module import TARGET

host_command("resurge-rendezvous", (TARGET,), "Decides who runs; keeps all durable state of one job.")()
