"""`python -m resurge_rendezvous.left_behind DIR`: the job as the journal of a directory left it, printed as JSON.

For reading commands, where no control plane serves and `job.json` is not there or does not tell the end. Folds the
journal's facts as a restart would; takes no lease, writes nothing. Streams and leases are in no journal, so every node
is shown as one that is not heard of.
"""

from __future__ import annotations

import sys
from pathlib import Path

from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.core.instant import Instant
from resurge_libs.engine.left_behind import left_behind
from resurge_libs.engine.ports import JournalUnusable
from resurge_libs.engine.replay import restore
from resurge_rendezvous import wire_out
from resurge_rendezvous.core.model import Fact, Job
from resurge_rendezvous.core.step import RULES_VERSION, RendezvousMachine
from resurge_rendezvous.core.views import job_view


def job_left_behind(directory: Path) -> tuple[rendezvous_pb2.Job | None, str]:
    """The job, and what is wrong with its journal; no job where no launcher has opened one.

    Raises JournalUnusable.
    """
    machine = RendezvousMachine()
    found = restore(machine, Job(), left_behind(directory), Fact, rules_version=RULES_VERSION)
    damage = "" if found.damage is None else found.damage.sentence
    if found.durable.spec is None:
        return None, damage
    return wire_out.job_to_proto(job_view(machine.recovered(found.durable, Instant(0.0)))), damage


def main(words: list[str]) -> int:
    """Print the job; what is wrong goes to stderr, and without a job the code is 1."""
    try:
        job, damage = job_left_behind(Path(words[0]))
    except JournalUnusable as error:
        print(error, file=sys.stderr)
        return 1
    if damage:
        print(damage, file=sys.stderr)
    if job is None:
        if not damage:
            print(f"the journal in {words[0]} holds no job yet", file=sys.stderr)
        return 1
    print(json_format.MessageToJson(job, indent=None, preserving_proto_field_name=True))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
