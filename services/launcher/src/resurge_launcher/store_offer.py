"""Offers an endpoint for the c10d store of a coming generation: a served store where that can be had, else a held port.

A served store is a process of its own (`warm.store_host`), asked for ahead of time: the next generation's while the
present one runs. It is ended when the one after it is offered, so that it outlasts its generation's workers. A held
port is a socket bound with SO_REUSEADDR that never listens: the kernel then gives the port to nobody who asks for any
port, while a store that names it and sets SO_REUSEADDR, as torch's does, may bind and listen beside it. Where it was
offered for want of a fork server it gives way to a store once there is one, unless a generation has begun.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from resurge_launcher.core.model import StoreOffer
from resurge_launcher.warm.client import WarmStart
from resurge_launcher.warm.store_keeper import StoreProcess
from resurge_libs.obs import log

ENDS_LIMIT = 5
"""So many stores may end unasked before no more are made."""


class StorePort:
    """At most one offered endpoint; a new one is chosen for every generation, for the old one may linger."""

    def __init__(self, address: str, warm: WarmStart | None = None) -> None:
        self._address = address
        self._warm = warm
        self._held: socket.socket | None = None
        self._serving: StoreProcess | None = None
        """The store that was offered last."""
        self._coming: StoreProcess | None = None
        """The store to be offered next."""
        self._then: Callable[[StoreOffer], None] | None = None
        """Whom to tell of an offer that is being made."""
        self._told: Callable[[StoreOffer], None] | None = None
        self._ends = 0
        self._lacks_store = False
        """What is offered is a port alone, and no generation has begun with it."""
        if warm is not None:
            warm.whenever_ready(self._ready)

    @property
    def pids(self) -> set[int]:
        """Store processes; no strays."""
        known = (store.known_pid() for store in (self._serving, self._coming) if store is not None)
        return {pid for pid in known if pid is not None}

    def offer(self, then: Callable[[StoreOffer], None]) -> None:
        """Let go of what was offered last and offer anew, at once or when a store answers."""
        self._then = then
        if self._warm is None:
            self._offer_now()
        else:
            self._warm.when_settled(self._offer_served)

    def prepare(self) -> None:
        """Have the next store made, while there is time."""
        if self._warm is not None and self._coming is None and self._ends < ENDS_LIMIT:
            try:
                store = StoreProcess(self._address, self._answered, self._ended)
            except OSError as error:
                log.event("store_not_served", sentence=str(error))
                return
            self._coming = store
            if not self._warm.ask_for_store(store):
                store.end()
                self._coming = None

    def taken(self) -> None:
        """A generation has begun, so what was offered is settled."""
        self._lacks_store = False

    def release(self) -> None:
        """Let go of everything."""
        self._then = self._told = None
        for store in (self._serving, self._coming):
            if store is not None:
                store.end()
        self._serving = self._coming = None
        if self._held is not None:
            self._held.close()
            self._held = None

    def _ready(self) -> None:
        """There is a fork server now: the store that it could not be asked for before is made."""
        if self._told is not None:
            self.prepare()

    def _offer_served(self) -> None:
        self.prepare()
        if self._coming is None or self._coming.is_up:
            self._offer_now()

    def _answered(self, store: StoreProcess) -> None:
        if not store.is_up:
            # one that cannot be served now will not be at the next try either
            self._coming, self._ends = None, self._ends + 1
        elif self._lacks_store and self._then is None:
            self._then = self._told
        self._offer_now()

    def _ended(self, store: StoreProcess) -> None:
        """A store was lost: the generation that uses it goes on, its ranks have met; what is offered must answer."""
        self._ends += 1
        if store is self._coming:
            self._coming = None
            self.prepare()
        elif store is self._serving and self._told is not None:
            self._serving = None
            self.offer(self._told)

    def _offer_now(self) -> None:
        then, self._then = self._then, None
        self._told = then or self._told
        if then is None:
            return
        if self._serving is not None:
            self._serving.end()
        self._serving, self._coming = self._coming, None
        self._lacks_store = self._serving is None
        if self._serving is not None:
            then(StoreOffer(self._address, self._serving.port, is_served=True))
            return
        try:
            port = self._hold()
        except OSError as error:
            log.event("store_port_failed", sentence=str(error))
            return
        then(StoreOffer(self._address, port))

    def _hold(self) -> int:
        if self._held is not None:
            self._held.close()
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        self._held = socket.socket(family, socket.SOCK_STREAM)
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # on all interfaces, as the store itself will be
        self._held.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        return int(self._held.getsockname()[1])


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
