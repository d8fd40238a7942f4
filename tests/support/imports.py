"""Who imports whom, read from the source: every import counts, also those within functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from support.repository import ROOT

SOURCE = ROOT / "src"
Graph: TypeAlias = Mapping[str, set[str]]


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of the package by its dotted name; a package is its ``__init__``."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of_package(source: Path = SOURCE, *, type_checking: bool = True) -> dict[str, set[str]]:
    """What each module imports of the package; without ``type_checking``, what it imports when it runs. The front is
    left out: it offers every name, and nothing imports it."""
    known = modules(source)
    graph = {}
    for name, path in known.items():
        if "." in name:
            tree = ast.parse(path.read_text())
            hidden = set() if type_checking else set(_for_type_checkers(tree))
            graph[name] = set(_imported((node for node in ast.walk(tree) if node not in hidden), known))
            graph[name] -= {name, "treering"}
    return graph


def imported(text: str, known: Mapping[str, Path]) -> set[str]:
    """Which of the known modules a source imports."""
    return set(_imported(ast.walk(ast.parse(text)), known))


def _for_type_checkers(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything under ``if TYPE_CHECKING``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from (inside for statement in node.body for inside in ast.walk(statement))


def _imported(nodes: Iterable[ast.AST], known: Mapping[str, Path]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in known:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (each if each in known else node.module for each in inside)


def neighbours(graph: Graph, folder: str) -> dict[str, set[str]]:
    """The same between the direct children of a folder, each standing for all that is in it."""

    def child(module: str) -> str | None:
        rest = module.removeprefix(f"{folder}.")
        return None if rest == module else rest.split(".")[0]

    rooms: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if (room := child(module)) is not None:
            others = rooms.setdefault(room, set())
            others |= {other for each in imported if (other := child(each)) is not None and other != room}
    return rooms


def closure(graph: Graph, *roots: str) -> set[str]:
    """All modules that importing the roots imports, themselves and the packages on the way included."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in seen or module not in graph:
            continue
        seen.add(module)
        waiting += [*graph[module], module.rpartition(".")[0]]
    return seen
