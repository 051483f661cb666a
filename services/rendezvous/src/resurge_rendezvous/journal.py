"""Opens the job's journal and rebuilds its state. Refuses a directory of another job; says what a damaged one lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from resurge_libs.core.machine import Machine
from resurge_libs.engine import sqlite_file
from resurge_libs.engine.ports import Damage, Journal, JournalUnusable
from resurge_libs.engine.replay import Restored, restore
from resurge_libs.engine.sqlite_journal import SqliteJournal
from resurge_libs.hosting.usage import UsageError
from resurge_libs.obs import log
from resurge_rendezvous.core.model import Fact, Job
from resurge_rendezvous.core.step import RULES_VERSION

FIELD = "--state-dir"
REMEDY = "give another directory"
LOCK_WAIT_S = 2.0
"""A predecessor that is just being ended may hold the directory for so long."""


def open_journal(directory: Path, job_id: str) -> SqliteJournal:
    """The journal of the job; without a job id, of whichever job it belongs to. Raises UsageError."""
    owner = sqlite_file.owner_of(directory / sqlite_file.FILE_NAME)
    name = "" if owner == "" else (job_id or owner or "")  # made by a service that was told no job: the facts decide
    try:
        return SqliteJournal(directory, name, LOCK_WAIT_S)
    except JournalUnusable as error:
        raise UsageError(FIELD, error.problem, error.remedy or REMEDY) from error


def restored(machine: Machine[Any], journal: Journal, job_id: str) -> Restored[Job]:
    """The durable state that the journal holds. Raises UsageError when it is another job's or cannot be read."""
    try:
        found = restore(machine, Job(), journal.replay(), Fact, rules_version=RULES_VERSION)
    except JournalUnusable as error:
        raise UsageError(FIELD, error.problem, error.remedy or REMEDY) from error
    spec = found.durable.spec
    if job_id and spec is not None and spec.job_id != job_id:
        raise UsageError(FIELD, f"it belongs to job {spec.job_id!r}, not {job_id!r}", sqlite_file.OTHER_JOBS)
    if found.damage is not None:
        log.event(
            "journal_damaged",
            sentence=found.damage.sentence,
            last_whole_seq=found.damage.last_whole_seq,
            entries_lost=_lost(found.damage),
            set_aside=found.damage.set_aside or None,
        )
    if found.last_seq:
        log.event(
            "journal_replayed",
            job=None if spec is None else spec.job_id,
            entries=found.replayed,
            last_seq=found.last_seq,
            generation=found.durable.generation,
        )
    return found


def _lost(damage: Damage) -> str:
    return "unknown" if damage.entries_lost is None else f"at least {damage.entries_lost}"
