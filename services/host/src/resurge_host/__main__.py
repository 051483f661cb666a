"""`python -m resurge_host`, which `resurge serve` becomes: all services, or any subset, in one process."""

from resurge_host.program import serve

serve()
