"""`treering ask --persons` and `--per-person`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import refused, treering
from support.clinic import first, matching, patients, vault, visits

FRAME = visits(120)
WARD = "ward = 'eyes'"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    vault(tmp_path / "clinic", FRAME).close()
    return tmp_path / "clinic"


def test_persons_are_counted(clinic: Path) -> None:
    told = treering("ask", clinic, WARD, "--persons", "--json").json
    assert (told["count"], told["size"], told["of"]) == (patients(FRAME, ward="eyes"), 120, "persons")
    shown = treering("ask", clinic, WARD, "--persons")
    assert f"{told['count']} persons ±" in shown.out
    assert "Free" in shown.out


def test_capped_rows_are_counted(clinic: Path) -> None:
    price = treering("ask", clinic, WARD, "--per-person", 2, "--dry-run", "--json").json
    assert price["mechanism"] == "persons"
    shown = treering("ask", clinic, WARD, "--per-person", 2)
    number = first(matching(FRAME, ward="eyes"), 2).num_rows
    assert f"{number} rows, at most 2 of each person ±" in shown.out


def test_statements_take_a_cap_and_count_persons(clinic: Path) -> None:
    text = "SELECT COUNT(DISTINCT patient) AS patients, COUNT(*) AS visits FROM t WHERE ward = 'eyes'"
    told = treering("ask", clinic, "--sql", text, "--per-person", 2, "--json").json
    ((number, _, rows, _),) = told["rows"]
    assert (number, rows) == (patients(FRAME, ward="eyes"), first(matching(FRAME, ward="eyes"), 2).num_rows)
    assert told["notes"] == ["Of each person at most 2 rows count, the first ones in all groups together."]


def test_refuses_persons_of_a_statement(clinic: Path) -> None:
    done = treering("ask", clinic, "--sql", "SELECT COUNT(*) FROM t", "--persons")
    assert "COUNT(DISTINCT person)" in done.err
    assert done.code == 2


def test_refuses_a_cap_above_the_limit(clinic: Path) -> None:
    assert "--per-person" in refused(treering("ask", clinic, WARD, "--per-person", 31))


def test_the_plan_says_how_sharp_each_kind_of_question_is() -> None:
    given = ("plan", "--cells", 864, "--rows", "1e5", "--epsilon", 1, "--delta", 1e-6, "--rows-per-person", 30)
    told = treering(*given, "--json").json
    assert told["rows_per_person"] == 30
    assert told["kinds"]["persons"] * 30 < told["kinds"]["rows"]
    assert "--rows-per-person 30" in told["command"]
    assert "persons ± 74" in treering(*given).out
    refusal = treering("plan", "--cells", 864, "--rows", "1e5", "--alpha", 0.05, "--rows-per-person", 30)
    assert "needs epsilon" in refused(refusal)
