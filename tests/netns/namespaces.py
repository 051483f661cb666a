"""Hosts of one machine: a network namespace each, a cable each, and one switch in a namespace of its own.

Everything has a name with this process's id in it and is removed by that name. The switch has its own namespace so
that no packet passes the machine's own firewall. Needs root and `ip`; `iptables` for packets that are lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PREFIX = "rsgns"
SUBNET = "10.213.0"
SWITCH = "switch"
HANDLES = Path("/run/netns")


class NetworkRefused(Exception):
    """A command of the kernel's network tools failed."""


def why_not() -> str | None:
    """Why there can be no namespaces here; None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "`ip` (iproute2) is not installed"
    if shutil.which("nsenter") is None:
        return "`nsenter` (util-linux) is not installed"
    name = f"{PREFIX}-{os.getpid()}-probe"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "add", "br0", "type", "bridge")
    except NetworkRefused as error:
        return f"the kernel allows none here: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


def why_no_loss() -> str | None:
    """Why packets cannot be lost here; None when they can."""
    return None if shutil.which("iptables") else "`iptables` is not installed"


class Network:
    """A switch and one host per name, each with an address of its own."""

    def __init__(self, *names: str) -> None:
        remove_left_over()
        self.address = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, start=1)}
        self._made: list[str] = []
        try:
            self._build()
        except NetworkRefused:
            self.remove()
            raise

    def handle(self, name: str) -> str:
        """The namespace's own name."""
        return f"{PREFIX}-{os.getpid()}-{name}"

    def inside(self, name: str, *command: str) -> list[str]:
        """The command as a process of this host; it keeps the pid that its starter sees."""
        return ["nsenter", f"--net={HANDLES / self.handle(name)}", "--", *command]

    # -- faults

    def unplug(self, name: str) -> None:
        """The host's cable is pulled at the switch: nothing arrives any more, and nobody is told."""
        self._ip(SWITCH, "link", "set", _port(name), "down")

    def plug(self, name: str) -> None:
        """The cable is back."""
        self._ip(SWITCH, "link", "set", _port(name), "up")

    def lose_sent(self, name: str, to: str) -> None:
        """What this host sends to the other is lost; the other direction works."""
        self._drop(name, "OUTPUT", "-d", self.address[to])

    def lose_received(self, name: str, sender: str) -> None:
        """What the other sends to this host is lost; the other direction works."""
        self._drop(name, "INPUT", "-s", self.address[sender])

    def lose_share(self, name: str, share: float) -> None:
        """This share of all packets that reach the host over its cable is lost, by chance."""
        self._drop(name, "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", f"{share:g}")

    def heal(self) -> None:
        """All rules of loss are removed and all cables are plugged."""
        for name in self.address:
            if why_no_loss() is None:
                _run(*self.inside(name, "iptables", "-F"))
            self.plug(name)

    # -- building

    def remove(self) -> None:
        """Remove all namespaces; their cables go with them."""
        for name in self._made:
            subprocess.run(["ip", "netns", "del", self.handle(name)], capture_output=True, check=False)
        self._made.clear()

    def _build(self) -> None:
        self._add(SWITCH)
        self._ip(SWITCH, "link", "add", "br0", "type", "bridge")
        self._ip(SWITCH, "link", "set", "br0", "up")
        for name, address in self.address.items():
            self._add(name)
            cable = ["link", "add", _port(name), "type", "veth", "peer", "name", "eth0"]
            self._ip(SWITCH, *cable, "netns", self.handle(name))
            self._ip(SWITCH, "link", "set", _port(name), "master", "br0", "up")
            self._ip(name, "addr", "add", f"{address}/24", "dev", "eth0")
            self._ip(name, "link", "set", "eth0", "up")

    def _add(self, name: str) -> None:
        _run("ip", "netns", "add", self.handle(name))
        self._made.append(name)
        self._ip(name, "link", "set", "lo", "up")

    def _ip(self, name: str, *words: str) -> None:
        _run("ip", "-n", self.handle(name), *words)

    def _drop(self, name: str, chain: str, *which: str) -> None:
        _run(*self.inside(name, "iptables", "-A", chain, *which, "-j", "DROP"))


def remove_left_over() -> None:
    """Remove the namespaces of runs that were killed: those whose process is gone."""
    for handle in HANDLES.glob(f"{PREFIX}-*-*") if HANDLES.exists() else ():
        pid = handle.name.split("-")[1]
        if not Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "del", handle.name], capture_output=True, check=False)


def _port(name: str) -> str:
    return f"p-{name}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise NetworkRefused(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
