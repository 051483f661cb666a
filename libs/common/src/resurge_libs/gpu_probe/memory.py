"""The memory of the visible GPUs and who holds it, by the driver's own library. Runs in the probe's process alone.

A GPU that cannot be read is told with the reason, never as empty: it is the caller who decides what that means.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml

from resurge_libs.gpu_probe.answer import HOLDERS_MAX, GpuMemory, Holder, MemoryAnswer

MIB = 1024 * 1024


class MemoryProbe:
    """Looks at GPUs again and again; the library is opened at the first look, and anew after it failed."""

    def __init__(self, visible: str | None, proc: Path = Path("/proc")) -> None:
        self._visible = visible
        self._proc = proc
        self._is_open = False

    def look(self, number: int) -> MemoryAnswer:
        """All visible GPUs now. Never raises for what the driver says."""
        try:
            if not self._is_open:
                pynvml.nvmlInit()
                self._is_open = True
            return MemoryAnswer(number, tuple(self._gpu(index, handle) for index, handle in self._handles()))
        except pynvml.NVMLError as error:
            self._is_open = False
            return MemoryAnswer(number, problem=_sentence(error))

    def _handles(self) -> list[tuple[int, Any]]:
        """The GPUs that workers see, as CUDA_VISIBLE_DEVICES names them: by index, or by the beginning of a UUID."""
        count = int(pynvml.nvmlDeviceGetCount())
        if self._visible is None:
            return [(index, _handle(index)) for index in range(count)]
        found: list[tuple[int, Any]] = []
        for item in (part.strip() for part in self._visible.split(",")):
            if item.isdigit() and int(item) < count:
                found.append((int(item), _handle(int(item))))
            elif item.startswith("MIG-"):
                found.append((len(found), pynvml.nvmlDeviceGetHandleByUUID(item)))
            elif item.startswith("GPU-"):
                found += [(index, _handle(index)) for index in range(count) if _uuid(_handle(index)).startswith(item)][
                    :1
                ]
            else:
                break  # as CUDA does: what follows a name that is none is not seen
        return found

    def _gpu(self, index: int, handle: Any) -> GpuMemory:
        if isinstance(handle, pynvml.NVMLError):
            return GpuMemory(f"index {index}", index, None, problem=_sentence(handle))
        uuid = _uuid(handle) or f"index {index}"
        try:
            memory = _memory_of(handle)
        except pynvml.NVMLError as error:
            return GpuMemory(uuid, index, None, problem=_sentence(error))
        reserved = getattr(memory, "reserved", 0)
        holders = self._holders(handle)
        return GpuMemory(uuid, index, memory.used // MIB, memory.total // MIB, reserved // MIB, holders=holders)

    def _holders(self, handle: Any) -> tuple[Holder, ...]:
        held: dict[int, int | None] = {}
        for ask in (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses):
            try:
                for process in ask(handle):
                    used = process.usedGpuMemory
                    held.setdefault(int(process.pid), None if used is None else int(used) // MIB)
            except pynvml.NVMLError:
                continue  # not every driver, and not every container, names them
        return tuple(self._holder(pid, used_mb) for pid, used_mb in sorted(held.items())[:HOLDERS_MAX])

    def _holder(self, pid: int, used_mb: int | None) -> Holder:
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return Holder(pid, used_mb)
        name, _, rest = text.partition("(")[2].rpartition(")")
        return Holder(pid, used_mb, name, rest.strip()[:1])


def _handle(index: int) -> Any:
    """The device, or why there is none: one that is lost does not hide the others."""
    try:
        return pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return error


def _uuid(handle: Any) -> str:
    try:
        found = pynvml.nvmlDeviceGetUUID(handle)
    except (pynvml.NVMLError, TypeError, AttributeError):
        return ""
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def _memory_of(handle: Any) -> Any:
    """Without what the driver keeps for itself, where the driver tells that apart."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _sentence(error: Any) -> str:
    return f"{type(error).__name__.removeprefix('NVMLError_')}: {error}"
