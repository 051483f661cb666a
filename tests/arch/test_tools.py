"""The ready tools run as tests too: ruff, import contracts, proto rules, freshness of the generated code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch import repo, rules

BIN = Path(sys.executable).parent
GENERATED = Path("libs/api/src")


def run(*command: str | Path, limit_s: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """One tool, from the root of the repository, with this environment's tools first on the path."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(word) for word in command],
        cwd=repo.ROOT,
        env=os.environ | {"PATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )


def tool(name: str) -> Path:
    """The tool of this environment; skips where it is not installed."""
    found = shutil.which(name, path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed here: make setup brings it")
    return Path(found)


def test_the_import_contracts_hold():
    done = run(tool("lint-imports"), "--no-cache")
    assert done.returncode == 0, done.stdout[-4000:]


def test_an_impure_core_breaks_its_contract(tmp_path: Path):
    package = tmp_path / "resurge_sample"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text("def late():\n    import time\n    return time.monotonic()\n")
    contract = tmp_path / "contracts.ini"
    contract.write_text(
        "[importlinter]\nroot_package = resurge_sample\ninclude_external_packages = True\n"
        "[importlinter:contract:pure]\nname = pure\ntype = forbidden\nsource_modules = resurge_sample.core\n"
        "forbidden_modules = time\n"
    )
    done = run(tool("lint-imports"), "--no-cache", "--config", contract, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-4000:]
    assert "resurge_sample.core -> time" in done.stdout


def test_public_functions_have_types_and_docstrings():
    done = run(
        tool("ruff"),
        "check",
        "--quiet",
        "--select",
        "ANN001,ANN201,ANN202,ANN204,D100,D101,D102,D103",
        *repo.SOURCE_ROOTS,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_ruff_refuses_an_untyped_function_without_docstring(tmp_path: Path):
    sample = tmp_path / "sample.py"
    sample.write_text('"""A module."""\n\n\ndef f(a):\n    return a\n')
    done = run(tool("ruff"), "check", "--quiet", "--no-cache", "--config", repo.ROOT / "pyproject.toml", sample)
    assert done.returncode == 1
    assert {"ANN001", "ANN201", "D103"} <= {
        word for word in done.stdout.replace(":", " ").split() if word[-3:].isdigit()
    }


def test_the_protos_keep_their_rules():
    tool("buf")
    done = run(repo.ROOT / "scripts/proto.sh", "check", VENV=str(BIN.parent))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_removed_field_is_refused(tmp_path: Path):
    buf = tool("buf")
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, fields in ((old, "string a = 1;\n  string b = 2;\n"), (new, "string a = 1;\n")):
        room = folder / "sample" / "v1"
        room.mkdir(parents=True)
        (room / "sample.proto").write_text(f'syntax = "proto3";\npackage sample.v1;\nmessage M {{\n  {fields}}}\n')
        shutil.copy(repo.ROOT / "protos/buf.yaml", folder / "buf.yaml")
    done = run(buf, "breaking", new, "--against", old)
    assert done.returncode != 0
    assert "deleted" in done.stdout


def test_every_rpc_names_its_refusals():
    silent = []
    for name in repo.files():
        if name.startswith("protos/") and name.endswith(".proto"):
            comment = ""
            for line in map(str.strip, repo.text(name).splitlines()):
                if line.startswith("rpc ") and "efuse" not in comment:
                    silent.append(f"{name}: {line}")
                comment = f"{comment} {line}" if line.startswith("//") else ""
    assert silent == []


# Fields that are bare numbers in a unit, each with its reason.
BARE_NUMBERS = {"recent_cycle_s": "a column of lived seconds for the backoff rule: neither an instant nor a limit"}


def test_times_and_structure_are_typed_in_protos():
    wrong = [
        f"{name}:{line}: {sentence}"
        for name in repo.files()
        if name.startswith("protos/") and name.endswith(".proto")
        for line, sentence in rules.proto_fields(repo.text(name))
        if sentence.split(":")[0] not in BARE_NUMBERS
    ]
    assert wrong == []


@pytest.mark.timeout(300)
def test_the_generated_code_is_fresh(tmp_path: Path):
    done = run(repo.ROOT / "scripts/gen.sh", tmp_path, limit_s=280, PYTHON=sys.executable)
    if done.returncode != 0 and not (repo.ROOT / ".venv-gen/.ready").exists():
        pytest.skip(f"the pinned generator could not be installed: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*_pb2*.py*")}
    kept = {str(Path(n).relative_to(GENERATED)): repo.text(n) for n in repo.files() if repo.is_generated(n)}
    assert made, "the generator made nothing"
    assert sorted(made) == sorted(kept), "run make gen"
    assert [name for name in made if made[name] != kept[name]] == [], "run make gen"
