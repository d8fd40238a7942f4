"""What ``import treering`` gives: everything that is public, documented, and nothing heavy until it is used."""

from __future__ import annotations

import ast
import inspect
import json
import pkgutil
import subprocess
import sys
import types
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import treering
from support.repository import ROOT
from treering import errors

HEAVY = {"duckdb", "ibis", "numba", "numpy", "opendp", "pandas", "polars", "pyarrow", "scipy", "sqlglot"}


def in_a_fresh_interpreter(code: str) -> Any:
    """Run code that prints JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def seen_by_type_checkers(package: types.ModuleType) -> dict[str, str]:
    """The name and the module of everything that a package's front imports under TYPE_CHECKING."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (branch,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in branch.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(branch.body)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def offered(package: types.ModuleType) -> dict[str, str]:
    """The same as its table of homes has it."""
    homes: dict[str, tuple[str, ...]] = vars(package)["_HOMES"]
    named = {name: f"{package.__name__}.{module}" for module, names in homes.items() for name in names}
    return named | {module: package.__name__ for module, names in homes.items() if not names}


@pytest.mark.parametrize("package", [treering, treering.budget, treering.domain, treering.learn])
def test_the_lists_of_public_names_agree(package: types.ModuleType) -> None:
    assert seen_by_type_checkers(package) == offered(package)
    assert offered(package).keys() <= set(dir(package))
    for name, module in offered(package).items():
        assert getattr(package, name) is getattr(import_module(module), name)


def test_the_front_lists_all_that_it_offers() -> None:
    assert len(set(treering.__all__)) == len(treering.__all__)
    assert set(treering.__all__) == offered(treering).keys()


@pytest.mark.parametrize("package", ["treering", "treering.domain"])
def test_a_name_that_is_not_there_is_said_not_to_be(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        vars(import_module(package))["__getattr__"]("Nothing")


def test_what_erm_and_ermg_need_is_at_the_front() -> None:
    """A model of cells and one of points, with nothing imported but the package."""
    schema = treering.Schema({"late": treering.bins([0, 1, 2]), "month": treering.integers(1, 4)})
    features = treering.CellFeatures.one_hot(schema, ["month"], "late >= 1")
    db = treering.GrowingDatabase(schema)
    db.append([{"late": 0.5, "month": 1}, {"late": 1.5, "month": 3}] * 2000)
    assert treering.ERMG(db, treering.Logistic(), 1.0, 1e-6, features=features).update().size == 4000
    points = treering.GrowingPoints(2, "none")
    points.append([[0.5, 0.1], [0.3, 0.2]] * 1000)
    assert treering.ERMG(points, treering.Distance(), 1.0, 1e-6).update().size == 2000


@pytest.mark.parametrize("name", treering.__all__)
def test_a_public_name_is_importable_and_documented(name: str) -> None:
    value = getattr(treering, name)
    assert value is getattr(treering, name)
    described = value if isinstance(value, type | types.FunctionType | types.ModuleType) else type(value)
    assert described.__doc__, f"{name} has no docstring"


def modules() -> list[types.ModuleType]:
    return [import_module(found.name) for found in pkgutil.walk_packages(treering.__path__, "treering.")]


def undocumented_members(kind: type) -> list[str]:
    """Public methods and properties without a docstring, their own or inherited."""
    members = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    described = (types.FunctionType, classmethod, staticmethod, property, cached_property)
    return [
        f"{kind.__module__}.{kind.__qualname__}.{name}"
        for name, value in members.items()
        if isinstance(value, described) and not inspect.getdoc(getattr(kind, name))
    ]


def test_every_public_method_is_documented() -> None:
    kinds = [
        value
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert len(kinds) > 20
    assert [member for kind in kinds for member in undocumented_members(kind)] == []


class Base:
    """What a module might define."""

    def documented(self) -> None:
        """Say what it does."""

    def silent(self) -> None: ...


class Child(Base):
    """One that inherits a docstring and lacks another."""

    def documented(self) -> None: ...

    @property
    def bare(self) -> int:
        return 1


def test_an_undocumented_method_is_seen() -> None:
    assert [name.rsplit(".", 1)[1] for name in undocumented_members(Base)] == ["silent"]
    assert [name.rsplit(".", 1)[1] for name in undocumented_members(Child)] == ["bare"]


def test_every_error_is_public() -> None:
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert "TreeringError" in defined
    assert defined <= set(treering.__all__)


def test_the_errors_are_drawn_in_their_docstring() -> None:
    drawing = errors.__doc__ or ""
    assert [name for name in treering.__all__ if hasattr(errors, name) and name not in drawing] == []


def test_import_is_light() -> None:
    loaded = in_a_fresh_interpreter(
        "import json, sys, treering; dir(treering); treering.__all__; treering.__version__;"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    assert "treering" in loaded
    assert HEAVY & set(loaded) == set()


def test_the_light_import_test_would_see_a_heavy_one() -> None:
    loaded = in_a_fresh_interpreter(
        "import json, sys, treering; treering.Query;"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    assert "numpy" in loaded


def test_a_star_import_and_dir_give_every_public_name() -> None:
    starred, listed = in_a_fresh_interpreter(
        "import json; before = set(globals()); from treering import *; import treering;"
        "print(json.dumps([sorted(set(globals()) - before - {'before', 'treering'}), dir(treering)]))"
    )
    assert starred == sorted(treering.__all__)
    assert listed == sorted([*treering.__all__, "__version__"])


def test_an_unknown_name_is_an_attribute_error() -> None:
    misspelt = "PMWW"
    with pytest.raises(AttributeError, match="no attribute 'PMWW'"):
        getattr(treering, misspelt)


def test_the_version_is_the_installed_one_and_in_the_changelog() -> None:
    assert treering.__version__ == version("treering")
    assert f"## [{treering.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
