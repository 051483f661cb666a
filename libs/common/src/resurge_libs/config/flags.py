"""Click options from a settings class: one option per field, with dashes and with underscores. Decides nothing."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

import click
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from resurge_libs.config.settings import Flag, ServiceSettings, documentation_of, is_many

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(cls: type[ServiceSettings], leave_out: Iterable[str] = ()) -> Callable[[F], F]:
    """A decorator that adds an option for each field; a flag that was not given arrives as None (or an empty tuple).

    The values are not judged here but by `load`, which knows all sources and speaks of the field by its name.
    """
    skipped = frozenset(leave_out)

    def decorate(function: F) -> F:
        for field, info in reversed(list(cls.model_fields.items())):
            if field not in skipped:
                function = _option(field, info)(function)
        return function

    return decorate


def flags_of(cls: type[ServiceSettings], arguments: dict[str, Any]) -> dict[str, Any]:
    """The part of a command's arguments that belongs to the class."""
    return {name: value for name, value in arguments.items() if name in cls.model_fields}


def _option(field: str, info: FieldInfo) -> Callable[[F], F]:
    further = [name for item in info.metadata if isinstance(item, Flag) for name in item.names]
    text = documentation_of(info)
    if info.default not in (PydanticUndefined, None, (), ""):
        default = info.default.value if isinstance(info.default, Enum) else info.default
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        text = f"{text}  [default: {default}]"
    kind = _bare(info.annotation)
    if kind is bool:
        on = _spellings(field, further)
        off = [f"--no-{field.replace('_', '-')}", *([f"--no_{field}"] if "_" in field else [])]
        names = [f"{'/'.join(pair)}" for pair in zip(on[: len(off)], off, strict=False)]
        return click.option(*names, *on[len(off) :], field, default=None, help=text)
    return click.option(*_spellings(field, further), field, default=None, multiple=is_many(info), type=str, help=text)


def _spellings(field: str, further: list[str]) -> list[str]:
    names = [f"--{field.replace('_', '-')}"]
    if "_" in field:
        names.append(f"--{field}")
    for name in further:
        names.append(name)
        if name.startswith("--") and "-" in name[2:]:
            names.append("--" + name[2:].replace("-", "_"))
    return list(dict.fromkeys(names))


def _bare(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [item for item in typing.get_args(annotation) if item is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation
