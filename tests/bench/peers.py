"""Makes the environment of the published peer, or says why there is none.

The peer's wheel is tagged for one Python version, yet its launcher is plain Python: the wheel is unpacked, not
installed. torch is the project's own, seen through a .pth file, so that all three systems import the same torch; what
the peer pins otherwise is installed beside it. An environment that exists already is honoured: NVRX_PY (its
interpreter) and NVRX_SRC (the folder that holds ``nvidia_resiliency_ext``). Run by itself it makes the environment and
prints where.
"""

import glob
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.7.0"
REQUIREMENTS = (
    "grpcio==1.76.0", "grpcio-tools==1.76.0", "protobuf==6.33.6", "httpx==0.28.1", "PyYAML", "packaging",
    "defusedxml==0.7.1", "psutil", "pydantic", "pydantic-settings", "setproctitle==1.3.8", "nvidia-ml-py",
    "fastapi", "slowapi", "uvicorn",
)  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """Where the peer lives."""

    python: str
    source: str


class PeerMissing(Exception):
    """The peer's environment could not be made; the message says why."""


def _run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise PeerMissing(f"{' '.join(argv[1:4])} failed: {(done.stderr or done.stdout).strip()[-300:]}")


def find_or_make(cache: Path | None = None) -> Peer:
    """The peer's environment: the one named by variables, the cached one, or a new one; raises PeerMissing."""
    if os.environ.get("NVRX_PY") and os.environ.get("NVRX_SRC"):
        return Peer(os.environ["NVRX_PY"], os.environ["NVRX_SRC"])
    folder = cache or Path(os.environ.get("RESURGE_BENCH_PEERS", ROOT / ".cache" / "peers"))
    python, source, ready = folder / "venv/bin/python", folder / "src", folder / f"ready-{VERSION}"
    if not ready.exists():
        try:
            _make(folder, python, source)
        except (OSError, subprocess.SubprocessError) as error:
            raise PeerMissing(str(error)) from error
        ready.touch()
    _see_torch(folder)
    return Peer(str(python), str(source))


def _see_torch(folder: Path):
    """Show the peer the project's torch; again where the checkout that did so is gone."""
    (site,) = glob.glob(str(folder / "venv/lib/python*/site-packages"))
    shown = Path(site, "project-torch.pth")
    if not shown.exists() or not Path(shown.read_text().strip()).is_dir():
        shown.write_text(sysconfig.get_path("purelib") + "\n")


def _make(folder: Path, python: Path, source: Path):
    print(f"peers: making the environment of nvidia-resiliency-ext {VERSION} in {folder}", file=sys.stderr)
    venv.create(folder / "venv", with_pip=True, clear=True)
    _see_torch(folder)
    _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *REQUIREMENTS)
    _run(
        str(python), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
        "--python-version", "3.12", "--implementation", "cp", "--only-binary=:all:",
        "--platform", "manylinux_2_39_x86_64", "-d", str(folder / "wheel"), f"nvidia-resiliency-ext=={VERSION}",
    )  # fmt: skip
    (wheel,) = glob.glob(str(folder / "wheel" / "*.whl"))
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(source)
    _run(str(python), "-c", f"import sys; sys.path.insert(0, {str(source)!r}); "
                            "import torch, nvidia_resiliency_ext.fault_tolerance.launcher")  # fmt: skip


if __name__ == "__main__":
    try:
        found = find_or_make()
    except PeerMissing as why:
        sys.exit(f"peers: {why}")
    print(f"export NVRX_PY={found.python} NVRX_SRC={found.source}")
