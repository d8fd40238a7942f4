"""Statements as trees in a plain form: VALUES, and CTEs within CTEs."""

from __future__ import annotations

import pytest

from support.corpus import SCHEMA, rows
from treering.errors import QueryError
from treering.sql.split import split

BY_MONTH = "(SELECT month, COUNT(*) AS n FROM flights GROUP BY month) AS a"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT v.x, a.n FROM {BY_MONTH} JOIN (VALUES (1), (2)) AS v(x) ON a.month = v.x ORDER BY 1",
        f"SELECT v.col0 AS x, a.n FROM {BY_MONTH} JOIN (VALUES (1), (2)) AS v ON a.month = v.col0 ORDER BY 1",
        f"WITH v(x) AS (VALUES (1), (2)) SELECT v.x, a.n FROM v, {BY_MONTH} WHERE a.month = v.x ORDER BY 1",
        f"SELECT v.x, a.n FROM {BY_MONTH} JOIN (SELECT * FROM (VALUES (1), (2)) AS w(x)) AS v ON month = x ORDER BY 1",
    ],
)
def test_values_are_joined_with_groups(text: str) -> None:
    counts = rows().sql("SELECT month AS x, COUNT(*) AS n FROM flights WHERE month <= 2 GROUP BY 1 ORDER BY 1")
    assert rows().sql(text).select(["x", "n"]).to_pydict() == counts.select(["x", "n"]).to_pydict()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT COUNT(*) FROM flights JOIN (VALUES (1)) AS v(x) ON TRUE", "rows are joined with nothing"),
        ("SELECT COUNT(*) FROM flights, (VALUES (1)) AS v(x)", "rows are joined with nothing"),
        ("SELECT COUNT(*) FROM (VALUES (1)) AS v(x)", "asks about no table"),
        (f"SELECT n FROM {BY_MONTH} JOIN (VALUES (1), (2, 3)) AS v(x) ON TRUE", "as many values each"),
    ],
)
def test_values_that_cannot_be_joined_are_refused(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        split(text, SCHEMA)


def test_a_cte_may_have_ctes_of_its_own() -> None:
    inner = "WITH b AS (SELECT * FROM flights WHERE month = 1) SELECT * FROM b"
    nested = split(f"WITH a AS ({inner}), c AS (SELECT * FROM a) SELECT COUNT(*) FROM c", SCHEMA)
    assert nested.items == split("SELECT COUNT(*) FROM flights WHERE month = 1", SCHEMA).items


def test_an_inner_cte_hides_one_around_it() -> None:
    text = (
        "WITH a AS (SELECT * FROM flights WHERE month = 1) "
        "SELECT COUNT(*) FROM (WITH a AS (SELECT * FROM flights WHERE month = 2) SELECT * FROM a) AS q"
    )
    assert split(text, SCHEMA).items == split("SELECT COUNT(*) FROM flights WHERE month = 2", SCHEMA).items
