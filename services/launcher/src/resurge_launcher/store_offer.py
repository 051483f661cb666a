"""Holds a port for the c10d store of a coming generation until rank 0 opens the store on it.

The socket is bound with SO_REUSEADDR and never listens: the kernel then gives the port to nobody who asks for any
port, while a store that names it and sets SO_REUSEADDR, as torch's does, may bind and listen beside it.
"""

from __future__ import annotations

import socket

from resurge_launcher.core.model import StoreOffer


class StorePort:
    """At most one held port; a new one is chosen for every generation, for the old one may linger."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._held: socket.socket | None = None

    def reserve(self) -> StoreOffer:
        """Let go of the held port and hold a new one; raises OSError."""
        self.release()
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # on all interfaces, as the store itself will be
            held.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        except OSError:
            held.close()
            raise
        self._held = held
        return StoreOffer(self._address, held.getsockname()[1])

    def release(self) -> None:
        """Let go."""
        if self._held is not None:
            self._held.close()
            self._held = None


def own_address(given: str | None, control_host: str, control_port: int) -> str:
    """Under which address other nodes reach this one: as given, else the one this host uses towards the control plane.

    Asks the kernel for its route; sends nothing and resolves no name of this host. Raises OSError when there is none.
    """
    if given:
        return given
    if not control_host:
        return "127.0.0.1"
    family, kind, proto, _, address = socket.getaddrinfo(control_host, control_port or 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, proto) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
