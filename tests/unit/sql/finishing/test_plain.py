"""Results that need no DuckDB are those that DuckDB works out, and are called as DuckDB calls them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.answer import Estimate
from treering.sql import answer as answer_module
from treering.sql.answer import answer, column_names
from treering.sql.engine.current import using
from treering.sql.finishing.plain import Plain
from treering.sql.split import split

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", 'x"', other=True, missing=True),
        "late": tr.categories(True, False),
        "code": tr.categories(3, 5, other=True),
        "month": tr.integers(1, 3, missing=True),
        "fare": tr.numbers(0, 100, edges=[0, 10, 100]),
        "day": tr.dates("2020-01-01", "2020-03-31", by="month"),
    }
)
PLAIN = (
    "SELECT origin, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT COUNT(*) AS n, day, month AS Month FROM t GROUP BY day, month",
    "SELECT COUNT(*) AS one FROM t",
    'SELECT late, COUNT(*) AS a, COUNT(*) AS a, code AS "x ""y" FROM t WHERE origin <> \'JFK\' GROUP BY late, code',
    "SELECT fare, month, COUNT(*) AS n FROM t GROUP BY ALL",
)
OTHERS = (
    "SELECT origin, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY n DESC",
    "SELECT origin, COUNT(*) AS n FROM t GROUP BY 1 LIMIT 1",
    "SELECT DISTINCT origin, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT origin AS o, SUM(fare) AS s, COUNT(*) AS n FROM t GROUP BY origin",
    "SELECT origin, COUNT(*) + 1 AS n FROM t GROUP BY 1",
    "SELECT origin, COUNT(*) AS n FROM t GROUP BY 1 HAVING COUNT(*) > 10",
    "SELECT n FROM (SELECT origin, COUNT(*) AS n FROM t GROUP BY 1)",
    "WITH a AS (SELECT COUNT(*) AS n FROM t) SELECT n FROM a",
    "SELECT COUNT(*) AS n FROM t UNION ALL SELECT COUNT(*) FROM t",
)


class _NoEngine:
    """Refuses to work anything out."""

    def run(self, statement: str, tables: Any) -> pa.Table:
        raise AssertionError("DuckDB was asked")

    def together(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def estimates(data: st.DataObject, text: str) -> list[Estimate]:
    """Numbers of all sorts for a statement's items; some are not known."""
    found = []
    for item in split(text, SCHEMA).items:
        whole = item.kind == "count"
        number = data.draw(st.integers(-5, 1000) if whole else st.floats(-10.0, 1000.0))
        margin = data.draw(st.floats(0.0, 50.0))
        found.append(Estimate(number, number - margin, number + margin, margin, float(number), "normal"))
    return found


@pytest.mark.parametrize("text", PLAIN)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_results_are_those_of_duckdb(text: str, data: st.DataObject) -> None:
    statement, told = split(text, SCHEMA), estimates(data, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plain, "of", lambda _: None)
        patch.setattr(answer_module, "_written_names", lambda *_: None)
        expected = answer(statement, told, None, 1000)
    with using(_NoEngine()):
        found = answer(statement, told, None, 1000)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.equals(expected)


@pytest.mark.parametrize("text", OTHERS)
def test_what_does_more_is_left_to_duckdb(text: str) -> None:
    assert Plain.of(split(text, SCHEMA).outer) is None


@pytest.mark.parametrize(
    "text", ["SELECT ORIGIN, COUNT(*) FROM t GROUP BY 1", "SELECT origin, count(*) FROM t GROUP BY 1"]
)
def test_columns_without_a_name_are_called_by_duckdb(text: str) -> None:
    with using(_NoEngine()), pytest.raises(AssertionError, match="DuckDB was asked"):
        column_names(split(text, SCHEMA))
    assert column_names(split(text, SCHEMA)) == ["origin", "count_star()"]
