"""What a script pays for `import resurge`: next to nothing, until it names something."""

import subprocess
import sys

import pytest

import resurge

HEAVY = {"torch", "numpy", "grpc", "google", "ray", "lightning", "transformers"}


def loaded_by(code):
    """Modules that these lines bring into a fresh interpreter."""
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_the_import_alone_loads_nothing_else():
    assert loaded_by("import resurge") == {"resurge"}


@pytest.mark.parametrize("home", ["session()", "deadline(1)", "crash_guard()", "FenceLost", "WorkloadAction"])
def test_whatever_is_named_brings_no_framework_along(home):
    loaded = loaded_by(f"import resurge; resurge.{home}")
    assert {name.split(".")[0] for name in loaded}.isdisjoint(HEAVY)
    assert len(loaded) > 1


def test_a_session_without_a_launcher_loads_no_sockets_no_paths_and_no_guards():
    loaded = loaded_by("import resurge; resurge.session().beat()")
    assert loaded.isdisjoint({"socket", "pathlib", "asyncio", "ctypes", "resurge.guards", "resurge.crashing"})


def test_every_name_is_there_and_no_other():
    for name in resurge.__all__:
        assert getattr(resurge, name).__module__.startswith("resurge.")
        assert name in dir(resurge)
    with pytest.raises(AttributeError, match="nonsense"):
        resurge.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("home", "missing"), [("lightning", ("lightning", "pytorch_lightning")), ("transformers", ("transformers",))]
)
def test_a_framework_that_is_not_there_is_named_with_what_to_install(home, missing):
    program = f"import sys; sys.modules.update(dict.fromkeys({missing})); import resurge.{home}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"pip install 'resurge[{home}]'" in done.stderr
