"""Reads an endpoint as people write it, and tells whether it is on this host. Resolves names only when asked to."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
UNIX_PATH_LIMIT = 107
"""Bytes of a Unix socket's path that the kernel takes."""


class EndpointProblem(ValueError):
    """What the user gave as an endpoint, or with it, cannot work: a usage problem."""

    exit_code = 2


class BadEndpoint(EndpointProblem):
    """The text is no endpoint; says what would be right."""


class EndpointTaken(EndpointProblem):
    """Another process listens there."""


def token_flaw(token: str) -> str:
    """What keeps a job token from travelling as call metadata, as a clause; empty when nothing does.

    A secret read from a file often ends in a line end, and gRPC would refuse it at the first call.
    """
    if token != token.strip():
        return "begins or ends with white space"
    return "" if token.isascii() and token.isprintable() else "holds other than printable ASCII characters"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service listens: a host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_unix(self) -> bool:
        """Whether it is a Unix socket."""
        return bool(self.path)

    @property
    def is_loopback(self) -> bool:
        """Whether it cannot be reached from another machine."""
        if self.is_unix or self.host.lower() in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def needs_token(self) -> bool:
        """Whether RESURGE_JOB_TOKEN is required here."""
        return not self.is_loopback

    @property
    def target(self) -> str:
        """As gRPC names it, for channels and for listening."""
        if self.is_unix:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.target

    def names_this_host(self) -> bool:
        """Whether the endpoint is on this machine: a Unix socket, loopback, this host's name or one of its addresses.

        Resolves the host name; an unresolvable one is not this host.
        """
        if self.is_loopback or self.host.lower() in _own_names():
            return True
        return any(_is_own_address(address) for address in _addresses(self.host))


def parse_endpoint(text: str, default_port: int | None = None) -> Endpoint:
    """The endpoint of `host:port`, `[v6]:port` or `unix:/path`. Raises BadEndpoint, saying what would be right."""
    value = text.strip()
    if value.startswith("unix:"):
        return _unix(text, value.removeprefix("unix:"))
    if "://" in value:
        raise BadEndpoint(f"endpoint {text!r} must not be a URL: write host:port or unix:/path")
    host, port_text = _split(text, value)
    if not host:
        raise BadEndpoint(f"endpoint {text!r} has no host: write host:port or unix:/path")
    if port_text is None:
        if default_port is None:
            raise BadEndpoint(f"endpoint {text!r} has no port: write {host}:<port>")
        return Endpoint(host=host, port=default_port)
    if not port_text.isdecimal() or not 0 <= int(port_text) <= 65535:
        raise BadEndpoint(f"endpoint {text!r}: port {port_text!r} must be a number from 0 to 65535")
    return Endpoint(host=host, port=int(port_text))


def _unix(text: str, path: str) -> Endpoint:
    path = path.removeprefix("//")
    if not path.startswith("/"):
        raise BadEndpoint(f"endpoint {text!r} must give an absolute path: unix:/path")
    if len(path.encode()) > UNIX_PATH_LIMIT:
        raise BadEndpoint(
            f"endpoint {text!r}: the path of a Unix socket must not be longer than {UNIX_PATH_LIMIT} bytes, "
            f"this one has {len(path.encode())}"
        )
    return Endpoint(path=path)


def _split(text: str, value: str) -> tuple[str, str | None]:
    if value.startswith("["):
        host, closed, rest = value[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadEndpoint(f"endpoint {text!r}: write an IPv6 address as [address]:port")
        return host, rest[1:] if rest else None
    if value.count(":") > 1:
        raise BadEndpoint(f"endpoint {text!r}: write an IPv6 address as [address]:port")
    host, colon, port = value.partition(":")
    return host, port if colon else None


def _own_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]})


def _addresses(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple({str(item[4][0]) for item in found})


def _is_own_address(address: str) -> bool:
    """An address is this machine's if a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
