"""Reads the stacks of a worker, as it wrote them or as py-spy did: where its main thread stands, and whether that is a
collective. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

_FRAME = re.compile(r'^\s+File "(?P<path>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
_SPY_FRAME = re.compile(r"^\s+(?P<function>\S.*) \((?P<path>.+):(?P<line>\d+)\)$")
_HEADS = ("Thread ", "Current thread ")
_MAIN = ("Current thread ", "MainThread")
_OUTERMOST = (" in <module>\n", " in _run_module_as_main\n")
"""Where a main thread begins, which runs a script or a module."""
_STANDARD = ("threading.py", "queue.py", "selectors.py", "socket.py", "ssl.py", "contextlib.py", "_weakrefset.py")
"""Files of the standard library in which one waits for somebody else; the frame below says for whom."""
_OURS = ("/resurge/guards/", "/resurge/inprocess/")
"""Within these the main thread waits for other ranks, or for the launcher that gathers them."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack."""

    path: str
    line: str
    function: str
    waits: bool = False
    """It called the worker SDK, which waits for other ranks on its behalf."""

    def __str__(self) -> str:
        return f"{PurePosixPath(self.path).name}:{self.line} in {self.function}"

    @property
    def is_collective(self) -> bool:
        """Whether other ranks are waited for in it."""
        path = f"/{self.path}"  # py-spy writes those of packages from the package on
        return self.waits or ("/torch/distributed/" in path and "/torch/distributed/elastic/" not in path)

    @property
    def is_framework(self) -> bool:
        """Whether it is one of torch's own, where nobody can tell who is waited for."""
        return "/torch/" in f"/{self.path}"

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to what the worker SDK waits in."""
        return any(part in f"/{self.path}" for part in _OURS)


def main_stack(text: str) -> tuple[Frame, ...]:
    """The frames of the main thread, innermost first: the signalled thread if one says so, else the last one."""
    stacks: list[tuple[bool, list[Frame]]] = []
    for line in text.splitlines():
        if line.startswith(_HEADS):
            stacks.append((any(word in line for word in _MAIN), []))
        elif stacks and (found := _FRAME.match(line) or _SPY_FRAME.match(line)):
            stacks[-1][1].append(Frame(found["path"], found["line"], found["function"]))
    chosen = [frames for is_current, frames in stacks if is_current] or [frames for _, frames in stacks[-1:]]
    return tuple(chosen[-1]) if chosen else ()


def is_whole(text: str) -> bool:
    """Whether the last frame of the main thread, which is written last, is there; False says that it may not be."""
    return text.endswith(_OUTERMOST) and any(line.startswith("Current thread ") for line in text.splitlines())


def place(frames: tuple[Frame, ...]) -> Frame | None:
    """The call that says most: the innermost that is no waiting of the standard library's, nor of the worker SDK's."""
    telling = [f for f in frames if PurePosixPath(f.path).name not in _STANDARD]
    if not telling:
        return frames[0] if frames else None
    if not telling[0].is_ours:
        return telling[0]
    return replace(next((f for f in telling if not f.is_ours), telling[0]), waits=True)
