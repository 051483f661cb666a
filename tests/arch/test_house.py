"""The house rules, applied to every file of the repository. What is wrong is listed with file, line and sentence."""

from __future__ import annotations

from functools import cache

import pytest

from tests.arch import house, imports, repo, rules


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: rules.Rule):
    assert list(house.RULES[rule]())
    assert everything()[rule] == []


@cache
def everything() -> dict[rules.Rule, list[str]]:
    """What all rules find in all files."""
    return house.found(repo.files())


def test_every_named_reader_of_the_environment_exists():
    assert [name for name in house.ENVIRONMENT_READERS if name not in repo.files()] == []


def test_every_script_and_module_of_the_makefile_exists():
    assert rules.missing_programs(repo.text("Makefile"), frozenset(repo.files())) == []


def test_no_import_rings():
    names = repo.product_python()
    modules = {imports.module_name(name): repo.text(name) for name in names}
    packages = frozenset(imports.module_name(name) for name in names if name.endswith("__init__.py"))
    assert imports.cycles(imports.edges(modules, packages)) == []


def test_each_package_knows_only_its_rooms_of_the_api():
    wrong = [f"{name} imports {room}" for name, wanted in all_imports() for room in imports.foreign_rooms(name, wanted)]
    assert wrong == []


def test_the_host_imports_only_the_module_of_a_service():
    wrong = [
        f"{name} imports {what}"
        for name, wanted in all_imports()
        if name.startswith("resurge_host")
        for what in imports.host_reaches_past_module(wanted)
    ]
    assert wrong == []


def test_the_launcher_knows_only_the_shared_formats_of_the_sdk():
    wrong = [
        f"{name} imports {what}"
        for name, wanted in all_imports()
        if name.startswith("resurge_launcher")
        for what in imports.sdk_beyond_formats(wanted)
    ]
    assert wrong == []


FRAMEWORKS = {"resurge.lightning": ("lightning", "pytorch_lightning"), "resurge.transformers": ("transformers",)}
"""Modules that are a framework's own class, and may import that framework: a script names them with it."""


def test_the_sdk_is_imported_with_the_standard_library_alone():
    wrong = [
        f"{name} imports {what}"
        for name in repo.product_python()
        if name.startswith("worker_sdk/src/")
        for what in imports.eager_third_party(repo.text(name))
        if what.split(".")[0] not in FRAMEWORKS.get(imports.module_name(name), ())
    ]
    assert wrong == []


def test_nothing_of_the_sdk_imports_the_modules_of_a_framework():
    wanted = dict(all_imports())
    assert wanted.keys() >= FRAMEWORKS.keys()
    found = [
        f"{name} imports {what}"
        for name, whats in wanted.items()
        for what in whats
        if what.startswith(tuple(FRAMEWORKS)) and name not in FRAMEWORKS
    ]
    assert found == []


@cache
def all_imports() -> tuple[tuple[str, set[str]], ...]:
    return tuple(
        (
            imports.module_name(name),
            imports.imported(imports.module_name(name), repo.text(name), is_package=name.endswith("__init__.py")),
        )
        for name in repo.product_python()
    )
