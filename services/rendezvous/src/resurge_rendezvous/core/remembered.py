"""How much of its past a job's durable state holds: the newest recovery records and charges, the rest as numbers. Pure.

Every snapshot holds the whole state and every batch is digested, so what grows with each incident must end somewhere.
Records that are forgotten here live on in `recoveries.jsonl`; a charge is kept to be charged once only, and what is
spent remains counted.
"""

from __future__ import annotations

from dataclasses import replace

from resurge_rendezvous.core.job import Charge, Job, RecoveryRecord

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
    forgotten = job.charges_forgotten + max(0, len(charges) - CHARGES_MAX)
    return replace(job, charges=charges[-CHARGES_MAX:], charges_forgotten=forgotten)


def _parts(record: RecoveryRecord) -> int:
    return len(record.spans) + len(record.faults) + len(record.view.faults)
