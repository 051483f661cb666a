"""A process that appends entries until it is killed, and says on stdout which are durable."""

from __future__ import annotations

import sys
from pathlib import Path

from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.ports import Entry, FactRecord
from resurge_libs.engine.sqlite_journal import SqliteJournal


def entry(seq: int, size: int = 200) -> Entry:
    """One entry whose content follows from its number."""
    return Entry(
        seq=seq,
        at=Wall(1.5 + seq),
        event="Counted",
        because=Because(Reason.TICK, f"entry {seq}"),
        facts=(FactRecord("Fact", bytes([seq % 256]) * size),),
        state_digest=seq.to_bytes(32, "big"),
    )


def main() -> None:
    """Append one by one; each number is printed when its commit has returned."""
    journal = SqliteJournal(Path(sys.argv[1]), "job")
    seq = journal.replay().last_seq
    while True:
        seq += 1
        journal.append((entry(seq),)).result()
        print(seq, flush=True)


if __name__ == "__main__":
    main()
