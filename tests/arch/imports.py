"""The import graph of hand-written code, lazy imports included, and the rules that import-linter cannot say.

Pure: takes modules as {dotted name: source}, gives edges, cycles and findings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import cache

# The rooms of resurge_api that each package may know: its own, and those of the services it calls.
API_ROOMS: dict[str, frozenset[str]] = {
    "resurge_libs.engine.entry_wire": frozenset({"common", "journal"}),  # the stored form of entries, nothing else
    "resurge_libs.rpc": frozenset({"common"}),
    "resurge_libs.rpc.records": frozenset({"common", "rendezvous"}),  # the records that outlive a control plane
    "resurge_libs.rpc.culprits": frozenset({"common", "policy"}),  # rendezvous tells them, policy and people read them
    "resurge_libs.rpc.recommendations": frozenset({"common", "policy"}),  # policy takes them, rendezvous keeps them
    "resurge_libs.testing": frozenset({"common", "journal", "policy", "rendezvous"}),
    "resurge_libs": frozenset(),
    "resurge_rendezvous": frozenset({"common", "journal", "policy", "rendezvous"}),
    "resurge_restart_policy": frozenset({"common", "policy", "rendezvous"}),
    "resurge_log_aggregator": frozenset({"common", "compat", "logs"}),
    "resurge_launcher": frozenset({"common", "logs", "policy", "rendezvous"}),
    "resurge_host": frozenset(),
    "resurge.direct": frozenset({"policy", "rendezvous"}),  # what a process without a launcher asks
    "resurge": frozenset(),
}


def module_name(path: str) -> str:
    """The dotted name of a module given its path under a `src` folder."""
    parts = path.split("/src/", 1)[1].removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def statements(name: str, source: str, *, is_package: bool) -> tuple[tuple[str, str | None], ...]:
    """Every import anywhere in the text: ("a.b", None) for `import a.b`, ("a", "b") for `from a import b`."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".")
            kept = parts[: len(parts) - node.level + (1 if is_package else 0)] if node.level else []
            base = ".".join([*kept, *([node.module] if node.module else [])])
            found += [(base, alias.name) for alias in node.names]
    return tuple(found)


def imported(name: str, source: str, *, is_package: bool) -> set[str]:
    """The dotted names that the module imports; `from a import b` gives a.b."""
    return {f"{base}.{part}" if part else base for base, part in statements(name, source, is_package=is_package)}


def edges(modules: Mapping[str, str], packages: frozenset[str]) -> dict[str, set[str]]:
    """Module to the modules of the set that it imports. `from a import b` is a.b where that is a module, else a."""
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        wanted = statements(name, source, is_package=name in packages)
        targets = {f"{base}.{part}" if f"{base}.{part}" in modules else base for base, part in wanted}
        graph[name] = (targets & modules.keys()) - {name}
    return graph


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of modules that import each other in a ring (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    rings: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            ring = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(ring) > 1:
                rings.append(sorted(ring))

    for node in graph:
        if node not in index:
            visit(node)
    return rings


def foreign_rooms(name: str, wanted: Iterable[str]) -> list[str]:
    """The parts of resurge_api that this module imports and may not."""
    owner = max((key for key in API_ROOMS if name == key or name.startswith(f"{key}.")), key=len, default="")
    allowed = API_ROOMS.get(owner, frozenset())
    rooms = {want.split(".")[1] for want in wanted if want.startswith("resurge_api.")}
    return sorted(rooms - allowed)


def host_reaches_past_module(wanted: Iterable[str]) -> list[str]:
    """What the host imports of a service beyond its `module`, or that of one of its parts."""
    services = ("resurge_rendezvous", "resurge_restart_policy", "resurge_log_aggregator", "resurge_launcher")
    return sorted(
        want
        for want in wanted
        if want.split(".")[0] in services and want not in services and "module" not in want.split(".")[1:3]
    )


def sdk_beyond_formats(wanted: Iterable[str]) -> list[str]:
    """What the launcher imports of the worker SDK beyond the formats that both sides share."""
    formats = ("page", "frames", "environment", "death_lock", "orders", "muster")
    return sorted(
        want
        for want in wanted
        if want.split(".")[0] == "resurge" and want.split(".")[1:2] not in [[f] for f in formats]
    )


def eager_third_party(source: str) -> list[str]:
    """Packages beyond the standard library that a module of the SDK imports as soon as it is imported itself."""
    found = []
    todo: list[ast.AST] = list(ast.parse(source).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append(node.module or "")
        todo += ast.iter_child_nodes(node)
    known = sys.stdlib_module_names | {"resurge", "__future__"}
    return sorted(name for name in found if name.split(".")[0] not in known)
