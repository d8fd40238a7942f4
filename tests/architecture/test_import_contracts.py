"""The import contracts hold, have no exceptions, place every module, and can each be broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT
from support.rules import TRUSTED_MAY_IMPORT

PACKAGE = ROOT / "src" / "treering"
MAY_NAME_TRUSTED = {"audit", "learn", "vault"}
ABOVE = {"cli", "dbapi", "demo", "service"}
"""What stands on those, and reaches the trusted base through them without naming it."""


def contracts() -> dict[str, dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["id"]: contract for contract in settings["contracts"]}


def below_the_front() -> set[str]:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    return folders | modules


def named(contract: dict[str, Any], key: str) -> set[str]:
    return {name.removeprefix("treering.") for name in contract[key]}


def test_no_contract_has_exceptions() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not settings.get("exclude_type_checking_imports", False)
    assert all("ignore_imports" not in contract for contract in settings["contracts"])


def test_every_package_has_an_init_module() -> None:
    with_modules = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in with_modules if not (folder / "__init__.py").exists()] == []


def test_every_module_is_placed() -> None:
    """A module is a public program, the trusted base, one of the few that may name it, or above them."""
    placed = named(contracts()["public"], "source_modules")
    private = {"trusted"} | ((MAY_NAME_TRUSTED | ABOVE) & below_the_front())
    assert placed == below_the_front() - private
    assert named(contracts()["public"], "forbidden_modules") == private


def test_the_trusted_base_is_kept_from_every_module_but_those_it_stands_on() -> None:
    assert named(contracts()["trusted"], "forbidden_modules") == below_the_front() - TRUSTED_MAY_IMPORT


def test_everything_in_the_trusted_base_but_the_store_is_named_by_itself_alone() -> None:
    inner = {path.stem for path in (PACKAGE / "trusted").iterdir() if path.suffix == ".py"} - {"__init__", "store"}
    folders = {path.parent.name for path in (PACKAGE / "trusted").glob("*/__init__.py")}
    expected = (
        {"trusted"} | {f"trusted.{name}" for name in inner | folders} | {f"trusted.{name}.**" for name in folders}
    )
    assert named(contracts()["inner"], "protected_modules") == expected
    assert named(contracts()["inner"], "allowed_importers") == {"trusted", "trusted.**"}
    assert named(contracts()["named"], "protected_modules") == {"trusted.store"}


def test_the_external_contracts_cover_every_module_but_the_one_that_may() -> None:
    assert named(contracts()["engines"], "source_modules") == below_the_front() - {"trusted", "sql"}
    assert named(contracts()["released"], "source_modules") == {"sql"}
    assert contracts()["apsw"]["allowed_importers"] == ["treering.trusted.ledger.**"]
    assert named(contracts()["server"], "source_modules") == below_the_front() - {"service"}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "treering", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    outcome = lint(copy)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("mechanisms/sparse.py", "from treering.trusted.kernel import Kernel", "public"),
        ("domain/schema.py", "from treering.trusted import kernel", "public"),
        ("theory/sparse.py", "import treering", "public"),
        ("budget/cost.py", "from treering.audit import lower_bound", "public"),
        ("trusted/kernel.py", "from treering.theory import sparse", "trusted"),
        ("trusted/noise.py", "import treering", "trusted"),
        ("gate.py", "def f():\n    from treering.trusted import kernel", "inner"),
        ("gate.py", "def f():\n    from treering.vault import vault", "public"),
        ("trusted/journal.py", "from treering.vault import vault", "trusted"),
        ("audit/bounds.py", "from treering.vault import vault", "vault"),
        ("vault/record.py", "import duckdb", "engines"),
        ("cli/main.py", "from treering.trusted import kernel", "inner"),
        ("cli/main.py", "from treering.trusted.store import Store", "named"),
        ("vault/vault.py", "from treering.trusted.rows import parts", "inner"),
        ("vault/members.py", "def f():\n    from treering.trusted.kernel import Kernel", "inner"),
        ("vault/record.py", "from treering.trusted import cells", "inner"),
        ("learn/base.py", "from treering.trusted.learning.points import Points", "inner"),
        ("__init__.py", "def f():\n    from treering.trusted.memory.database import GrowingDatabase", "inner"),
        ("sql/read.py", "from treering.trusted.store import Store", "named"),
        ("cli/main.py", "import duckdb", "engines"),
        ("domain/schema.py", "from treering.cli import render", "public"),
        ("mechanisms/sparse.py", "import opendp.measurements", "engines"),
        ("audit/bounds.py", "import duckdb", "engines"),
        ("trusted/journal.py", "import apsw", "apsw"),
        ("service/desk.py", "import apsw", "apsw"),
        ("vault/vault.py", "import apsw", "apsw"),
        ("service/desk.py", "from treering.trusted import kernel", "inner"),
        ("service/desk.py", "from treering.trusted.store import Store", "named"),
        ("cli/serve.py", "import uvicorn", "server"),
        ("trusted/journal.py", "import sqlite3", "sqlite"),
        ("errors.py", "from sqlite3 import connect", "sqlite"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(copy: Path, module: str, line: str, broken: str) -> None:
    path = copy / "src" / "treering" / module
    path.write_text(f"{path.read_text()}\n\n{line}\n")
    outcome = lint(copy)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert f"{contracts()[broken]['name']} BROKEN" in outcome.stdout
