"""Faults by a changed line: a function of a core is compiled anew with one guard taken out of its text.

The code of the function is exchanged in place, so that tables, imports and defaults that hold the function have the
fault too. A text that is not found exactly once is an error: the guard was rewritten, and its row with it.
"""

from __future__ import annotations
import __future__

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Edit:
    """One guard that is taken out: in this function this text becomes that."""

    name: str
    function: Any
    old: str
    new: str
    same_because: str = ""
    """Why nobody can see the difference, where that is so; "" for a fault that must be caught."""

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """The cores with this fault in them."""
        function = plain(self.function)
        right = function.__code__
        function.__code__ = self.wrong()
        try:
            yield
        finally:
            function.__code__ = right

    def wrong(self) -> CodeType:
        """The code of the function without its guard. Raises ValueError where the text is not there exactly once."""
        function = plain(self.function)
        text = dedent(inspect.getsource(function))
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {text.count(self.old)} times in {function.__name__}")
        names = dict(function.__globals__)
        flags = __future__.annotations.compiler_flag
        code = compile(text.replace(self.old, self.new), f"<{self.name}>", "exec", flags, dont_inherit=True)
        exec(code, names)
        return plain(names[function.__name__]).__code__


def plain(held: Any) -> FunctionType:
    """The function in a property or a method."""
    if isinstance(held, property):
        return held.fget  # type: ignore[return-value]
    return getattr(held, "__func__", held)


def without(name: str, rule: Callable[..., Any], because: str = "") -> Edit:
    """A rule that never answers: its body begins with `return None`."""
    text = dedent(inspect.getsource(plain(rule)))
    head = text[: text.index('"""')]
    return Edit(name, rule, f'{head}"""', f'{head}return None\n    """', because)
