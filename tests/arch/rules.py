"""The house rules that no ready tool knows, each a pure function from source text to findings.

Every function takes the text of one file and gives (line, sentence) pairs; no function reads a file. test_rules.py
shows each to fail on a bad sample; test_house.py applies them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

Finding = tuple[int, str]
Rule = Callable[[str], list[Finding]]

MODULE_LINES = 400
CLASS_LINES = 250
FUNCTION_LINES = 60
PARAMETERS = 6
MAKE_TARGET_LINES = 3

TASK_ROOT = re.compile(r"# (?:task root|the root of [\w' ]+): \S.*")
HOME_PATH = re.compile(r"(?<![\w.~$})>*-])/(?:" + "|".join(("home", "Users", "root", "work")) + r")/[\w.]")
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|pytorch\.org/whl|npmjs\.(?:org|com)|deb\.debian\.org|crates\.io|proxy\.golang\.org"
    r"|(?:index-url|find-links)[= ]+\w+://"
)


@lru_cache(maxsize=1)
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of the text; one text is asked for by one rule after the other, and is parsed once."""
    return tuple(ast.walk(ast.parse(source)))


def sizes(source: str) -> list[Finding]:
    """Modules, classes, functions and parameter lists that are too long."""
    found = []
    lines = source.count("\n")
    if lines > MODULE_LINES:
        found.append((1, f"the module has {lines} lines, more than {MODULE_LINES}"))
    for node in _nodes(source):
        if isinstance(node, ast.ClassDef) and (length := _length(node)) > CLASS_LINES:
            found.append((node.lineno, f"class {node.name} has {length} lines, more than {CLASS_LINES}"))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (length := _length(node)) > FUNCTION_LINES:
                found.append((node.lineno, f"function {node.name} has {length} lines, more than {FUNCTION_LINES}"))
            # what a test takes are its fixtures and its table's columns
            if (count := _parameters(node)) > PARAMETERS and not node.name.startswith("test_"):
                found.append((node.lineno, f"function {node.name} takes {count} parameters, more than {PARAMETERS}"))
    return found


def _length(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (1 if names[:1] in (["self"], ["cls"]) else 0)


def vague_names(source: str) -> list[Finding]:
    """Classes and functions whose name says nothing an operator would say."""
    return [
        (node.lineno, f"{node.name}: say what it does in the field's words")
        for node in _nodes(source)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and re.search(r"(?:^|_)(?:manager|helper|utils?)(?:_|$)|Manager|Helper|Utils?(?![a-z])", node.name)
    ]


def environment(source: str) -> list[Finding]:
    """Reads or writes of the process environment."""
    words = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    return [
        (line, f"os.{name} outside settings.py")
        for line, module, name in _module_names(source)
        if module == "os" and name in words
    ]


def sleeps(source: str) -> list[Finding]:
    """Waits for a fixed time; asyncio.sleep(0) only lets others run, and a computed one may move a virtual clock."""
    found = []
    froms = {name: module for _, module, name in _module_names(source, only_from=True)}
    for call in _calls(source):
        name = _dotted(call.func)
        if name == "sleep":
            name = f"{froms.get('sleep', '?')}.sleep"
        if name == "time.sleep":
            found.append((call.lineno, "time.sleep in a test: wait for a condition, or move a virtual clock"))
        if name in ("asyncio.sleep", "anyio.sleep", "trio.sleep") and _fixed(call.args[:1]):
            found.append((call.lineno, f"{name} of a fixed time in a test: wait for a condition instead"))
    return found


def _fixed(args: list[ast.expr]) -> bool:
    if not args:
        return False
    try:
        return bool(ast.literal_eval(args[0]))
    except ValueError:
        return False


def broad_excepts(source: str) -> list[Finding]:
    """Handlers of everything that do not pass it on, without a comment `task root: <reason>` on their line."""
    lines = source.splitlines()
    found = []
    for node in _nodes(source):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _passes_on(node):
            if not TASK_ROOT.search(lines[node.lineno - 1]):
                found.append((node.lineno, "a broad except without '# task root: <reason>' on its line"))
        elif isinstance(node, ast.Call) and _dotted(node.func).endswith("suppress") and any(map(_is_broad, node.args)):
            found.append((node.lineno, "suppress() of every exception"))
    return found


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(_dotted(kind).split(".")[-1] in ("Exception", "BaseException") for kind in kinds)


def _passes_on(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise)


def skips(source: str) -> list[Finding]:
    """Tests left out without a reason."""
    found = []
    for node in _nodes(source):
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
            if (
                name.endswith((".skip", ".xfail", ".skipif", ".importorskip"))
                and name.startswith("pytest")
                and not _reason(node)
            ):
                found.append((node.lineno, f"{name} without a reason"))
        decorators = getattr(node, "decorator_list", [])
        found += [
            (bare.lineno, f"{_dotted(bare)} without a reason")
            for bare in decorators
            if isinstance(bare, ast.Attribute) and _dotted(bare) in ("pytest.mark.skip", "pytest.mark.xfail")
        ]
    return found


def _reason(call: ast.Call) -> bool:
    named = [word.value for word in call.keywords if word.arg in ("reason", "msg")]
    plain = call.args[:1] if _dotted(call.func) in ("pytest.skip", "pytest.xfail") else []
    return any(not (isinstance(value, ast.Constant) and not value.value) for value in (*named, *plain))


def make_targets(source: str) -> list[Finding]:
    """Makefile recipes that are too long: longer work belongs to a script, where it can be read and checked."""
    found = []
    start, length = 0, 0
    for number, line in enumerate([*source.splitlines(), "end:"], start=1):
        if line.startswith("\t"):
            length += 1
        elif line.strip():
            if length > MAKE_TARGET_LINES:
                found.append((start, f"the target has {length} lines, more than {MAKE_TARGET_LINES}"))
            start, length = number, 0
    return found


def machine_words(source: str) -> list[Finding]:
    """Paths of one machine's users, and addresses of package registries: true nowhere else."""
    return [
        (number, f"{match.group()!r} is true on one machine only")
        for number, line in enumerate(source.splitlines(), start=1)
        for pattern in (HOME_PATH, REGISTRY_HOST)
        if (match := pattern.search(line))
    ]


def _calls(source: str) -> Iterator[ast.Call]:
    return (node for node in _nodes(source) if isinstance(node, ast.Call))


def _module_names(source: str, *, only_from: bool = False) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) of `module.name` and `from module import name`."""
    for node in _nodes(source):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)
        elif not only_from and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, node.value.id, node.attr


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return "?"


def missing_programs(makefile: str, names: frozenset[str]) -> list[str]:
    """Scripts and test modules that a Makefile runs and the repository does not have."""
    scripts = re.findall(r"\bscripts/[\w./-]+", makefile)
    modules = [name.replace(".", "/") for name in re.findall(r"-m (tests[\w.]*)", makefile)]
    return [name for name in scripts if name not in names] + [
        name for name in modules if not {f"{name}.py", f"{name}/__main__.py"} & names
    ]


def proto_fields(source: str) -> list[Finding]:
    """Times that are bare numbers or text, and JSON inside strings."""
    found = []
    for number, line in enumerate(source.splitlines(), start=1):
        match = re.match(
            r"\s*(?:repeated |optional )?(?:double|float|s?u?int\d+|s?fixed\d+|string|bytes) (\w+) =", line
        )
        if match and re.search(r"_(?:s|ms|us|ns|at|time|timestamp|json)$|^(?:ts|timestamp|json)$", match[1]):
            found.append((number, f"{match[1]}: times are Timestamp or Duration, structure is a message"))
    return found
