"""Classes are composed: none is cut into a chain of partial ones, and what has many parts holds them as objects."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from support.imports import modules

TREES = {name: ast.parse(path.read_text()) for name, path in modules().items()}
CLASSES = {
    f"{name}.{node.name}": node
    for name, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}
MOST_METHODS = {
    "treering.mechanisms.rings.Rings": 38,
    "treering.trusted.kernel.Kernel": 42,
    "treering.vault.vault.Vault": 51,
}
"""Of its own; the kernel's and the vault's are their whole interfaces. (Rings should have 30 at the most: measures,
tables, pictures and discoveries have no objects of their own yet.)"""


def own_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods that a class defines itself."""
    return [each for each in node.body if isinstance(each, ast.FunctionDef)]


def bases(node: ast.ClassDef) -> list[str]:
    """The names of a class's bases."""
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def partial_itself(node: ast.ClassDef) -> bool:
    """Whether a class has methods, and leaves others to its heirs. (An interface has none.)"""
    left = [any("abstractmethod" in ast.unparse(mark) for mark in each.decorator_list) for each in own_methods(node)]
    return any(left) and not all(left)


def partial(classes: dict[str, ast.ClassDef]) -> list[str]:
    """The classes that are parts of their single heir."""
    heirs: defaultdict[str, list[str]] = defaultdict(list)
    for node in classes.values():
        for base in bases(node):
            heirs[base].append(node.name)
    return [name for name, node in classes.items() if partial_itself(node) and len(heirs[node.name]) == 1]


def test_no_class_is_cut_into_partial_ones() -> None:
    inside = ("mechanisms", "schedulers", "trusted", "vault")
    assert [name for name in partial(CLASSES) if name.split(".")[1] in inside] == []


def test_a_partial_class_is_seen() -> None:
    text = (
        "class Part(ABC):\n  def some(self): ...\n  @abstractmethod\n  def rest(self): ...\n"
        "class Whole(Part):\n  def rest(self): ...\n"
    )
    found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    assert partial(found) == ["Part"]
    assert partial(found | {"Other": found["Whole"]}) == []


@pytest.mark.parametrize("name", MOST_METHODS)
def test_what_has_many_parts_holds_them_as_objects(name: str) -> None:
    assert len(own_methods(CLASSES[name])) <= MOST_METHODS[name]
