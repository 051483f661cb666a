"""Where the host listens: refuses an address that somebody else answers. Never steals a socket.

gRPC removes a socket file that is in its way and may share a port; both would take a running control plane's callers
away. So the address is tried before the server binds it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from pathlib import Path

from resurge_libs.hosting.port_holder import holder_of
from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.endpoint import Endpoint

FIELD = "--listen"
WANTED = "give unix:/path or host:port (port 0 takes a free one)"
PROBE_LIMIT_S = 1.0


def check_free(listen: Endpoint) -> None:
    """Raise UsageError when somebody answers there already, or when this machine cannot listen there."""
    if listen.path:
        _check_socket_file(Path(listen.path))
    elif listen.port:
        _check_port(listen)


def _check_socket_file(path: Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(FIELD, f"the directory {path.parent} does not exist", "create it or give another path")
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise UsageError(FIELD, f"{path} exists and is not a socket", "remove it or give another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_LIMIT_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)  # left by a process that is gone
            return
        except OSError as error:
            raise UsageError(FIELD, f"{path} cannot be tried: {error}", "give another path") from error
        holder = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    raise UsageError(FIELD, f"{path} is in use by process {holder}", "end that process or give another path")


def _check_port(listen: Endpoint) -> None:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise UsageError(
            FIELD, f"{listen.host!r} is not an address of this machine: {error.strerror}", WANTED
        ) from error
    with socket.socket(family, kind, proto) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                holder = holder_of(listen.port)
                problem = f"port {listen.port} on {listen.host} is in use" + (f" by {holder}" if holder else "")
                raise UsageError(FIELD, problem, "give another port, or 0 for a free one") from error
            raise UsageError(FIELD, f"cannot listen on {listen.target}: {error.strerror}", WANTED) from error
