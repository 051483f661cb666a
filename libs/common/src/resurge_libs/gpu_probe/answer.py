"""What the probe answers, as values; and how they stand in one line of JSON. Pure: no library of a driver is loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

HOLDERS_MAX = 32
"""Processes named per GPU."""
TEXT_MAX = 256


class BadAnswer(ValueError):
    """The line is no answer of the probe."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has memory of a GPU, as its driver names it: in the machine's own numbers."""

    pid: int
    used_mb: int | None
    """None where the driver does not say."""
    name: str = ""
    state: str = ""
    """As the kernel has it: D waits for a device, Z is a zombie; empty where it is not to be seen from here."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """The memory of one GPU now."""

    uuid: str
    index: int
    used_mb: int | None
    """Without what the driver keeps for itself; None where it cannot be read."""
    total_mb: int = 0
    reserved_mb: int = 0
    problem: str = ""
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The answer to one look; `problem` where no GPU could be asked at all."""

    look: int
    gpus: tuple[GpuMemory, ...] = ()
    problem: str = ""


def encode(answer: MemoryAnswer) -> str:
    """One line without its end."""
    return json.dumps(asdict(answer), separators=(",", ":"))


def decode(line: str) -> MemoryAnswer:
    """The answer in a line. Raises BadAnswer."""
    try:
        found = json.loads(line)
        gpus = tuple(_gpu(item) for item in found["gpus"])
        return MemoryAnswer(int(found["look"]), gpus, str(found["problem"])[:TEXT_MAX])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadAnswer(f"{line[:TEXT_MAX]!r} is no answer: {error}") from None


def _gpu(item: Any) -> GpuMemory:
    holders = tuple(
        Holder(int(one["pid"]), _whole(one["used_mb"]), str(one["name"])[:TEXT_MAX], str(one["state"])[:1])
        for one in item["holders"][:HOLDERS_MAX]
    )
    return GpuMemory(
        uuid=str(item["uuid"])[:TEXT_MAX],
        index=int(item["index"]),
        used_mb=_whole(item["used_mb"]),
        total_mb=int(item["total_mb"]),
        reserved_mb=int(item["reserved_mb"]),
        problem=str(item["problem"])[:TEXT_MAX],
        holders=holders,
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
