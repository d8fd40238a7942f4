"""Rules about the source that import-linter and ruff cannot state: each a function from a source file to complaints."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from support.code_lines import code_lines

MOST_LINES: Final = 400
"""Of code, in a file."""
TRUSTED_MAY_IMPORT: Final = {
    "answer",
    "arrays",
    "budget",
    "domain",
    "errors",
    "gate",
    "lazy",
    "noise",
    "params",
    "protocols",
    "rowfile",
    "trusted",
    "words",
}
"""What of ours the trusted base may import, itself included."""
NO_RANDOMNESS_AT_ALL: Final = ("trusted", "budget", "vault")
"""Packages in which even public randomness has no place."""


@dataclass(frozen=True)
class Source:
    """A Python file: its path in the repository, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def module(self) -> tuple[str, ...]:
        """The path below src/treering, () for a file elsewhere."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        return parts[2:] if parts[:2] == ("src", "treering") else ()


Complaint: TypeAlias = str
Rule: TypeAlias = Callable[[Source], list[Complaint]]


def _at(source: Source, node: ast.AST, problem: str) -> Complaint:
    return f"{source.path}:{getattr(node, 'lineno', 1)}: {problem}"


def _imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Every imported name in full: ``from a.b import c`` is a.b.c, as c may be a module."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.path}:{node.lineno}: relative import"
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def _uses(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every dotted name in full, aliases resolved: with ``import numpy as np``, np.random.x is numpy.random.x."""
    aliases: dict[str, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            aliases.update({each.asname: each.name for each in node.names if each.asname})
        elif isinstance(node, ast.ImportFrom):
            aliases.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node)):
            first, *rest = dotted.split(".")
            yield node, ".".join([aliases.get(first, first), *rest])


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (value := _dotted(node.value)):
        return f"{value}.{node.attr}"
    return None


def _within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def insecure_randomness(source: Source) -> list[Complaint]:
    """The private side uses neither random nor numpy.random; the rest is handed a numpy Generator and makes none. (A
    command, which nobody hands one, makes it.)"""
    allowed = set() if source.module[:1] and source.module[0] in NO_RANDOMNESS_AT_ALL else {"numpy.random.Generator"}
    allowed |= {"numpy.random.default_rng"} if source.module[:1] == ("cli",) else set()
    inside = {id(node.value) for node, name in _uses(source) if name in allowed and isinstance(node, ast.Attribute)}
    imported = [(node, name) for node, name in _imports(source) if _within(name, "random")]
    numpys = [(node, name) for node, name in [*_imports(source), *_uses(source)] if _within(name, "numpy.random")]
    return [
        _at(source, node, f"{name}: randomness here is an explicit Generator argument, or none at all")
        for node, name in [*imported, *numpys]
        if name not in allowed and id(node) not in inside
    ]


def secret_randomness(source: Source) -> list[Complaint]:
    """Secret randomness has two homes. (A variable may be called secrets: the module cannot be used unimported.)"""
    if source.module[:1] == ("trusted",) or source.module == ("service", "auth"):
        return []
    imported = [(node, name) for node, name in _imports(source) if _within(name, "secrets")]
    used = [
        (node, name) for node, name in [*_imports(source), *_uses(source)] if name in {"os.urandom", "os.getrandom"}
    ]
    return [
        _at(source, node, f"{name}: secret randomness belongs to trusted/ and service/auth.py")
        for node, name in [*imported, *used]
    ]


def dynamic_imports(source: Source) -> list[Complaint]:
    """An import made at run time escapes the import contracts: only ``lazy`` makes any, of names that the ``__init__``
    which calls it imports for type checkers as well (tests/architecture/test_public_api.py compares the two)."""
    if source.module == ("lazy",):
        return []
    hidden = {"__import__", "importlib.import_module", "importlib.__import__"}
    return [
        _at(source, node, f"{name}: import at run time")
        for node, name in [*_imports(source), *_uses(source)]
        if name in hidden
    ]


def front_imports(source: Source) -> list[Complaint]:
    """Inside the package a name is imported from its home: the front names the trusted base."""
    if source.module == ("__init__",):
        return []
    return [
        _at(source, node, f"{name}: import it from its module, not from the package's front")
        for node, name in _imports(source)
        if name == "treering" or (isinstance(node, ast.ImportFrom) and node.module == "treering")
    ]


def trusted_imports(source: Source) -> list[Complaint]:
    """The trusted base stands on a closed list of our modules."""
    if source.module[:1] != ("trusted",):
        return []
    return [
        _at(source, node, f"{name}: the trusted base imports only {', '.join(sorted(TRUSTED_MAY_IMPORT))}")
        for node, name in _imports(source)
        if _within(name, "treering") and name.removeprefix("treering.").split(".")[0] not in TRUSTED_MAY_IMPORT
    ]


ROWS_GO_TO: Final = {"treering.trusted.store.Samples", "sklearn.utils.validation.validate_data"}
"""Whom an estimator may hand training rows: the trusted base, and scikit-learn's look at columns and their names."""
OPENER: Final = "treering.trusted.store.features_of"
PREDICTING: Final = "_rows_to_predict"


def opened_rows(source: Source) -> list[Complaint]:
    """An estimator hands X and y on whole, to methods and to `ROWS_GO_TO`; only rows to predict for are opened."""
    if source.module[:1] != ("learn",):
        return []
    names = {id(node): name for node, name in _uses(source)}
    handed: set[int] = set()
    for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        if names.get(id(call.func)) in {*ROWS_GO_TO, OPENER} or _is_method(call.func):
            handed |= {id(each) for each in [*call.args, *(keyword.value for keyword in call.keywords)]}
    complaints = [
        _at(source, node, f"{node.id} is to be handed on whole, to the trusted base")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and node.id in {"X", "y"} and id(node) not in handed
    ]
    for function in (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)):
        inside = [(node, names.get(id(node), "")) for node in ast.walk(function)]
        if function.name != PREDICTING:
            complaints += [_at(source, node, f"{name} in {function.name}") for node, name in inside if name == OPENER]
        if "fit" in function.name or function.name == "_take":
            wrong = [node for node, name in inside if name == f"self.{PREDICTING}"]
            complaints += [_at(source, node, f"{PREDICTING} of training rows") for node in wrong]
    return complaints


def _is_method(called: ast.expr) -> bool:
    """self.x or super().x."""
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id == "self"


def prints(source: Source) -> list[Complaint]:
    """A library does not print."""
    return [_at(source, node, "print") for node, name in _uses(source) if name == "print"]


def too_long(source: Source) -> list[Complaint]:
    """One concept a file."""
    lines = code_lines(source.text)
    return [f"{source.path}: {lines} lines of code, at most {MOST_LINES}"] if lines > MOST_LINES else []


def suppressions(source: Source) -> list[Complaint]:
    """No checker is told to look away, and nothing is left for later."""
    forbidden = re.compile(r"type:\s*ignore|\bnoqa\b|pragma:\s*no cover|mypy:|\b(TODO|FIXME|XXX)\b", re.IGNORECASE)
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return [
        f"{source.path}:{token.start[0]}: {match[0]}"
        for token in tokens
        if token.type == tokenize.COMMENT and (match := forbidden.search(token.string))
    ]


def undocumented(source: Source) -> list[Complaint]:
    """Every public module, class and function says what it is."""
    complaints = [] if ast.get_docstring(source.tree) else [f"{source.path}:1: module without docstring"]
    definitions = (node for node in source.tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return complaints + [
        _at(source, node, f"{node.name} without docstring")
        for node in definitions
        if not node.name.startswith("_") and not ast.get_docstring(node)
    ]
