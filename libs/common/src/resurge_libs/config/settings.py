"""The typed settings of a service, and where each value came from. Reads files only through `load`.

A value comes from the first of: flag, environment (`RESURGE_<SECTION>__<FIELD>`), YAML (section, then field),
default. Names that nobody knows are errors with a suggestion, so that a typing error cannot pass as a default.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pydantic
from pydantic.fields import FieldInfo

ENV_PREFIX = "RESURGE_"
HIDDEN = "********"


class UsageProblem(Exception):
    """What the user gave cannot work: names the field and what would be right. The process exits with 2."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Flag:
    """In a field's Annotated: further flag names, for example `Flag("-r")`."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


class Secret:
    """In a field's Annotated: the value is not shown by `print_config`."""


class ServiceSettings(pydantic.BaseModel):
    """Base of all settings: frozen, and strict about names. A subclass gives `SECTION` and annotated fields.

    A string in a field's Annotated is its documentation: `Annotated[float, Gt(0), "How often a beat is sent."] = 2.0`.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    SECTION: ClassVar[str] = ""


C = TypeVar("C", bound=ServiceSettings)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """Settings, with the source of each field."""

    settings: C
    sources: Mapping[str, str]


def load(
    cls: type[C],
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    yaml_path: str | Path | None = None,
    section: str = "",
    known_sections: Iterable[str] = (),
) -> Loaded[C]:
    """The settings from all sources. Raises UsageProblem naming the field, its source, and what would be right.

    `flags` holds None for a flag that was not given. `known_sections` are the other sections that the YAML file and
    the environment may hold; without them only this class's section is judged.
    """
    name = section or cls.SECTION
    known = {name, *known_sections}
    found: dict[str, tuple[Any, str]] = {}
    for field, value in _from_yaml(cls, yaml_path, name, known if known_sections else None).items():
        found[field] = value, f"YAML {yaml_path}"
    for field, (value, variable) in _from_environ(cls, environ, name, known if known_sections else None).items():
        found[field] = value, variable
    for field, value in _from_flags(cls, flags).items():
        found[field] = value, f"flag --{field.replace('_', '-')}"
    sources = {field: found[field][1] if field in found else "default" for field in cls.model_fields}
    try:
        settings = cls(**{field: value for field, (value, _) in found.items()})
    except pydantic.ValidationError as error:
        raise UsageProblem(_violations(error, name, sources)) from None
    return Loaded(settings, types.MappingProxyType(sources))


def print_config(*loaded: Loaded[Any]) -> str:
    """One line per field: its full name, its value, and where the value came from."""
    rows = [("setting", "value", "source")]
    for item in loaded:
        for field, info in type(item.settings).model_fields.items():
            value = HIDDEN if is_secret(info) and getattr(item.settings, field) else getattr(item.settings, field)
            rows.append((f"{item.settings.SECTION}.{field}", _shown(value), item.sources[field]))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows)


def documentation_of(info: FieldInfo) -> str:
    """The field's sentence, from its Annotated or its description."""
    return next((item for item in info.metadata if isinstance(item, str)), info.description or "")


def is_secret(info: FieldInfo) -> bool:
    """Whether the field's value must not be shown."""
    return any(item is Secret or isinstance(item, Secret) for item in info.metadata)


def is_many(info: FieldInfo) -> bool:
    """Whether the field holds several values: a comma-separated variable, a repeated flag."""
    return typing.get_origin(_bare(info.annotation)) in (tuple, list, frozenset, set)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for a name close to a known one, else what is known."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(choices) or 'none'}"


def _from_flags(cls: type[ServiceSettings], flags: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(flags) - set(cls.model_fields))
    if unknown:
        raise UsageProblem(f"unknown setting {unknown[0]!r}{suggestion(unknown[0], cls.model_fields)}")
    return {field: value for field, value in flags.items() if value is not None and value != ()}


def _from_environ(
    cls: type[ServiceSettings], environ: Mapping[str, str], section: str, known: set[str] | None
) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    fields = {field.upper(): field for field in cls.model_fields}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or "__" not in variable:
            continue
        owner, _, rest = variable.removeprefix(ENV_PREFIX).partition("__")
        if owner != section.upper():
            if known is not None and owner not in {item.upper() for item in known}:
                hint = suggestion(f"{ENV_PREFIX}{owner}", {f"{ENV_PREFIX}{item.upper()}" for item in known})
                raise UsageProblem(f"environment variable {variable}: no section {owner.lower()!r}{hint}")
            continue
        if rest not in fields:
            hint = suggestion(variable, {f"{ENV_PREFIX}{owner}__{item}" for item in fields})
            raise UsageProblem(f"environment variable {variable}: {section} has no such setting{hint}")
        field = fields[rest]
        many = is_many(cls.model_fields[field])
        found[field] = (_split(text) if many else text), variable
    return found


def _from_yaml(
    cls: type[ServiceSettings], path: str | Path | None, section: str, known: set[str] | None
) -> dict[str, Any]:
    if path is None:
        return {}
    tree = _read_yaml(Path(path))
    if known is not None:
        for name in tree:
            if name not in known:
                raise UsageProblem(f"{path}: unknown section {name!r}{suggestion(str(name), known)}")
    part = tree.get(section)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise UsageProblem(f"{path}: section {section!r} must be a mapping of settings, not {type(part).__name__}")
    for name in part:
        if name not in cls.model_fields:
            raise UsageProblem(f"{path}: {section} has no setting {name!r}{suggestion(str(name), cls.model_fields)}")
    return part


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # late: most processes have no file, and the parser costs start-up time

    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"settings file {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UsageProblem(f"settings file {path} is not YAML: {' '.join(str(error).split())}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UsageProblem(f"settings file {path} must hold sections with settings, not a {type(tree).__name__}")
    return tree


def _violations(error: pydantic.ValidationError, section: str, sources: Mapping[str, str]) -> str:
    lines = []
    for item in error.errors():
        field = str(item["loc"][0]) if item["loc"] else ""
        where = f"{section}.{field}" if field else section
        source = f" (from {sources[field]})" if sources.get(field, "default") != "default" else ""
        given = f", not {item['input']!r}" if item["type"] != "missing" and field else ""
        message = item["msg"].removeprefix("Value error, ")
        lines.append(f"{where}{source}: {message}{given}")
    return "\n".join(lines)


def _bare(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [item for item in typing.get_args(annotation) if item is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str | bool | int | float):
        return str(value)
    if isinstance(value, tuple | list | frozenset | set):
        return ",".join(map(str, value)) or "-"
    return str(value)
