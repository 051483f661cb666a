"""Where a worker that is forked anew has its files: a disk may have come or gone since the start of the others."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher.output import Stream
from resurge_launcher.settings import Std
from resurge_launcher.start_files import NO_FILES, LogFiles, made
from resurge_launcher.team import Shop, Team
from tests.unit.launcher.core_world import run
from tests.unit.launcher.test_environment import facts


class FakeFunnel:
    """Keeps what is opened, and gives out descriptors as the true one does."""

    def __init__(self) -> None:
        self.opened: list[tuple[Stream, bool]] = []

    def open(self, stream: Stream, descriptor: int | None = None) -> int:
        self.opened.append((stream, descriptor is not None))
        if descriptor is not None:
            os.close(descriptor)
        return os.open(os.devnull, os.O_WRONLY)


@pytest.fixture
def funnel() -> FakeFunnel:
    return FakeFunnel()


@pytest.fixture
def shop(tmp_path: Path, funnel: FakeFunnel) -> Shop:
    own, pages = tmp_path / "own", tmp_path / "pages"
    own.mkdir()
    pages.mkdir()
    settings = SimpleNamespace(
        entry=SimpleNamespace(command=lambda python: [python]), python="python", environ={}, cycle_info_dir=None,
        redirects=SimpleNamespace(of=lambda _: Std.ALL), tee=SimpleNamespace(of=lambda _: Std.NONE),
        local_ranks_filter=None,
    )  # fmt: skip
    return Shop(cast(Any, settings), facts(), pages, cast(Any, funnel), own)


def forked_anew(team: Team, files: LogFiles) -> dict[str, str]:
    """Fork local rank 1 anew, as far as its command; its environment."""
    environments: list[dict[str, str]] = []
    team._workers[1] = cast(Any, SimpleNamespace(status=object()))

    def fork(commands: Any) -> None:
        environments.extend(command.env for command in commands)

    assert not team.replace(cast(Any, None), cast(Any, None), fork, [1], files)
    return environments[0]


def test_without_a_disk_its_output_is_on_the_terminal_and_no_error_of_the_one_before_is_left(
    tmp_path: Path, shop: Shop, funnel: FakeFunnel
):
    files = made(tmp_path / "logs", (4, 5))
    files.close()
    team = Team(shop, run(3), LogFiles(tmp_path / "logs"))
    for error in (tmp_path / "logs" / "5" / "error.json", shop.own_dir / "error-5.json"):
        error.write_text("the error of the one before")
    environment = forked_anew(team, NO_FILES)
    assert [(stream.file, stream.to_terminal) for stream, _ in funnel.opened] == [(None, True)] * 2
    assert environment["TORCHELASTIC_ERROR_FILE"] == str(shop.own_dir / "error-5.json")
    assert team.error_of(1) == "" and team.directory_of(5) is None
    assert team.directory_of(4) == tmp_path / "logs" / "4", "the others have their files as before"
    team.book.close()


def test_with_a_disk_that_came_back_its_output_is_in_files(tmp_path: Path, shop: Shop, funnel: FakeFunnel):
    open_before = len(os.listdir("/proc/self/fd"))
    team = Team(shop, run(3), NO_FILES)
    environment = forked_anew(team, made(tmp_path / "logs", (5,)))
    own = tmp_path / "logs" / "5"
    assert [(stream.file, has) for stream, has in funnel.opened] == [
        (own / "stdout.log", True),
        (own / "stderr.log", True),
    ]
    assert environment["TORCHELASTIC_ERROR_FILE"] == str(own / "error.json")
    assert team.directory_of(4) is None
    team.book.close()
    assert len(os.listdir("/proc/self/fd")) <= open_before, "nothing stays open"
