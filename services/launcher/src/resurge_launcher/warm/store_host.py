"""The c10d store of one generation: a process of its own, forked from the fork server, that serves until it is ended.

It belongs to the launcher and ends with it. The launcher has opened the port already and keeps the process until the
next generation's is needed, so that it is the last of a generation to go. Imports torch, which the server has loaded.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket

from resurge_launcher.warm import orders
from resurge_launcher.warm.become import belong_to, close_all_but


def host_store(gate: socket.socket, listening_fd: int, launcher_pid: int) -> None:
    """Serve the store on a listening socket; says on the gate whether it does. Never returns."""
    sentence = ""
    store = None
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        close_all_but((gate.fileno(), listening_fd))
        belong_to(launcher_pid)
        store = _serve(listening_fd)
    except Exception as error:  # task root: told to the launcher, which then offers a bare port
        sentence = f"{type(error).__name__}: {error}"
    try:
        gate.send(orders.encoded(orders.Ack(os.getpid(), sentence)))
    except OSError:
        os._exit(1)
    gate.close()
    while store is not None:
        signal.pause()
    os._exit(1)


def _serve(listening_fd: int) -> object:
    distributed = importlib.import_module("torch.distributed")
    with socket.socket(fileno=os.dup(listening_fd)) as listening:
        host = "::1" if listening.family == socket.AF_INET6 else "127.0.0.1"
        port = listening.getsockname()[1]
    return distributed.TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening_fd)
