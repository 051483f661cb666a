"""The last incidents this process decided, kept for Explain alone; no decision ever looks here. Bounded twice."""

from __future__ import annotations

from collections import OrderedDict

from resurge_api.policy.v1 import policy_pb2
from resurge_libs.core.ids import IncidentId

MAX_INCIDENTS = 256
MAX_BYTES = 4 * 1024 * 1024


class RecentIncidents:
    """The newest round of each of the last incidents, oldest forgotten first."""

    def __init__(self, max_incidents: int = MAX_INCIDENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_incidents = max_incidents
        self._max_bytes = max_bytes
        self._bytes = 0
        self._by_id: OrderedDict[str, tuple[policy_pb2.Incident, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def remember(self, incident: policy_pb2.Incident) -> None:
        """Keep this incident; one round replaces an earlier one of the same incident."""
        known = self._by_id.pop(incident.incident_id, None)
        if known is not None:
            self._bytes -= known[1]
        size = incident.ByteSize()
        self._by_id[incident.incident_id] = (incident, size)
        self._bytes += size
        while len(self._by_id) > self._max_incidents or self._bytes > self._max_bytes:
            _, (_, forgotten) = self._by_id.popitem(last=False)
            self._bytes -= forgotten

    def get(self, incident: IncidentId) -> policy_pb2.Incident | None:
        """The incident as it was last decided; None when it is forgotten or never came."""
        found = self._by_id.get(incident)
        return None if found is None else found[0]
