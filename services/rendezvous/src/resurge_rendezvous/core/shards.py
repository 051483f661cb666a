"""A persistent map for tables of many nodes: changing one entry copies one of 64 parts, not the table. Pure.

The part of a key is the same in every process, so that iteration is too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar
from zlib import crc32

V = TypeVar("V")

PARTS = 64


REMEMBERED = 65_536
"""Keys whose part is remembered: the same few thousand nodes are looked up a dozen times for each message."""


@lru_cache(maxsize=REMEMBERED)
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

    def opened(self) -> ShardMap[V]:
        """The same map for one step that changes much of it: `put` and `drop` set it in place."""
        return OpenShardMap(self._parts, self._size)

    def closed(self) -> ShardMap[V]:
        """The map as a value that nothing changes any more."""
        return self


class OpenShardMap(ShardMap[V]):
    """A map that belongs to one step: a part is copied at its first change, and changed in place from then on.

    What iterates sees the map as it was when it began.
    """

    __slots__ = ("_open", "_own")
    _open: list[dict[str, V]] | None
    """The parts, once one of them was changed."""
    _own: int
    """A bit for each part that is a copy."""

    def __init__(self, parts: tuple[Mapping[str, V], ...], size: int) -> None:
        _set(self, "_parts", parts)
        _set(self, "_size", size)
        _set(self, "_open", None)
        _set(self, "_own", 0)

    def _part(self, index: int) -> dict[str, V]:
        parts = self._open
        if parts is None:
            parts = list(self._parts)  # type: ignore[arg-type]  # those not copied yet are only read
            _set(self, "_open", parts)
            _set(self, "_parts", parts)
        if not self._own >> index & 1:
            parts[index] = dict(parts[index])
            _set(self, "_own", self._own | 1 << index)
        return parts[index]

    def put(self, key: str, value: V) -> ShardMap[V]:
        """This map, with one entry set."""
        index = part_of(key)
        known = self._parts[index]
        if key not in known:
            _set(self, "_size", self._size + 1)
        elif known[key] is value:
            return self
        self._part(index)[key] = value
        return self

    def put_all(self, items: Iterable[tuple[str, V]]) -> ShardMap[V]:
        """This map, with many entries set."""
        for key, value in items:
            self.put(key, value)
        return self

    def drop(self, key: str) -> ShardMap[V]:
        """This map, without one key."""
        index = part_of(key)
        if key in self._parts[index]:
            del self._part(index)[key]
            _set(self, "_size", self._size - 1)
        return self

    def values(self) -> Iterator[V]:
        """Every value, in an order that is the same in every process."""
        return (value for part in self._as_it_is() for value in part.values())

    def __iter__(self) -> Iterator[str]:
        return (key for part in self._as_it_is() for key in part)

    def _as_it_is(self) -> tuple[Mapping[str, V], ...]:
        """The parts, which are copied before their next change: whoever wants only the first item pays for no other."""
        _set(self, "_own", 0)
        return tuple(self._parts)

    def closed(self) -> ShardMap[V]:
        """The map as a value that nothing changes any more."""
        return ShardMap(tuple(self._parts), self._size)


_set = object.__setattr__
