"""The SDK's table from verb to gRPC method, walked against the generated contracts."""

import pytest
from google.protobuf import descriptor_pool

from resurge.frames import MILESTONES, ROUTES
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2  # noqa: F401  (registers the service's descriptor)


@pytest.mark.parametrize("verb", [verb for verb, route in ROUTES.items() if route])
def test_the_method_of_every_carried_verb_exists(verb):
    _, service, method = ROUTES[verb].split("/")
    found = descriptor_pool.Default().FindServiceByName(service)
    assert method in found.methods_by_name


def test_every_milestone_has_its_number_in_the_contract():
    names = attach_pb2.MilestoneKind.keys()
    assert {f"MILESTONE_KIND_{kind.upper()}" for kind in MILESTONES} <= set(names)
