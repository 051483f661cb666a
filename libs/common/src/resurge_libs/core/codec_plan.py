"""Plans, once per type, how values are turned into plain trees and back. Pure; `codec` is the way in.

A plan is a pair of closures. The encoder gets a `sub` function that decides what stands for a nested dataclass: its
own tree (encoding) or its digest (hashing).
"""

from __future__ import annotations

import base64
import binascii
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, get_args, get_origin

from resurge_libs.core.codec_errors import MissingField, UnknownClass, UnknownField, UnsupportedType, WrongType

Sub = Callable[[Any, "ClassPlan"], Any]
Encode = Callable[[Any, Sub], Any]
Decode = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one type is encoded and decoded, and which Python class its values have (for unions)."""

    encode: Encode
    decode: Decode
    tag: str
    python: type


class ClassPlan:
    """How one dataclass is encoded: its fields in declared order."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.name = cls.__name__
        self._parts: tuple[tuple[str, Plan, Field[Any]], ...] = ()

    def fill(self) -> None:
        """Plan the fields; apart from construction, so that a class may contain itself."""
        hints = typing.get_type_hints(self.cls)
        self._parts = tuple(
            (item.name, _plan(hints[item.name], f"{self.name}.{item.name}"), item)
            for item in fields(self.cls)
            if item.init
        )

    def encode(self, value: Any, sub: Sub) -> dict[str, Any]:
        """The tree of one value."""
        tree = {}
        for name, plan, _ in self._parts:
            try:
                tree[name] = plan.encode(getattr(value, name), sub)
            except WrongType as error:
                raise WrongType(f"{self.name}.{name}: {error}") from None
        return tree

    def decode(self, tree: Any, where: str) -> Any:
        """The value of one tree; `where` names it in errors."""
        if not isinstance(tree, dict):
            raise WrongType(f"{where}: expected the fields of {self.name}, got {_shown(tree)}")
        values = {}
        for name, plan, item in self._parts:
            if name in tree:
                values[name] = plan.decode(tree[name], f"{where}.{name}")
            elif item.default is MISSING and item.default_factory is MISSING:
                raise MissingField(f"{where}: field {name!r} is missing")
        if len(values) < len(tree):
            unknown = sorted(set(tree) - {name for name, _, _ in self._parts})
            raise UnknownField(f"{where}: {self.name} has no field {', '.join(map(repr, unknown))}")
        try:
            return self.cls(**values)
        except (ValueError, TypeError) as error:
            raise WrongType(f"{where}: {error}") from error


_class_plans: dict[type, ClassPlan] = {}


def plan_of(cls: type) -> ClassPlan:
    """The plan of a dataclass. Raises UnsupportedType if one of its fields has no encoding."""
    known = _class_plans.get(cls)
    if known is None:
        if not (isinstance(cls, type) and is_dataclass(cls)):
            raise UnsupportedType(f"{cls!r} is not a dataclass")
        known = _class_plans[cls] = ClassPlan(cls)
        try:
            known.fill()
        except BaseException:
            del _class_plans[cls]
            raise
    return known


@lru_cache(maxsize=256)
def members_of(kind: Any) -> dict[str, ClassPlan]:
    """The classes that `kind`, a dataclass or a union of dataclasses, allows, by their tag."""
    plans: dict[str, ClassPlan] = {}
    for member in _flat(kind):
        plan = plan_of(member)
        if plans.setdefault(plan.name, plan) is not plan:
            raise UnsupportedType(f"two classes named {plan.name!r} in one union cannot be told apart")
    return plans


