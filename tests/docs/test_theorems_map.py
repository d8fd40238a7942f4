"""Every function and every test that docs/theorems.md names exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from support.repository import ROOT

PAGE = ROOT / "docs" / "theorems.md"
PARTS = {"statements": 28, "definitions": 13, "algorithms": 11, "tables and remarks": 18}
"""Of the paper's 29 theorems, lemmas and corollaries, informal ones aside, one corollary is in its theorem's row. Six
of the eleven algorithms are in pseudocode."""


def rows(text: str) -> list[tuple[str, str, str]]:
    """The rows of the page's tables, without heads and without the lines that name a part."""
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line[:1] == "|"]
    found = [(row[0], row[1], row[2]) for row in cells if len(row) == 3]
    return [row for row in found if row[1] != "function" and set(row[0]) != {"-"} and not row[0].startswith("**")]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def missing_functions(cell: str) -> list[str]:
    return [name for name in named(cell) if not _resolves(name)]


def _resolves(name: str) -> bool:
    """Whether a dotted name within treering leads somewhere, by modules first and attributes after."""
    found: object = importlib.import_module("treering")
    path = "treering"
    for part in name.split("."):
        path = f"{path}.{part}"
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        else:
            found = getattr(found, part)
    return True


def missing_tests(cell: str, folder: Path = ROOT / "tests") -> list[str]:
    return [name for name in named(cell) if not _is_test(name, folder)]


def _is_test(name: str, folder: Path) -> bool:
    file, separator, test = name.partition("::")
    path = folder / file
    if not (separator and path.is_file()):
        return False
    return re.search(rf"^\s*def {re.escape(test)}\(", path.read_text(), re.MULTILINE) is not None


ROWS = rows(PAGE.read_text())


@pytest.mark.parametrize(("functions", "tests"), [row[1:] for row in ROWS], ids=[row[0][:60] for row in ROWS])
def test_what_is_named_exists(functions: str, tests: str) -> None:
    assert named(functions)
    assert named(tests)
    assert missing_functions(functions) == []
    assert missing_tests(tests) == []


def test_everything_in_the_paper_has_its_row() -> None:
    parts = [part.partition("\n") for part in PAGE.read_text().split("\n## ")]
    papers = {head.removeprefix("The paper's "): len(rows(body)) for head, _, body in parts if "paper's" in head}
    assert papers == PARTS


def test_every_corrected_theorem_names_its_erratum() -> None:
    """All but E18, small slips in proofs."""
    text = " ".join(row[0] for row in ROWS)
    for number in (*range(1, 18), 19, 20, 21, 22):
        assert re.search(rf"\bE{number}\b", text), number


@pytest.mark.parametrize("name", ["theory.pmwg.alfa", "nothing", "theory.nowhere.alpha", "PMWG.tell"])
def test_a_function_that_is_not_there_is_seen(name: str) -> None:
    assert missing_functions(f"`theory.pmwg.alpha`, `{name}`") == [name]


@pytest.mark.parametrize(
    "name",
    [
        "unit/theory/test_none.py::test_alpha",
        "unit/theory/pmwg/test_paper.py::test_al",
        "unit/theory/pmwg/test_paper.py",
    ],
)
def test_a_test_that_is_not_there_is_seen(name: str) -> None:
    assert missing_tests(f"`unit/theory/pmwg/test_paper.py::test_alpha`, `{name}`") == [name]


def test_rows_are_found() -> None:
    text = "| theorem | function | checked by |\n|---|---|---|\n| **A** | | |\n| a | `b` | `c` |\n"
    assert rows(text) == [("a", "`b`", "`c`")]
