"""Set-up is the same everywhere: every distribution that it brings has one exact version, and no address."""

from __future__ import annotations

import re
import tomllib

from tests.arch import pins, repo


def own() -> frozenset[str]:
    texts = [repo.text(name) for name in repo.files() if name.endswith("/pyproject.toml")]
    return frozenset(tomllib.loads(text)["project"]["name"] for text in texts)


def test_everything_that_set_up_brings_is_pinned():
    pyprojects = [repo.text(name) for name in repo.files() if name.endswith("/pyproject.toml")]
    stated = pins.wanted(pyprojects, repo.text("requirements-dev.txt"))
    needed = pins.closure(stated, own(), pins.installed_requires)
    missing = sorted(needed - pins.pinned(repo.text("constraints.txt")).keys())
    # torch brings a driver's libraries on a machine with a GPU; which, its own metadata pins
    assert [name for name in missing if not re.match(r"nvidia-|cuda-|triton$", name)] == []


def test_each_line_of_the_constraints_is_one_exact_version():
    lines = [line for line in repo.text("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.!]*", line)] == []


def test_a_requirement_of_a_requirement_without_a_pin_is_found():
    requires = {"a": ["b>=1", "c; extra == 'more'"], "b": ["D_e"]}
    needed = pins.closure(["a[x]>=2", "ours"], frozenset({"ours"}), lambda name: requires.get(name, []))
    assert needed == {"a", "b", "d-e"}
    assert needed - pins.pinned("a==1\nB==2.0\n# d-e==3\n").keys() == {"d-e"}