def _flat(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(inner for member in get_args(kind) for inner in _flat(member))
    return (kind,)


def _plan(hint: Any, where: str) -> Plan:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if hint is None or hint is type(None):
        return _scalar("none", type(None))
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _plan(args[0], where)
    if origin in (typing.Union, types.UnionType):
        return _union(_flat(hint), where)
    if origin is tuple:
        return _tuple(args, where)
    if origin is frozenset:
        return _frozenset(args[0], where)
    if origin in (Mapping, typing.Mapping, types.MappingProxyType):
        return _mapping(args[0], args[1], where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(hint)
    raise UnsupportedType(f"{where}: {hint!r} has no canonical encoding")


def _scalar(tag: str, python: type) -> Plan:
    def encode(value: Any, sub: Sub) -> Any:
        if type(value) is not python:
            raise WrongType(f"expected {tag}, got {_shown(value)}")
        return value

    def decode(tree: Any, where: str) -> Any:
        if type(tree) is not python:
            raise WrongType(f"{where}: expected {tag}, got {_shown(tree)}")
        return tree

    return Plan(encode, decode, tag, python)


def _text() -> Plan:
    def encode(value: Any, sub: Sub) -> str:
        if not isinstance(value, str):
            raise WrongType(f"expected str, got {_shown(value)}")
        return str(value)  # a StrEnum member in a str field is stored as its text

    def decode(tree: Any, where: str) -> str:
        if type(tree) is not str:
            raise WrongType(f"{where}: expected str, got {_shown(tree)}")
        return tree

    return Plan(encode, decode, "str", str)


def _float() -> Plan:
    def encode(value: Any, sub: Sub) -> float:
        if type(value) not in (float, int):
            raise WrongType(f"expected float, got {_shown(value)}")
        return float(value) + 0.0  # -0.0 equals 0.0, so both have one encoding

    def decode(tree: Any, where: str) -> float:
        if type(tree) not in (float, int):
            raise WrongType(f"{where}: expected float, got {_shown(tree)}")
        return float(tree)

    return Plan(encode, decode, "float", float)


def _bytes() -> Plan:
    def encode(value: Any, sub: Sub) -> str:
        if type(value) is not bytes:
            raise WrongType(f"expected bytes, got {_shown(value)}")
        return base64.b64encode(value).decode()

    def decode(tree: Any, where: str) -> bytes:
        if type(tree) is not str:
            raise WrongType(f"{where}: expected base64 text, got {_shown(tree)}")
        try:
            return base64.b64decode(tree, validate=True)
        except binascii.Error as error:
            raise WrongType(f"{where}: not base64: {error}") from error

    return Plan(encode, decode, "bytes", bytes)


_SCALARS: dict[Any, Plan] = {
    bool: _scalar("bool", bool),
    int: _scalar("int", int),
    float: _float(),
    str: _text(),
    bytes: _bytes(),
}


def _enum(cls: type[Enum]) -> Plan:
    def encode(value: Any, sub: Sub) -> str:
        if type(value) is not cls:
            raise WrongType(f"expected {cls.__name__}, got {_shown(value)}")
        return str(value.name)

    def decode(tree: Any, where: str) -> Any:
        try:
            return cls[tree]
        except (KeyError, TypeError):
            raise WrongType(f"{where}: {tree!r} is no {cls.__name__}") from None

    return Plan(encode, decode, cls.__name__, cls)


def _nested(cls: type) -> Plan:
    inner = plan_of(cls)

    def encode(value: Any, sub: Sub) -> Any:
        if type(value) is not cls:
            raise WrongType(f"expected {cls.__name__}, got {_shown(value)}")
        return sub(value, inner)

    return Plan(encode, inner.decode, cls.__name__, cls)


def _union(kinds: tuple[Any, ...], where: str) -> Plan:
    plans = [_plan(kind, where) for kind in kinds if kind is not type(None)]
    optional = len(plans) < len(kinds)
    by_python = {plan.python: plan for plan in plans}
    by_tag = {plan.tag: plan for plan in plans}
    if not len(plans) == len(by_python) == len(by_tag):
        raise UnsupportedType(f"{where}: members of a union must have distinct classes and names")
    only = plans[0] if len(plans) == 1 else None

    def encode(value: Any, sub: Sub) -> Any:
        if value is None and optional:
            return None
        if only is not None:
            return only.encode(value, sub)
        plan = by_python.get(type(value))
        if plan is None:
            raise WrongType(f"expected one of {', '.join(by_tag)}, got {_shown(value)}")
        return [plan.tag, plan.encode(value, sub)]

    def decode(tree: Any, at: str) -> Any:
        if tree is None and optional:
            return None
        if only is not None:
            return only.decode(tree, at)
        if not (isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], str)):
            raise WrongType(f"{at}: expected [class name, value], got {_shown(tree)}")
        plan = by_tag.get(tree[0])
        if plan is None:
            raise UnknownClass(f"{at}: {tree[0]!r} is not one of {', '.join(by_tag)}")
        return plan.decode(tree[1], at)

    return Plan(encode, decode, "|".join(by_tag), object)


