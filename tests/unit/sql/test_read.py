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
    ("around", "plain"),
    [
        ("({})", "{}"),
        ("((({})));", "{}"),
        ("({}) LIMIT 3", "{} LIMIT 3"),
        ("(({} ORDER BY n DESC LIMIT 5)) ORDER BY n LIMIT 2 OFFSET 1", None),
        ("(({}) LIMIT 4) LIMIT 3", "{} LIMIT 3"),
        ("(WITH x AS ({}) SELECT * FROM x)", "{}"),
        ("WITH x AS ({}) (SELECT * FROM x)", "{}"),
        ("({}) UNION ALL ({})", None),
    ],
)
def test_a_statement_may_stand_in_parentheses(around: str, plain: str | None) -> None:
    """What stands behind them is about its result."""
    text = "SELECT month, COUNT(*) AS n FROM flights GROUP BY month"
    database = rows()
    found = database.sql(around.replace("{}", text))
    assert found.column_names[:2] == ["month", "n"]
    if plain is not None:
        told = database.sql(plain.replace("{}", text))
        assert found.select(["month", "n"]).to_pydict() == told.select(["month", "n"]).to_pydict()


@pytest.mark.parametrize("after", ["JOIN (SELECT 1) ON TRUE", "WHERE TRUE", "FOR UPDATE"])
def test_what_else_stands_behind_parentheses_is_refused(after: str) -> None:
    with pytest.raises(QueryError, match="behind the parentheses"):
        split(f"(SELECT COUNT(*) FROM flights) {after}", SCHEMA)


def test_parentheses_around_something_else_are_refused() -> None:
    for text in ("(flights)", "(INSERT INTO flights SELECT 1)", "(VALUES (1))"):
        with pytest.raises(QueryError, match="only SELECT statements are answered"):
            split(text, SCHEMA)


def test_a_statement_in_parentheses_is_explained() -> None:
    assert split("EXPLAIN (SELECT COUNT(*) FROM flights)", SCHEMA).text.explain


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
