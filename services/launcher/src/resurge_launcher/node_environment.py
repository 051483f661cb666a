"""What all Python processes of a node's workers have in common in their environment, and by which they are known. Pure.

Imported before anything else of a launcher, so it imports next to nothing: the worker SDK's own names are repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

JOB_ID = "RESURGE_JOB_ID"
"""As resurge.environment has it, which is not imported here."""
NODE_ID = "RESURGE_NODE_ID"
LAUNCHER = "RESURGE_LAUNCHER"
"""Which process started the worker: its pid and its start, as `kernel.process_name` writes them."""
JOB_TOKEN = "RESURGE_JOB_TOKEN"
KEPT_FROM_WORKERS = (JOB_TOKEN,)
"""The job's secret belongs to launchers and services; training code gets along without."""
RESOLVER_OPTIONS = "timeout:1 attempts:1"
"""A lost DNS reply costs a c10d store client 5 s by default."""


def marks(job_id: str, node_id: str) -> tuple[bytes, bytes]:
    """What every process of this (job, node) carries in its environment."""
    return f"{JOB_ID}={job_id}".encode(), f"{NODE_ID}={node_id}".encode()


def server_environment(
    job_id: str, node_id: str, local_world_size: int, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the fork server: what all workers of the node share, and marked as theirs.

    OpenBLAS would start its threads when it is loaded; a worker sets their number after the fork.
    """
    environment = {name: value for name, value in inherited.items() if name not in KEPT_FROM_WORKERS}
    environment.update(defaults(local_world_size, inherited))
    environment.update({JOB_ID: job_id, NODE_ID: node_id, "OPENBLAS_NUM_THREADS": "1"})
    return environment


def defaults(local_world_size: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """Only where the user says nothing."""
    wanted = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "RES_OPTIONS": RESOLVER_OPTIONS, "PYTHONUNBUFFERED": "1"}
    if local_world_size > 1:
        wanted["OMP_NUM_THREADS"] = "1"
    return {name: value for name, value in wanted.items() if name not in inherited}