def _tuple(args: tuple[Any, ...], where: str) -> Plan:
    repeated = len(args) == 2 and args[1] is Ellipsis
    items = (_plan(args[0], where),) if repeated else tuple(_plan(arg, where) for arg in args if arg != ())

    def encode(value: Any, sub: Sub) -> list[Any]:
        if not isinstance(value, tuple):
            raise WrongType(f"expected tuple, got {_shown(value)}")
        if repeated:
            one = items[0].encode
            return [one(member, sub) for member in value]
        if len(value) != len(items):
            raise WrongType(f"expected {len(items)} members, got {len(value)}")
        return [plan.encode(member, sub) for plan, member in zip(items, value, strict=True)]

    def decode(tree: Any, at: str) -> tuple[Any, ...]:
        if not isinstance(tree, list):
            raise WrongType(f"{at}: expected a list, got {_shown(tree)}")
        if repeated:
            one = items[0].decode
            return tuple(one(member, f"{at}[{index}]") for index, member in enumerate(tree))
        if len(tree) != len(items):
            raise WrongType(f"{at}: expected {len(items)} members, got {len(tree)}")
        return tuple(
            plan.decode(member, f"{at}[{index}]") for index, (plan, member) in enumerate(zip(items, tree, strict=True))
        )

    return Plan(encode, decode, "tuple", tuple)


def _frozenset(arg: Any, where: str) -> Plan:
    item = _plan(arg, where)

    def encode(value: Any, sub: Sub) -> list[Any]:
        if not isinstance(value, frozenset):
            raise WrongType(f"expected frozenset, got {_shown(value)}")
        return sorted((item.encode(member, sub) for member in value), key=_order)

    def decode(tree: Any, at: str) -> frozenset[Any]:
        if not isinstance(tree, list):
            raise WrongType(f"{at}: expected a list, got {_shown(tree)}")
        return frozenset(item.decode(member, f"{at}[{index}]") for index, member in enumerate(tree))

    return Plan(encode, decode, "frozenset", frozenset)


def _mapping(key_hint: Any, value_hint: Any, where: str) -> Plan:
    key_plan, value_plan = _plan(key_hint, where), _plan(value_hint, where)

    def encode(value: Any, sub: Sub) -> list[Any]:
        if not isinstance(value, Mapping):
            raise WrongType(f"expected a mapping, got {_shown(value)}")
        pairs = [[key_plan.encode(key, sub), value_plan.encode(member, sub)] for key, member in value.items()]
        return sorted(pairs, key=lambda pair: _order(pair[0]))

    def decode(tree: Any, at: str) -> Mapping[Any, Any]:
        if not (isinstance(tree, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in tree)):
            raise WrongType(f"{at}: expected pairs of key and value, got {_shown(tree)}")
        found = {
            key_plan.decode(key, f"{at}[{index}]"): value_plan.decode(member, f"{at}[{key!r}]")
            for index, (key, member) in enumerate(tree)
        }
        return types.MappingProxyType(found)

    return Plan(encode, decode, "mapping", dict)


def _order(tree: Any) -> str:
    return tree if isinstance(tree, str) else json.dumps(tree, sort_keys=True)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}{'…' if len(text) > 60 else ''}"
