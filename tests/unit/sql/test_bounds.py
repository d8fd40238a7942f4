"""Statements that would grow without end are refused before they do, in no time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.corpus import SCHEMA
from treering.errors import QueryError
from treering.sql.bounds import MAX_CORRELATED, MAX_NESTED
from treering.sql.split import split

COUNT = "SELECT COUNT(*) FROM t"
ROWS = "(SELECT month AS x FROM t) q"


def nested(times: int, around: Callable[[str], str], inner: str) -> str:
    for _ in range(times):
        inner = around(inner)
    return inner


def joined(word: str, pattern: str, number: int) -> str:
    return word.join(pattern.format(i=i, next=i + 1, month=i % 12 + 1) for i in range(number))


HOSTILE = {
    "operators": f"SELECT {'1+' * 30_000}COUNT(*) FROM t",
    "nested operators": f"SELECT {'1+' * 390}COUNT(*) FROM t",
    "parentheses": f"{COUNT} WHERE {'(' * 1000}month = 1{')' * 1000}",
    "negations": f"{COUNT} WHERE {'NOT ' * 3000}month = 1",
    "a long number": f"{COUNT} WHERE month = {'1' * 60_000}",
    "aliases of aliases": f"SELECT COUNT(*) AS a0, {joined(', ', 'a{i} + a{i} AS a{next}', 30)} FROM t",
    "columns of columns": f"SELECT x FROM {nested(30, lambda x: f'(SELECT x + x AS x FROM {x}) q', ROWS)}",
    "stars of stars": f"SELECT * FROM {nested(15, lambda x: f'(SELECT *, *, * FROM {x}) q', ROWS)}",
    "CTEs of CTEs": f"WITH c0 AS (SELECT * FROM t), {joined(', ', 'c{next} AS (SELECT a.* FROM c{i} a, c{i} b)', 25)} "
    "SELECT COUNT(*) FROM c25",
    "tables": f"SELECT * FROM {joined(', ', '(SELECT COUNT(*) FROM t) AS q{i}', 100)}",
    "unions": joined(" UNION ALL ", COUNT, 300),
    "words": f"SELECT {joined(', ', 'COUNT(*) AS a{i}', 3000)} FROM t",
}
LONG = {
    "ORs": f"{COUNT} WHERE {joined(' OR ', 'month = {month}', 300)}",
    "ORs of functions": f"{COUNT} WHERE {joined(' OR ', 'length(carrier) = {i}', 150)}",
    "ORs of both": f"{COUNT} WHERE {joined(' OR ', '(length(carrier) = {i} AND month = {month})', 100)}",
    "ORs of constants": f"{COUNT} WHERE {joined(' OR ', 'month = 1 + {month} - 1', 150)}",
    "a list": f"{COUNT} WHERE month IN ({joined(', ', '{month}', 1500)})",
    "CASE": f"SELECT CASE {joined(' ', 'WHEN month + 1 = {month} THEN {i}', 100)} END, COUNT(*) FROM t GROUP BY 1",
    "a chain of CTEs": f"WITH c0 AS (SELECT * FROM t), {joined(', ', 'c{next} AS (SELECT * FROM c{i})', 30)} "
    "SELECT COUNT(*) FROM c30",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_statement_that_would_grow_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(QueryError):
        split(text, SCHEMA)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_statement_is_read_in_seconds(text: str) -> None:
    start = time.process_time()
    assert split(text, SCHEMA).items
    assert time.process_time() - start < 10


def test_rejects_more_columns_than_are_followed() -> None:
    columns = ", ".join(f"COUNT(*) + {each} AS c{each}" for each in range(501))
    with pytest.raises(QueryError, match="at most 500 columns, not 501"):
        split(f"SELECT {columns} FROM t", SCHEMA)


GROUPS = "(SELECT month, COUNT(*) AS n FROM t GROUP BY month)"


def depending(number: int) -> str:
    """So many SELECTs beside each other that name the outer one's columns."""
    each = joined(" AND ", f"EXISTS (SELECT 1 FROM {GROUPS} b WHERE b.n > a.n + {{i}})", number)
    return f"SELECT n FROM {GROUPS} a WHERE {each}"


def within(number: int) -> str:
    """So many within each other."""
    inner = "".join(
        f"EXISTS (SELECT 1 FROM {GROUPS} a{i} WHERE a{i}.n >= a{i - 1}.n AND " for i in range(1, number + 1)
    )
    return f"SELECT a0.n FROM {GROUPS} a0 WHERE {inner}TRUE{')' * number}"


def test_selects_that_depend_on_others_are_few() -> None:
    """DuckDB takes minutes to rearrange sixty of them, or a dozen within each other."""
    for text in (depending(MAX_CORRELATED), within(MAX_NESTED)):
        assert split(text, SCHEMA).items
    with pytest.raises(QueryError, match="more than 16 SELECTs inside others name columns of the outer ones"):
        split(depending(MAX_CORRELATED + 1), SCHEMA)
    with pytest.raises(QueryError, match="more than 4 SELECTs stand inside each other"):
        split(within(MAX_NESTED + 1), SCHEMA)


def test_selects_that_depend_on_none_are_not_counted() -> None:
    each = joined(" AND ", f"EXISTS (SELECT 1 FROM {GROUPS} b WHERE b.n > {{i}})", 40)
    assert split(f"SELECT n FROM {GROUPS} a WHERE {each}", SCHEMA).items
