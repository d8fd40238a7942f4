"""tests/unit mirrors src/treering: a test lies in the folder of its module's package, and has its module's name."""

from __future__ import annotations

import pytest

from support.imports import SOURCE, modules
from support.repository import ROOT

UNIT = ROOT / "tests" / "unit"
OTHERS = {"benchmarks", "mutants", "support"}
"""Folders with tests of what is not in the package."""
HOUSE = {path.relative_to(SOURCE / "treering").as_posix() for path in modules().values()}
TESTS = sorted(path.relative_to(UNIT).as_posix() for path in UNIT.rglob("*.py"))


def misplaced(tests: list[str], house: set[str]) -> list[str]:
    """The tests that no module of the same folder gives its name to; a package gives its own to those within it."""
    return [test for test in tests if test.split("/")[0] not in OTHERS and not _placed(test, house)]


def _placed(test: str, house: set[str]) -> bool:
    folder, _, file = test.rpartition("/")
    inside = f"{folder}/" if folder else ""
    if not file.startswith("test_") or f"{inside}__init__.py" not in house:
        return False
    words = file.removesuffix(".py").split("_")[1:]
    names = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
    package = folder.rpartition("/")[2] or "treering"
    return any(name == package or f"{inside}{name}.py" in house for name in names)


def test_every_test_lies_where_its_module_lies() -> None:
    assert misplaced(TESTS, HOUSE) == []


@pytest.mark.parametrize(
    "test",
    [
        "boxes/test_chart.py",
        "boxes/test_histograms.py",
        "boxes/test_noisy_counts.py",
        "boxes/histogram/test_histogram.py",
        "boxes/histogram.py",
        "theory/test_schedule.py",
        "test_histogram.py",
        "nowhere/test_nowhere.py",
    ],
)
def test_a_misplaced_test_is_seen(test: str) -> None:
    assert misplaced([test], HOUSE) == [test]


def test_what_is_well_placed_is_not_complained_about() -> None:
    tests = ["boxes/test_histogram.py", "boxes/test_histogram_noisy_counts.py", "theory/schedule/test_schedule.py"]
    assert misplaced([*tests, "test_params.py", "test_treering.py", "support/test_anything.py"], HOUSE) == []


def test_all_tests_are_looked_at() -> None:
    assert len(TESTS) > 100
    assert {"test_params.py", "trusted/ledger/codec/test_events.py"} <= set(TESTS)
