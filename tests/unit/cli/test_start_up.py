"""The command starts quickly because it imports late: no parser for --version, no gRPC before input is good."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from resurge_launcher import cli

PROJECT = Path(__file__).parents[3] / "services" / "launcher" / "pyproject.toml"
REPORT = "import sys; from resurge_launcher.cli import main; code = main({words!r}); print(code, *sorted(sys.modules))"


def modules_after(*words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(words=list(words))], capture_output=True, text=True, timeout=50, check=True
    )
    return done.stdout.splitlines()[-1].split()


def test_version_needs_no_parser():
    code, *modules = modules_after("--version")
    assert code == "0"
    assert not {"click", "grpc", "rich", "yaml", "pydantic", "google.protobuf"} & set(modules)


def test_bad_input_is_refused_before_grpc_is_imported():
    code, *modules = modules_after("run", "--nnodes", "2:1", "train.py")
    assert code == "2"
    assert not {"grpc", "rich", "yaml", "pydantic", "google.protobuf", "torch"} & set(modules)


def test_help_of_the_group_imports_no_subcommand():
    _, *modules = modules_after("--help")
    assert not [name for name in modules if name.startswith("resurge_launcher.commands.")]


def test_the_version_is_that_of_the_distribution():
    assert tomllib.loads(PROJECT.read_text())["project"]["version"] == cli.VERSION
