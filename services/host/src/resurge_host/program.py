"""The host program as a command, its imports made with the garbage collector at rest."""

import gc

gc.set_threshold(50_000, 20, 50)  # before the imports, of which next to nothing is garbage: a twentieth of their time

from resurge_host.targets import TARGETS  # noqa: E402
from resurge_libs.hosting.command import host_command  # noqa: E402

serve = host_command("resurge-host", TARGETS, "Serve the control plane of one job: all services, or any subset.")
