"""GPUs that are not there: a driver's library built by the C compiler, behind the real nvidia-ml-py."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml") / "fake_nvml.c"
LIBRARY = "libnvidia-ml.so.1"


@dataclass
class Gpus:
    """What the library says of each GPU: (MiB in use, state, processes)."""

    folder: Path
    told: dict[int, tuple[int, str, str]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "gpus"

    @property
    def environ(self) -> dict[str, str]:
        """What lets a program find the library."""
        visible = ",".join(str(index) for index in self.told)
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.file), "CUDA_VISIBLE_DEVICES": visible}

    def say(self, *lines: tuple[int, str, str]) -> Gpus:
        """From now on this is so."""
        self.told = dict(enumerate(lines))
        self._write("".join(f"{used} {state} {held}\n" for used, state, held in lines))
        return self

    def fail(self, code: int) -> Gpus:
        """The library cannot be opened."""
        self._write(f"init {code}\n")
        return self

    def _write(self, text: str) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(text)
        os.replace(part, self.file)


def build(folder: Path) -> Gpus:
    """The library in this folder; skips where there is no compiler, or no nvidia-ml-py."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the driver's library cannot be built")
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed here: run make setup")
    command = [compiler, "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([*command, "-o", str(folder / LIBRARY), str(SOURCE)], check=True)
    return Gpus(folder)
