"""Where each setting comes from: flag > RESURGE_<SECTION>__<FIELD> > PET_<NAME> > YAML > default.

Pure: flags, variables and the file's content are arguments. An unknown variable or key is refused with a suggestion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resurge_launcher.commands.values import Wrong
from resurge_launcher.flags import FOREIGN_SECTIONS, OPTIONS, SECTIONS, Option
from resurge_launcher.usage import UsageProblem, unknown

DEFAULT = "default"
NVRX_SECTION = "fault_tolerance"


@dataclass(frozen=True, slots=True)
class Sourced:
    """One setting with the place it came from."""

    option: Option
    value: Any  # None when nobody gave it and it has no fixed default
    written: str  # as it stood there
    source: str  # "--nnodes", "PET_NNODES", "launcher.nnodes in cfg.yaml", "default"

    @property
    def is_given(self) -> bool:
        """True when somebody gave it."""
        return self.source != DEFAULT

    @property
    def field(self) -> str:
        """How a message names it."""
        return self.source if self.is_given else self.option.flag


Resolved = Mapping[str, Sourced]
"""Every setting by its name."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of the YAML file, with its name for messages."""

    path: str
    content: Mapping[str, Any]


def resolve(
    flags: Mapping[str, tuple[str, str]], environ: Mapping[str, str], config: ConfigFile | None
) -> dict[str, Sourced]:
    """Every setting with its source; `flags` maps an option's name to (spelling, text). Raises UsageProblem."""
    refuse_unknown_variables(environ)
    from_file = _keys_of(config) if config else {}
    return {option.name: _resolve_one(option, flags, environ, from_file) for option in OPTIONS}


def _resolve_one(
    option: Option,
    flags: Mapping[str, tuple[str, str]],
    environ: Mapping[str, str],
    from_file: Mapping[str, tuple[str, str]],
) -> Sourced:
    if option.name in flags:
        source, written = flags[option.name]
        return _parse(option, written, source)
    for variable in (option.variable, *option.pet_variables):
        if variable in environ:
            return _parse(option, environ[variable], variable)
    if option.key in from_file:
        source, written = from_file[option.key]
        return _parse(option, written, source)
    if option.default is None:
        return Sourced(option, None, "", DEFAULT)
    return _parse(option, option.default, DEFAULT)


def _parse(option: Option, written: str, source: str) -> Sourced:
    try:
        return Sourced(option, option.parse(written), written, source)
    except Wrong as wrong:
        raise UsageProblem(source, wrong.problem, wrong.right) from None


def refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise UsageProblem for a RESURGE_<SECTION>__<FIELD> that nothing reads, with the one that was probably meant."""
    known = {option.variable for option in OPTIONS}
    foreign = {f"RESURGE_{section.upper()}__" for section in FOREIGN_SECTIONS}
    for variable in sorted(environ):
        if not variable.startswith("RESURGE_") or "__" not in variable or variable in known:
            continue
        if any(variable.startswith(prefix) for prefix in foreign):
            continue
        raise unknown(variable, "setting", variable, known)


def _keys_of(config: ConfigFile) -> dict[str, tuple[str, str]]:
    """`section.field` to (source, text) for the sections read here."""
    found: dict[str, tuple[str, str]] = {}
    known_sections = (*SECTIONS, *FOREIGN_SECTIONS)
    for section, body in config.content.items():
        if section == NVRX_SECTION:
            raise UsageProblem(
                f"{section} in {config.path}",
                "is a section of another launcher",
                "Name it launcher (settings of resurge run) or limits (time limits), with this project's keys.",
            )
        if section not in known_sections:
            raise unknown(f"{section} in {config.path}", "section", str(section), known_sections)
        if section in FOREIGN_SECTIONS:
            continue
        if not isinstance(body, Mapping):
            raise UsageProblem(
                f"{section} in {config.path}", "is not a section", "Write keys under it, each with its value."
            )
        known = {option.name for option in OPTIONS if option.section == section}
        for key, value in body.items():
            label = f"{section}.{key} in {config.path}"
            if str(key).replace("-", "_") not in known:
                raise unknown(label, "setting", str(key), known)
            found[f"{section}.{str(key).replace('-', '_')}"] = (label, _as_text(label, value))
    return found


def _as_text(label: str, value: Any) -> str:
    """A YAML value as an option would be written; lists become comma-separated, mappings key=value pairs."""
    match value:
        case None if label.startswith("limits."):
            return "none"
        case None:
            raise UsageProblem(label, "has no value", "Give one, or take the line out.")
        case bool():
            return "1" if value else "0"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str | int | float) for item in value):
            return ",".join(str(item) for item in value)
        case dict() if all(isinstance(item, str | int | float) for item in value.values()):
            return ",".join(f"{key}={item}" for key, item in value.items())
        case _:
            raise UsageProblem(
                label, "has a value that is nested too deep", "Give one value, a list, or key: value pairs."
            )


def listing(settings: Mapping[str, Sourced], shown: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Rows of --print-config: key, value, source. `shown` replaces values that were worked out from others."""
    rows = []
    for item in settings.values():
        value = shown.get(item.option.name, item.written)
        source = item.source
        if not item.is_given and item.option.name in shown and item.option.default is None:
            source = "worked out"
        rows.append((item.option.key, value or "-", source))
    return rows
