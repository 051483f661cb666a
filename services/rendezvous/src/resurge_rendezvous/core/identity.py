"""What tells one machine from another, so that an exclusion holds for the machine and not for a name. Pure.

The rule, in order. Where a machine id was given by hand (RESURGE_MACHINE_ID), it alone decides. Else the same boot id
is the same running kernel, whatever containers call themselves. Else, as after a reboot, the same machine id under the
same host name or node name: machine ids alone are copied with disk images. Where a side has no machine id, the host
name decides; where a side has no host name either, the node's name.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import NodeId


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that a launcher says about its machine; empty where it does not know."""

    node: NodeId
    host: str = ""
    machine_id: str = ""
    is_id_given: bool = False
    """The machine id was given by hand, as for containers and simulated nodes."""
    boot_id: str = ""


def same_machine(one: Identity, other: Identity) -> bool:
    """Whether two launchers ran on one machine."""
    if one.is_id_given or other.is_id_given:
        return one.machine_id == other.machine_id
    if one.boot_id and one.boot_id == other.boot_id:
        return True
    if one.machine_id and other.machine_id:
        return one.machine_id == other.machine_id and (one.host == other.host or one.node == other.node)
    if one.host and other.host:
        return one.host == other.host
    return one.node == other.node
