"""Nodes, excluded machines and culprits to proto. Decides nothing; has no effects."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.rpc.errors import because_to_proto
from resurge_rendezvous.core.model import MachineExclusion, NodePhase, NodeStanding, NodeView
from resurge_rendezvous.wire import PHASES
from resurge_rendezvous.wire_times import timestamp

PHASES_OUT = {core: proto for proto, core in PHASES.items()}
STANDINGS = {
    NodeStanding.ACTIVE: rendezvous_pb2.NODE_STANDING_ACTIVE,
    NodeStanding.SPARE: rendezvous_pb2.NODE_STANDING_SPARE,
    NodeStanding.EXCLUDED: rendezvous_pb2.NODE_STANDING_EXCLUDED,
    NodeStanding.LOST: rendezvous_pb2.NODE_STANDING_LOST,
    NodeStanding.SILENT: rendezvous_pb2.NODE_STANDING_SILENT,
    NodeStanding.LEFT: rendezvous_pb2.NODE_STANDING_LEFT,
}


def node_to_proto(node: NodeView) -> rendezvous_pb2.Node:
    """One node as the job knows it."""
    told = rendezvous_pb2.Node(
        node_id=node.node,
        incarnation=node.incarnation,
        host=node.host,
        standing=STANDINGS[node.standing],
        phase=attach_pb2.NODE_PHASE_UNSPECIFIED if node.phase is NodePhase.UNKNOWN else PHASES_OUT[node.phase],
        generation=node.generation,
        group_rank=node.group_rank,
        base_rank=node.base_rank,
        local_world_size=node.local_world_size,
        domain=node.domain,
        because=because_to_proto(node.because),
        offences=node.offences,
        machine_id=node.machine_id,
    )
    if node.exclusion is not None:
        told.exclusion.CopyFrom(exclusion_to_proto(node.exclusion))
    if node.would_exclude is not None:
        told.would_exclude.CopyFrom(because_to_proto(node.would_exclude))
    return told


def exclusion_to_proto(one: MachineExclusion) -> rendezvous_pb2.Exclusion:
    """One machine that is out."""
    told = rendezvous_pb2.Exclusion(
        node_id=one.identity.node,
        host=one.identity.host,
        machine_id=one.identity.machine_id,
        because=because_to_proto(one.exclusion.because),
        by=one.exclusion.by,
        is_automatic=one.exclusion.is_automatic,
    )
    if one.exclusion.at:
        told.at.CopyFrom(timestamp(one.exclusion.at))
    if one.exclusion.until is not None:
        told.until.CopyFrom(timestamp(one.exclusion.until))
    return told
