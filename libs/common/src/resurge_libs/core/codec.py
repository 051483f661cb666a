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
"""Values that a generation of a digester's memo may always hold; two generations are kept."""
MEMO_TIMES = 2
"""Times the values of the newest state that a generation may hold: the memo grows with the state only."""


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
    keeps alive, past states too: so a generation of its memo ends once it holds more than the newest state may need.
    Not what one digest looked at: what lies within an unchanged value is wanted again when that changes at last.
    """

    def __init__(self, remember: bool = True) -> None:
        self._remember = remember
        self._young: dict[int, tuple[Any, str, int]] = {}
        self._old: dict[int, tuple[Any, str, int]] = {}
        self._values = 0
        """Of this digest so far: those within a remembered one count, too."""

    @property
    def remembered(self) -> int:
        """Values that are kept alive."""
        return len(self._young.keys() | self._old.keys())

    def digest(self, value: Any) -> bytes:
        """The same bytes as the function `digest`."""
        return bytes.fromhex(self.hex_of(value))

    def hex_of(self, value: Any) -> str:
        """The digest in hexadecimal digits."""
        self._values = 0
        found = self._sub(value, _plan_for(value))
        if len(self._young) > max(MEMO_LEAST, MEMO_TIMES * self._values):
            self._old, self._young = self._young, {}
        return found

    def _sub(self, value: Any, plan: ClassPlan) -> str:
        key, before = id(value), self._values
        known = self._young.get(key) or self._old.get(key)
        if known is not None and known[0] is value:
            self._young[key] = known
            self._values += known[2]
            return known[1]
        self._values += 1
        text = _dumps([plan.name, plan.encode(value, self._sub)])
        result = hashlib.sha256(text).hexdigest()
        if self._remember:
            self._young[key] = (value, result, self._values - before)
        return result


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
