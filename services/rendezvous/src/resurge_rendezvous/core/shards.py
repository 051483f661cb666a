"""A persistent map for tables of many nodes: changing one entry copies one of 64 parts, not the table. Pure.

The part of a key is the same in every process, so that iteration is too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from zlib import crc32

V = TypeVar("V")

PARTS = 64


def part_of(key: str) -> int:
    """The number of the part that holds a key."""
    return crc32(key.encode()) % PARTS


@dataclass(frozen=True, slots=True, eq=False)
class ShardMap(Generic[V]):
    """An immutable map from text to values; `put` and `drop` cost one part."""

    _parts: tuple[Mapping[str, V], ...] = ({},) * PARTS
    _size: int = 0

    @classmethod
    def of(cls, items: Iterable[tuple[str, V]]) -> ShardMap[V]:
        """The map with these items."""
        parts: list[dict[str, V]] = [{} for _ in range(PARTS)]
        for key, value in items:
            parts[part_of(key)][key] = value
        return cls(tuple(parts), sum(len(part) for part in parts))

    def get(self, key: str) -> V | None:
        """The value, or None."""
        return self._parts[part_of(key)].get(key)

    def put(self, key: str, value: V) -> ShardMap[V]:
        """The map with one entry set."""
        index = part_of(key)
        part = self._parts[index]
        if part.get(key) is value and key in part:
            return self
        parts = (*self._parts[:index], {**part, key: value}, *self._parts[index + 1 :])
        return ShardMap(parts, self._size + (key not in part))

    def put_all(self, items: Iterable[tuple[str, V]]) -> ShardMap[V]:
        """The map with many entries set; each part is copied once."""
        changed: dict[int, dict[str, V]] = {}
        for key, value in items:
            index = part_of(key)
            part = changed.get(index)
            if part is None:
                part = changed[index] = dict(self._parts[index])
            part[key] = value
        parts = tuple(changed.get(index, part) for index, part in enumerate(self._parts))
        return ShardMap(parts, sum(len(part) for part in parts))

    def drop(self, key: str) -> ShardMap[V]:
        """The map without one key."""
        index = part_of(key)
        part = self._parts[index]
        if key not in part:
            return self
        rest = {other: value for other, value in part.items() if other != key}
        return ShardMap((*self._parts[:index], rest, *self._parts[index + 1 :]), self._size - 1)

    def values(self) -> Iterator[V]:
        """Every value, in an order that is the same in every process."""
        for part in self._parts:
            yield from part.values()

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part

    def __contains__(self, key: str) -> bool:
        return key in self._parts[part_of(key)]

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShardMap):
            return NotImplemented
        return self._size == other._size and all(a == b for a, b in zip(self._parts, other._parts, strict=True))

    __hash__ = None  # type: ignore[assignment]
