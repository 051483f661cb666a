"""Which block follows on which, and when a file is complete. Pure.

The rules, in prose:

- A block goes into the file when it begins where its source ended. So each byte of a source is in the file once, in
  its order, however often a sender begins anew.
- A block that ends where the source is already, or before, came twice and is acknowledged again.
- Any other block is turned back: the sender goes on from what is there. A sender that gave bytes up says so in a gap,
  and a gap is part of a block's length.
- After its end nothing more of a source is taken.
- What is durable never runs ahead of what is written; an end is durable with its last byte.
- A file is sealed when every rank of its newest generation has a source whose end is durable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from resurge_log_aggregator.core.model import (
    BlockHead,
    Follows,
    LogKey,
    LogKind,
    LogState,
    Placed,
    Repeats,
    Rewinds,
    SourceState,
)


def place(source: SourceState, block: BlockHead) -> Placed:
    """What becomes of a block of this source."""
    if source.has_ended:
        return Repeats() if block.end <= source.written else Rewinds()
    if block.offset == source.written and (block.length > 0 or block.size > 0 or block.ends):
        return Follows(
            replace(
                source,
                written=block.end,
                lines=source.lines + block.lines,
                has_ended=block.ends,
                gap_bytes=source.gap_bytes + block.gap_bytes,
                gap_lines=source.gap_lines + block.gap_lines,
            )
        )
    return Repeats() if block.end <= source.written else Rewinds()


def made_durable(source: SourceState, upto: int, ended: bool) -> SourceState:
    """The source once its bytes before `upto`, and its end if `ended`, are durable."""
    durable = max(source.durable, min(upto, source.written))
    return replace(source, durable=durable, end_is_durable=source.end_is_durable or (ended and source.has_ended))


def state_of(key: LogKey, sources: Iterable[SourceState]) -> LogState:
    """A file with its sources, and who is missing in it."""
    known = tuple(sorted(sources, key=lambda source: source.key))
    if key.kind is not LogKind.APPLICATION:
        return LogState(key, known, 0, (), is_sealed=False)
    newest = max((source.key.generation for source in known), default=0)
    of_newest = [source for source in known if source.key.generation == newest]
    world_size = max((source.world_size for source in of_newest), default=0)
    done = {source.key.rank for source in of_newest if source.end_is_durable}
    still_open = {source.key.rank for source in of_newest if not source.end_is_durable}
    missing = tuple(rank for rank in range(world_size) if rank not in done or rank in still_open)
    return LogState(key, known, world_size, missing, is_sealed=world_size > 0 and not missing)
