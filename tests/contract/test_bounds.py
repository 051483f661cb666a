"""What a command line lets through is what rendezvous takes: a job is refused before anything starts, or not at all."""

from resurge_launcher.commands import values
from resurge_rendezvous import wire


def test_launchers_and_rendezvous_have_the_same_bounds():
    assert (values.MAX_NODES, values.MAX_WORKERS_PER_NODE) == (wire.MAX_NODES, wire.MAX_LOCAL_WORLD_SIZE)


def test_every_name_that_a_launcher_takes_fits():
    longest = wire.MAX_NAME_BYTES
    assert len(values.job_id("j" * 128)) <= longest and len(values.node_id("n" * 255)) <= longest
