"""The source check of a crash guard's sentinel: an event loop says that it is complete at its own exit, nowhere else.

Decides by the text of a function alone; runs nothing of it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def assert_sentinel(function: Callable[..., Any], sentinel: str = "completed") -> None:
    """Raises AssertionError unless each event loop of the function sets the sentinel where it ends, and only there.

    An event loop is an outermost `while True`. It must have exactly one `break` of its own and no `return`, and the
    line right before that `break` must be `<guard>.completed()`, or `self.completed = True` for a sentinel that is a
    field.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    name = getattr(function, "__qualname__", "the function")
    definition = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    loops = list(_event_loops(definition.body))
    assert loops, f"{name} has no event loop: no 'while True' was found"
    right: set[ast.stmt] = set()
    for loop in loops:
        right.add(_checked(loop, name, sentinel))
    for node in _within(definition.body):
        if isinstance(node, ast.stmt) and _mentions(node, sentinel) and node not in right:
            raise AssertionError(f"{name}, line {node.lineno}: {sentinel} is set elsewhere than at the loop's exit")


def _checked(loop: ast.While, name: str, sentinel: str) -> ast.stmt:
    """The one statement of this loop that sets the sentinel."""
    exits = list(_exits(loop.body))
    returns = [node.lineno for _, node in exits if isinstance(node, ast.Return)]
    breaks = [(before, node) for before, node in exits if isinstance(node, ast.Break)]
    assert not returns, f"{name}, line {returns[0]}: the event loop is left by a return"
    assert len(breaks) == 1, f"{name}: the event loop has {len(breaks)} breaks, exactly one ends it"
    before, node = breaks[0]
    assert before is not None and _sets(before, sentinel), (
        f"{name}, line {node.lineno}: the break is not directly preceded by setting {sentinel}"
    )
    return before


def _event_loops(body: list[ast.stmt]) -> Iterator[ast.While]:
    for node in body:
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value is True:
            yield node
        elif not isinstance(node, _SCOPES):
            for part in _bodies(node):
                yield from _event_loops(part)


def _exits(body: list[ast.stmt], own: bool = True) -> Iterator[tuple[ast.stmt | None, ast.stmt]]:
    """Each way out of a loop, with the statement right before it; a break of an inner loop is none."""
    before: ast.stmt | None = None
    for node in body:
        if isinstance(node, ast.Return) or (own and isinstance(node, ast.Break)):
            yield before, node
        elif isinstance(node, ast.While | ast.For | ast.AsyncFor):
            yield from _exits(node.body, own=False)
            # what stands behind an inner loop's else belongs to the outer one
            yield from _exits(node.orelse, own)
        elif not isinstance(node, _SCOPES):
            for part in _bodies(node):
                yield from _exits(part, own)
        before = node


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(node, field, [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _within(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in body:
        yield from ast.walk(node)


def _mentions(node: ast.stmt, sentinel: str) -> bool:
    """Whether this statement sets the sentinel, to whatever value."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Attribute) and target.attr == sentinel for target in targets)
    return _is_call(node, sentinel)


def _sets(node: ast.stmt, sentinel: str) -> bool:
    if _is_call(node, sentinel):
        return True
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
        return False
    target, value = node.targets[0], node.value
    return (
        isinstance(target, ast.Attribute)
        and target.attr == sentinel
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
        and isinstance(value, ast.Constant)
        and value.value is True
    )


def _is_call(node: ast.stmt, sentinel: str) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == sentinel
    )
