"""The canonical encoding of frozen values to bytes and back, and their digest. Pure.

One value has one encoding, whatever the process, the hash seed or the order of insertion: dataclass fields in their
declared order, mappings and frozensets sorted, members of a union tagged with their class name. Encoders and
decoders are planned once per type and cached. Decoding is strict: unknown classes and fields, missing fields and
wrong types are errors that name the place; a missing field with a default takes it, so that records may grow.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import is_dataclass
from typing import Any

from resurge_libs.core.codec_errors import (
    CodecError,
    MissingField,
    NotCanonical,
    UnknownClass,
    UnknownField,
    UnsupportedType,
    WrongType,
)
from resurge_libs.core.codec_plan import ClassPlan, members_of, plan_of

__all__ = [
    "CodecError",
    "Digester",
    "MissingField",
    "NotCanonical",
    "UnknownClass",
    "UnknownField",
    "UnsupportedType",
    "WrongType",
    "decode",
    "digest",
    "encode",
    "name_of",
]

MEMO_LEAST = 256
"""Values of past states that a digester's memo may always hold."""
MEMO_SHARE = 16
"""Where a state is large, one past value for so many of it: telling which are past costs a look at all of them."""


def name_of(value: Any) -> str:
    """The tag under which a value of this class is encoded."""
    return type(value).__name__


def encode(value: Any) -> bytes:
    """The canonical bytes of a frozen dataclass or enum member, tagged with its class name.

    Raises WrongType for a field whose value does not fit its annotation, UnsupportedType for a class without encoding.
    """
    plan = _plan_for(value)
    return _dumps([plan.name, plan.encode(value, _whole)])


def decode(kind: Any, data: bytes) -> Any:
    """The value that `encode` made; `kind` is its class or a union of the classes allowed here.

    Raises NotCanonical, UnknownClass, UnknownField, MissingField or WrongType, each naming the place.
    """
    try:
        outer = json.loads(data)
    except (ValueError, UnicodeDecodeError) as error:
        raise NotCanonical(f"not an encoded value: {error}") from error
    if not (isinstance(outer, list) and len(outer) == 2 and isinstance(outer[0], str)):
        raise NotCanonical("not an encoded value: expected [class name, fields]")
    allowed = members_of(kind)
    plan = allowed.get(outer[0])
    if plan is None:
        raise UnknownClass(f"class {outer[0]!r} is not allowed here; known are {', '.join(sorted(allowed))}")
    return plan.decode(outer[1], plan.name)


def digest(value: Any) -> bytes:
    """32 bytes that are equal for equal values, in every process."""
    return bytes.fromhex(Digester(remember=False).hex_of(value))


class Digester:
    """Digests of large frozen states that change little by little: unchanged dataclasses are not hashed again.

    Remembers by identity, so the values must be deeply immutable, as the states of a machine are. What it remembers it
    keeps alive, past states too: so it lets go of all that the newest state does not hold, once that is much. It keeps
    what lies within unchanged values: that is wanted again when those change at last.
    """

    def __init__(self, remember: bool = True) -> None:
        self._remember = remember
        self._memo: dict[int, tuple[Any, str, tuple[int, ...]]] = {}
        """By identity: the value, its digest, and the values right within it."""
        self._within: list[int] = []
        self._room = MEMO_LEAST

    @property
    def remembered(self) -> int:
        """Values that are kept alive."""
        return len(self._memo)

    def digest(self, value: Any) -> bytes:
        """The same bytes as the function `digest`."""
        return bytes.fromhex(self.hex_of(value))

    def hex_of(self, value: Any) -> str:
        """The digest in hexadecimal digits."""
        self._within = []
        found = self._sub(value, _plan_for(value))
        if len(self._memo) > self._room:
            self._let_go_of_all_but(id(value))
        return found

    def _sub(self, value: Any, plan: ClassPlan) -> str:
        key, beside = id(value), self._within
        beside.append(key)
        known = self._memo.get(key)
        if known is not None and known[0] is value:
            return known[1]
        self._within = []
        text = _dumps([plan.name, plan.encode(value, self._sub)])
        result = hashlib.sha256(text).hexdigest()
        if self._remember:
            self._memo[key] = (value, result, tuple(self._within))
        self._within = beside
        return result

    def _let_go_of_all_but(self, root: int) -> None:
        held: dict[int, tuple[Any, str, tuple[int, ...]]] = {}
        left = [root]
        while left:  # each value once
            key = left.pop()
            if key not in held:
                held[key] = self._memo[key]
                left += held[key][2]
        self._memo = held
        self._room = len(held) + max(MEMO_LEAST, len(held) // MEMO_SHARE)


def _whole(value: Any, plan: ClassPlan) -> Any:
    return plan.encode(value, _whole)


def _plan_for(value: Any) -> ClassPlan:
    if not is_dataclass(value) or isinstance(value, type):
        raise UnsupportedType(f"only dataclass values are encoded on their own, not {value!r}")
    return plan_of(type(value))


def _dumps(tree: Any) -> bytes:
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:  # NaN and infinities have no equal and no JSON
        raise WrongType(f"a float must be finite: {error}") from error
