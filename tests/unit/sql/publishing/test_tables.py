"""Tables as they are published: names, lows and highs, notes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from treering.errors import ParameterError, QueryError
from treering.sql.publishing.tables import NOTES, check_columns, check_names, noted, published


def test_numbers_have_a_low_and_a_high() -> None:
    table = pa.table({"ward": ["a", "b"], "n": [5, None], "n_margin": [2.0, None], "x": [1, 2]})
    found = published(table)
    assert found.column_names == ["ward", "n", "n_margin", "n_low", "n_high", "x"]
    assert found["n_low"].to_pylist() == [3.0, None]
    assert found["n_high"].to_pylist() == [7.0, None]
    assert published(pa.table({"n_margin": [1]})).column_names == ["n_margin"]


def test_notes_say_what_each_table_is() -> None:
    made = {"a": pa.table({"n": [1]}), "b": pa.table({"n": [2]})}
    found = noted(made, {"a": "SELECT 1", "b": "SELECT 2"}, "epsilon 1", 10)
    assert found.column_names == ["table_name", "statement", "promise", "rows", "as_of", "notes"]
    assert found.select(["table_name", "statement", "rows"]).to_pylist() == [
        {"table_name": "a", "statement": "SELECT 1", "rows": 10},
        {"table_name": "b", "statement": "SELECT 2", "rows": 10},
    ]


@pytest.mark.parametrize(
    "names", [[], ["a b"], ["1a"], [""], ["a" * 64], ["a;DROP"], ["ä"], ["a", "A"], [NOTES], [NOTES.upper()], [7]]
)
def test_rejects_statements_with_names_of_no_table(names: list[str]) -> None:
    with pytest.raises(ParameterError, match="statements must"):
        check_names(names)


@pytest.mark.parametrize(
    "columns", [["n", "N"], ["n", "n_low"], ["n_margin", "n"], ["a" * 60], [""], ["a\0"], ["ä" * 30]]
)
def test_rejects_columns_that_a_database_would_confuse(columns: list[str]) -> None:
    with pytest.raises(QueryError, match="needs other names for its columns"):
        check_columns("t", columns)


def test_other_columns_are_taken() -> None:
    check_names(["by_month", "_x1", "a" * 63])
    check_columns("t", ["n", "m", "Größe in %", "count_star()"])
