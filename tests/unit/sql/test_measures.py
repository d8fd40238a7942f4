"""What is aggregated: extremes of dates, and notes about what numbers do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
import pytest
from sqlglot import exp

import treering as tr
from treering.shown import notes
from treering.sql.measures import dated, undated
from treering.sql.split import split

SCHEMA = tr.Schema(
    {
        "day": tr.dates("2013-01-01", "2013-12-31", by="week"),
        "hour": tr.dates(part="hour", column="day"),
        "kind": tr.categories("early", "late"),
        "size": tr.numbers(0, 100, step=1, edges=[0, 10, 50, 100]),
    }
)
FIRST = {"early": date(2013, 2, 1), "late": date(2013, 6, 1)}


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Vault]:
    """Of each kind, 20,000 rows over a hundred days."""
    path = Path(tmp_path_factory.mktemp("extremes")) / "v"
    generator = np.random.default_rng(4)
    rows = [
        {"day": datetime(first.year, first.month, first.day) + timedelta(hours=int(hours)), "kind": kind, "size": 7}
        for kind, first in FIRST.items()
        for hours in generator.integers(0, 100 * 24, 20_000)
    ]
    with tr.Vault.create(path, SCHEMA, epsilon=20.0, delta=1e-6) as opened:
        opened.append(rows)
        yield opened


def test_extremes_of_dates_are_dates_with_margins_in_days(vault: tr.Vault) -> None:
    table = vault.sql("SELECT kind, MIN(day) AS first, MAX(day) AS last FROM t GROUP BY kind")
    assert table.column_names == ["kind", "first", "first_margin", "last", "last_margin"]
    assert kinds.is_date32(table.schema.field("first").type)
    for row in table.to_pylist():
        first = FIRST[row["kind"]]
        assert abs((row["first"] - first - timedelta(days=1)).days) <= row["first_margin"] + 1 <= 15
        assert abs((row["last"] - first - timedelta(days=99)).days) <= row["last_margin"] + 1 <= 15
    assert "MIN(day) is the 1% quantile: the value of a single row is private." in notes(table)


def test_what_is_made_of_dates_has_a_margin_too(vault: tr.Vault) -> None:
    (row,) = vault.sql("SELECT MAX(day) - MIN(day) AS span, MEDIAN(day) AS middle FROM t").to_pylist()
    true = (FIRST["late"] - FIRST["early"]).days + 98
    assert abs(row["span"] - true) <= row["span_margin"] + 1
    assert isinstance(row["middle"], date)
    (hours,) = vault.sql("SELECT MAX(hour) AS latest FROM t").to_pylist()
    assert hours["latest"] == 23


def test_a_date_is_made_of_days_and_found_again() -> None:
    column = exp.column("m0", table="released_0", quoted=True)
    assert undated(dated(column.copy())) == column
    assert undated(column) is column
    other = exp.case().when(exp.true(), column.copy())
    assert undated(other) is other


@pytest.mark.parametrize(
    ("selected", "noted"),
    [
        ("SUM(size)", ["size: values are clipped to 0 … 100.", "size: values are rounded to steps of 1"]),
        ("MEDIAN(size)", ["Quantiles of size are known as far as its bins tell", "size: values are clipped"]),
        ("MAX(size)", ["MAX(size) is the 99% quantile", "Quantiles of size", "size: values are clipped"]),
        ("COUNT(size)", []),
        ("COUNT(*) FILTER (WHERE day >= '2013-01-07')", []),
    ],
)
def test_what_a_number_does_not_tell_is_noted(selected: str, noted: list[str]) -> None:
    found = split(f"SELECT kind, {selected} AS n FROM t GROUP BY kind", SCHEMA).notes
    assert len(found) == len(noted)
    assert all(note.startswith(begin) for note, begin in zip(found, noted, strict=True))


def test_notes_are_of_released_numbers_not_of_what_is_made_of_them() -> None:
    text = "SELECT MAX(size) AS most FROM (SELECT kind, COUNT(*) AS size FROM t GROUP BY kind) AS counted"
    assert split(text, SCHEMA).notes == ()


def test_texts_have_no_extremes() -> None:
    with pytest.raises(tr.QueryError, match="a column of numbers or dates"):
        split("SELECT MIN(kind) FROM t", SCHEMA)


def test_no_rows_no_date(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=50.0, delta=1e-6) as vault:
        vault.append(pa.table({"day": [datetime(2013, 3, 1)] * 5000, "kind": ["late"] * 5000, "size": [1] * 5000}))
        rows = vault.sql("SELECT kind, MAX(day) AS last FROM t GROUP BY kind").to_pylist()
    assert rows[1]["last"] is not None
