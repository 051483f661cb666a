"""Which files the rules are about. Decides nothing about their content."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SOURCE_ROOTS = (
    "libs/common/src",
    "services/host/src",
    "services/launcher/src",
    "services/rendezvous/src",
    "services/restart_policy/src",
    "services/log_aggregator/src",
    "worker_sdk/src",
)
GENERATED_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
PROGRAM_FOLDERS = ("programs", "examples")  # scripts that run as somebody's training, not as part of the house


@cache
def files() -> tuple[str, ...]:
    """All files of the repository that git does not ignore, relative to its root; new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.decode()
    return tuple(sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()}))


def is_generated(name: str) -> bool:
    """Whether the file comes from the proto compiler."""
    return name.endswith(GENERATED_SUFFIXES)


def product_python() -> tuple[str, ...]:
    """The hand-written modules of all distributions."""
    return tuple(
        name for name in files() if name.endswith(".py") and name.startswith(SOURCE_ROOTS) and not is_generated(name)
    )


def test_python() -> tuple[str, ...]:
    """The test modules and their tools, without the programs that tests start as workers."""
    return tuple(
        name
        for name in files()
        if name.startswith("tests/") and name.endswith(".py") and not set(PROGRAM_FOLDERS) & set(name.split("/"))
    )


@cache
def text(name: str) -> str:
    """The content of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def links(name: str) -> list[str]:
    """The files that a page of Markdown links to, relative to it; not addresses, not anchors of the page itself."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(name))
    return [target for target in targets if "://" not in target and not target.startswith("mailto:")]
