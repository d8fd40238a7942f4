"""The nearest tests: those of the module first, then those that name what is changed."""

from __future__ import annotations

from mutants.changes import Change, Place
from mutants.near import ELSEWHERE, MOST, Near
from support.repository import ROOT

NEAR = Near(ROOT)


def stages(file: str, scope: str) -> list[list[str]]:
    place = Place(file, scope, False, 1, (Change(0, 1, ""),))
    return [[test.name for test in stage.tests] for stage in NEAR.stages(place, 60.0)]


def test_a_modules_own_tests_come_first_and_its_doctest_before_them() -> None:
    own, near = stages("budget/rows.py", "RowLedger.left")
    assert own == ["src/treering/budget/rows.py", "tests/unit/budget/test_rows.py"]
    assert "tests/unit/trusted/test_charges.py" in near
    assert len(near) <= MOST
    assert not set(own) & set(near)


def test_a_module_without_tests_of_its_own_has_near_ones() -> None:
    (near,) = stages("mechanisms/series/base.py", "Series.close")
    assert {f"tests/unit/mechanisms/series/test_{name}.py" for name in ("root", "tree", "leaves")} <= set(near)


def test_what_takes_long_is_not_run() -> None:
    assert not any(name.startswith(ELSEWHERE) for name in NEAR.tests)
    assert all((ROOT / name).exists() for name in NEAR.tests)


def test_a_stage_is_given_its_budget() -> None:
    place = Place("budget/rows.py", "RowLedger.left", False, 1, (Change(0, 1, ""),))
    own, near = NEAR.stages(place, 60.0)
    assert (own.reaching, near.reaching) == (True, False)
    assert abs(own.seconds - 60) < 1e-9
    assert abs(near.seconds - 60) < 1e-9
