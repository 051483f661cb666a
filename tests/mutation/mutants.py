"""All mutants of a module: each differs in one place. Decides what is worth changing; runs nothing.

Left alone: words (logs, messages, docstrings, annotations), and the values of named limits, which are a choice.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BORDER: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_SPEAKERS = ("_log.", "warnings.", "print(", "say(")


@dataclass(frozen=True)
class Mutant:
    """One place, and the module with the change in it."""

    line: int
    what: str
    source: str

    @property
    def key(self) -> str:
        """How it is told from the others of its module: by what it changes, not by where that stands."""
        return self.what


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant, in the order of the lines; two that change the same words are numbered."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    for path, node in _places(tree):
        for what, change in _changes(node):
            changed = copy.deepcopy(tree)
            _replace(changed, path, change)
            ast.fix_missing_locations(changed)
            found.append(Mutant(getattr(node, "lineno", 0), what, ast.unparse(changed)))
    found.sort(key=lambda one: one.line)
    seen: dict[str, int] = {}
    numbered = []
    for one in found:
        seen[one.what] = seen.get(one.what, 0) + 1
        again = f" (#{seen[one.what]})" if seen[one.what] > 1 else ""
        numbered.append(Mutant(one.line, one.what + again, one.source))
    return numbered


Path = tuple[tuple[str, int | None], ...]


def _places(tree: ast.Module) -> Iterator[tuple[Path, ast.AST]]:
    yield from _inside(tree, (), in_function=False)


def _inside(node: ast.AST, path: Path, *, in_function: bool) -> Iterator[tuple[Path, ast.AST]]:
    inner = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "ops", "op", "ctx"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_words(child):
                continue
            here = (*path, (name, index))
            if inner:
                yield here, child
            yield from _inside(child, here, in_function=inner)


def _is_words(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise):
        return isinstance(node, ast.JoinedStr)
    if isinstance(node, ast.Expr):
        text = ast.unparse(node.value)
        return isinstance(node.value, ast.Constant) or text.startswith(_SPEAKERS)
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    text = ast.unparse(node)
    match node:
        case ast.Compare(left, [op], [right]):
            yield f"{text} -> opposite", ast.Compare(left, [_OPPOSITE[type(op)]()], [right])
            if type(op) in _BORDER and isinstance(right, ast.Constant):
                yield f"{text} -> border", ast.Compare(left, [_BORDER[type(op)]()], [right])
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{text} -> {'or' if isinstance(op, ast.And) else 'and'}", ast.BoolOp(other, values)
        case ast.UnaryOp(ast.Not(), operand):
            yield f"{text} -> without not", operand
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
            yield f"{text} -> other operator", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value) if isinstance(value, bool):
            yield f"{text} -> {not value}", ast.Constant(not value)
        case ast.Constant(value) if isinstance(value, int | float):
            yield f"{text} -> {value + 1}", ast.Constant(value + 1)
        case _:
            yield from _changes_of_flow(node, text)


def _changes_of_flow(node: ast.AST, text: str) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.If(test, body, orelse) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield f"if {ast.unparse(test)} -> opposite", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield f"{text} -> opposite", ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield f"{text} -> None", ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(ast.Call()):
            yield f"{text} -> nothing", ast.Pass()
        case ast.Assign([ast.Attribute()]) | ast.Assign([ast.Subscript()]):
            yield f"{text} -> nothing", ast.Pass()


def _replace(tree: ast.AST, path: Path, change: ast.AST) -> None:
    node = tree
    for name, index in path[:-1]:
        value = getattr(node, name)
        node = value if index is None else value[index]
    name, index = path[-1]
    if index is None:
        setattr(node, name, copy.deepcopy(change))
    else:
        getattr(node, name)[index] = copy.deepcopy(change)
