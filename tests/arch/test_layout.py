"""The house has the same plan everywhere: who knows one service knows all."""

from __future__ import annotations

import tomllib
from pathlib import PurePosixPath

import pytest

from tests.arch import repo

DISTRIBUTIONS = sorted(str(PurePosixPath(name).parent) for name in repo.files() if name.endswith("/pyproject.toml"))
SERVICES = {
    "services/rendezvous": "resurge_rendezvous",
    "services/restart_policy": "resurge_restart_policy",
    "services/log_aggregator": "resurge_log_aggregator",
}
SERVICE_PARTS = ("core/__init__.py", "settings.py", "wire.py", "servicer.py", "module.py", "__main__.py")
PAGE_LINES = {"README.md": 60, "ARCHITECTURE.md": 250, "STYLE.md": 150, "GLOSSARY.md": 60}


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_each_distribution_says_what_it_is(folder: str):
    assert f"{folder}/README.md" in repo.files()
    project = tomllib.loads(repo.text(f"{folder}/pyproject.toml"))["project"]
    assert project["description"]
    assert project["requires-python"] == ">=3.11"


@pytest.mark.parametrize("folder", SERVICES)
def test_each_service_has_the_same_parts(folder: str):
    parts = {f"{folder}/src/{SERVICES[folder]}/{part}" for part in SERVICE_PARTS}
    assert sorted(parts - set(repo.files())) == []


@pytest.mark.parametrize("folder", SERVICES)
def test_a_service_starts_in_five_lines(folder: str):
    lines = [line for line in repo.text(f"{folder}/src/{SERVICES[folder]}/__main__.py").splitlines() if line.strip()]
    assert len(lines) <= 6, "a docstring, and five lines"


@pytest.mark.parametrize("page", PAGE_LINES)
def test_each_page_is_short_enough_to_be_read(page: str):
    assert len(repo.text(page).splitlines()) <= PAGE_LINES[page]


def test_every_file_that_a_page_links_to_exists():
    missing = [
        f"{page} links to {target}"
        for page in repo.files()
        if page.endswith(".md")
        for target in repo.links(page)
        if not (repo.ROOT / page).parent.joinpath(target).exists()
    ]
    assert missing == []
