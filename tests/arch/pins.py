"""Which third-party distributions the workspace needs, and which of them constraints.txt does not pin.

Reads the metadata of what is installed; decides nothing about versions.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from importlib import metadata

from packaging.requirements import Requirement

Requires = Callable[[str], Iterable[str]]


def canonical(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(constraints: str) -> dict[str, str]:
    """Name to the exact version of each line `name==version`."""
    lines = (line.split("#")[0].strip() for line in constraints.splitlines())
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines) if version}


def wanted(pyprojects: Iterable[str], requirements: str) -> list[str]:
    """The requirements that the workspace states, those of its extras and of its builds included."""
    found = [line.split("#")[0].strip() for line in requirements.splitlines()]
    for text in pyprojects:
        data = tomllib.loads(text)
        project = data.get("project", {})
        found += project.get("dependencies", [])
        found += [line for extra in project.get("optional-dependencies", {}).values() for line in extra]
        found += data.get("build-system", {}).get("requires", [])
    return [line for line in found if line]


def closure(stated: Iterable[str], own: frozenset[str], requires: Requires) -> set[str]:
    """Names of everything that the stated requirements bring here, without the workspace's own distributions."""
    todo = [Requirement(line) for line in stated]
    seen: set[str] = set()
    while todo:
        requirement = todo.pop()
        name = canonical(requirement.name)
        if name in own or name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        todo += [Requirement(line) for line in requires(name)]
    return seen


def installed_requires(name: str) -> list[str]:
    """What an installed distribution asks for; nothing for one that is not installed."""
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
