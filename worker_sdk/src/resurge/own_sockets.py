"""The sockets of this process that appeared while something was made, and cutting their connections.

Decides by number and inode, so that a descriptor which was closed and given out anew is left alone. A listening socket
is never touched: gloo's accepting thread would end the process. Effects: shutdown of connections.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection, Mapping

_DESCRIPTORS = "/proc/self/fd"


class OwnSockets:
    """Descriptors with the inodes that they had when they were noted; connections at a spared port are never cut."""

    def __init__(self, inodes: Mapping[int, str], spared_ports: Collection[int] = ()) -> None:
        self._inodes = dict(inodes)
        self._spared_ports = frozenset(spared_ports)

    @classmethod
    def since(cls, before: Mapping[int, str], spared_ports: Collection[int] = ()) -> OwnSockets:
        """The sockets that are open now and were not then."""
        return cls({fd: inode for fd, inode in cls.open_now().items() if before.get(fd) != inode}, spared_ports)

    @staticmethod
    def open_now() -> dict[int, str]:
        """All sockets of this process; none where the platform does not tell."""
        try:
            names = os.listdir(_DESCRIPTORS)
        except OSError:
            return {}
        links = {int(name): _inode(int(name)) for name in names}
        return {fd: inode for fd, inode in links.items() if inode}

    def __len__(self) -> int:
        return len(self._inodes)

    def cut(self) -> int:
        """Shut the connections down, in both directions; how many there were."""
        return sum(_cut(fd, inode, self._spared_ports) for fd, inode in self._inodes.items())


def _inode(fd: int) -> str:
    try:
        link = os.readlink(f"{_DESCRIPTORS}/{fd}")
    except OSError:
        return ""
    return link if link.startswith("socket:") else ""


def _cut(fd: int, inode: str, spared_ports: frozenset[int]) -> bool:
    if _inode(fd) != inode:
        return False
    try:
        own = os.dup(fd)
    except OSError:
        return False
    if _inode(own) != inode:
        # closed and given out anew between the two looks
        os.close(own)
        return False
    with socket.socket(fileno=own) as connection, contextlib.suppress(OSError):
        if _is_connection(connection) and spared_ports.isdisjoint(_ports(connection)):
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _is_connection(found: socket.socket) -> bool:
    is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
    return is_tcp and not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def _ports(connection: socket.socket) -> tuple[int, int]:
    """Of this side and of the other; raises OSError where there is no other."""
    return connection.getsockname()[1], connection.getpeername()[1]
