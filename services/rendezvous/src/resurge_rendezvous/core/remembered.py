"""How much of its past a job's durable state holds: the newest recovery records and charges, the rest as numbers. Pure.

Every snapshot holds the whole state and every batch is digested, so what grows with each incident must end somewhere.
Records that are forgotten here live on in `recoveries.jsonl`; a charge is kept to be charged once only, and what is
spent remains counted.
"""

from __future__ import annotations

from collections import Counter

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.instant import Wall
from resurge_libs.core.values import replace
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.job import Job, RecoveryRecord

RECORDS_MAX = 128
RECORD_PARTS_MAX = 4_096
"""Spans and faults of all remembered records together, some 200 bytes each; the newest record stays whatever it has."""
CHARGES_MAX = 128


def with_record(job: Job, record: RecoveryRecord) -> Job:
    """The job with one more record; of the older ones as many as there is room for."""
    records = (*job.records, record)
    kept, room = 1, RECORD_PARTS_MAX - _parts(record)
    for older in reversed(job.records[-RECORDS_MAX:]):
        room -= _parts(older)
        if room < 0 or kept == RECORDS_MAX:
            break
        kept += 1
    forgotten = job.records_forgotten + len(records) - kept
    return replace(job, records=records[-kept:], records_forgotten=forgotten)


def with_charge(job: Job, charge: Charge) -> Job:
    """The job with one more restart spent."""
    charges = (*job.charges, charge)
    gone = charges[:-CHARGES_MAX]
    return replace(
        job,
        charges=charges[-CHARGES_MAX:],
        charges_forgotten=job.charges_forgotten + len(gone),
        causes_forgotten=_tallied(job.causes_forgotten, gone),
    )


def with_refund(job: Job, at: Wall) -> Job:
    """The job with its newest restart given back; with none to give back it is as it was."""
    if job.charges:
        job = replace(job, charges=job.charges[:-1])
    elif job.charges_forgotten:
        causes = tuple((cause, count) for cause, count in job.causes_forgotten if count > 0)
        (cause, count), *others = causes
        left = ((cause, count - 1), *others) if count > 1 else tuple(others)
        job = replace(job, charges_forgotten=job.charges_forgotten - 1, causes_forgotten=left)
    else:
        return job
    return replace(job, refunded=job.refunded + 1, refunded_wall=float(at))


def _tallied(known: tuple[tuple[FaultCause, int], ...], gone: tuple[Charge, ...]) -> tuple[tuple[FaultCause, int], ...]:
    counts = Counter(dict(known)) + Counter(charge.cause for charge in gone)
    return tuple(sorted(counts.items()))


def _parts(record: RecoveryRecord) -> int:
    return len(record.spans) + len(record.faults) + len(record.view.faults)
