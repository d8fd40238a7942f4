"""What statements mean: from exact answers they give what DuckDB gives on the rows, to the last row and name."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any, cast

import numpy as np
import pytest

from support.exact_sql import Rows, as_table, numbers_of, rows_of
from treering.deadline import Deadline, until
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.answer import split

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA"),
        "Month": integers(1, 12),
        "late": categories(False, True),
        "seats": integers(0, 4, missing=True),
        "delay": bins([-100, 0, 15, 60, 1000], missing=True),
    }
)


def _rows() -> Rows:
    generator = np.random.default_rng(1)
    number = 5_000
    absent = generator.random(number)
    seats, delay = generator.integers(0, 5, number).tolist(), generator.normal(20, 40, number).clip(-99, 999).tolist()
    return Rows(
        SCHEMA,
        as_table(
            {
                "origin": np.array(["EWR", "JFK", "LGA"])[generator.integers(0, 3, number)].tolist(),
                "Month": generator.integers(1, 13, number).tolist(),
                "late": (generator.random(number) < 0.3).tolist(),
                "seats": [None if absent[place] < 0.1 else seat for place, seat in enumerate(seats)],
                "delay": [None if absent[place] > 0.9 else each for place, each in enumerate(delay)],
            }
        ),
    )


ROWS = _rows()

ANSWERED = [
    "SELECT COUNT(*) FROM flights WHERE delay > 20",
    "SELECT origin, COUNT(*) FROM flights WHERE delay BETWEEN 7 AND 31.5 OR delay = 3 GROUP BY origin",
    "SELECT COUNT(*) FILTER (WHERE delay <= 20) AS few, COUNT(*) FILTER (WHERE delay > -3.25 AND late) AS n "
    "FROM flights",
    "SELECT CASE WHEN delay < 7 THEN 'soon' ELSE 'late' END AS k, COUNT(*) AS n FROM flights WHERE delay IS NOT NULL "
    "GROUP BY k",
    "SELECT COUNT(*) FROM flights",
    "SELECT count(1) AS n FROM flights WHERE delay >= 60",
    "SELECT COUNT(delay), COUNT(seats) FROM flights",
    "SELECT month, COUNT(*) AS n FROM flights GROUP BY month ORDER BY month",
    "SELECT MONTH, COUNT(*) AS N FROM flights GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 4",
    "SELECT f.origin AS o, COUNT(*) c FROM flights AS f GROUP BY f.origin HAVING COUNT(*) > 1650 ORDER BY c",
    'SELECT "flights"."origin" AS "origin", COUNT(*) AS "count" FROM "flights" GROUP BY "flights"."origin"',
    "SELECT origin, late, COUNT(*) FROM flights GROUP BY origin, late ORDER BY ALL",
    "SELECT origin, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM flights GROUP BY origin",
    "SELECT origin, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM flights) AS share FROM flights GROUP BY origin",
    "SELECT origin, SUM(CASE WHEN delay >= 60 THEN 1 ELSE 0 END) AS late FROM flights GROUP BY origin",
    "SELECT origin, AVG(CASE WHEN late THEN 1.0 ELSE 0.0 END) AS rate FROM flights GROUP BY origin",
    "SELECT origin, COUNT(*) FILTER (WHERE delay >= 60) AS late, COUNT(*) AS n FROM flights GROUP BY origin",
    "SELECT AVG(month) AS m, SUM(month) AS s, AVG(seats) AS a, SUM(seats) AS t FROM flights",
    "SELECT late, AVG(seats) AS a, SUM(2 * seats + 1) AS s FROM flights WHERE origin <> 'LGA' GROUP BY late",
    "SELECT SUM(CASE WHEN origin = 'JFK' THEN seats ELSE 0 END) AS s, SUM(CAST(late AS INT)) AS l FROM flights",
    "SELECT COUNT(CASE WHEN delay < 15 THEN 1 END) AS early, COUNT_IF(late) AS late FROM flights",
    "SELECT CASE WHEN delay >= 60 THEN 'late' WHEN delay >= 15 THEN 'some' ELSE 'no' END AS k, COUNT(*) FROM flights "
    "GROUP BY k",
    "SELECT delay >= 60 AS late, COUNT(*) AS n FROM flights GROUP BY delay >= 60",
    "SELECT upper(substring(origin, 1, 1)) AS o, COUNT(*) FROM flights GROUP BY 1",
    "SELECT month % 3 AS r, COUNT(*) FROM flights GROUP BY month % 3",
    "SELECT (month - 1) // 3 + 1 AS quarter, late, COUNT(*) FROM flights GROUP BY ALL",
    "SELECT COUNT(*) FROM flights WHERE origin LIKE '%R' OR month + seats > 12",
    "SELECT COUNT(*) FROM flights WHERE origin IN ('JFK', 'LGA') AND month BETWEEN 3 AND 5 AND NOT late",
    "SELECT COUNT(*) FROM flights WHERE late IS TRUE",
    "SELECT COUNT(*) FROM flights WHERE (delay >= 60) IS NOT TRUE",
    "SELECT COUNT(*) FROM flights WHERE (delay >= 60) IS FALSE",
    "SELECT COUNT(*) FROM flights WHERE delay IS NULL OR seats IS NOT NULL",
    "SELECT seats, COUNT(*) FROM flights GROUP BY seats",
    "SELECT COALESCE(seats, -1) AS s, COUNT(*) FROM flights GROUP BY 1",
    "SELECT DISTINCT origin FROM flights",
    "SELECT DISTINCT origin, late FROM flights ORDER BY 1, 2",
    "WITH l AS (SELECT * FROM flights WHERE late) SELECT month, COUNT(*) AS n FROM l GROUP BY month",
    "WITH l AS (SELECT origin AS o, month FROM flights WHERE late), g AS (SELECT o, COUNT(*) AS n FROM l GROUP BY o) "
    "SELECT SUM(n) AS total, MAX(n) AS most FROM g",
    "SELECT AVG(n) AS a FROM (SELECT month, COUNT(*) AS n FROM flights GROUP BY month) AS t",
    "SELECT o.origin, o.n - l.n AS rest FROM (SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin) AS o "
    "JOIN (SELECT origin, COUNT(*) AS n FROM flights WHERE late GROUP BY origin) AS l ON o.origin = l.origin",
    "SELECT month, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY month) AS diff FROM flights GROUP BY month",
    "SELECT month, SUM(COUNT(*)) OVER (ORDER BY month) AS running FROM flights GROUP BY month ORDER BY month",
    "SELECT origin, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM flights GROUP BY origin "
    "QUALIFY r <= 2",
    "SELECT origin, month, COUNT(*) AS n FROM flights GROUP BY origin, month "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY origin ORDER BY COUNT(*) DESC, month) = 1",
    "SELECT 'all' AS what, COUNT(*) AS n FROM flights UNION ALL SELECT 'late', COUNT(*) FROM flights WHERE late",
    "SELECT * FROM (SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin) AS t WHERE n > 10 ORDER BY n DESC",
    "SELECT ROUND(100.0 * SUM(CASE WHEN late THEN 1 ELSE 0 END) / COUNT(*), 3) AS pct FROM flights",
    "SELECT origin || '!' AS o, COUNT(*) + 1 AS n FROM flights GROUP BY origin",
    "SELECT source.origin, COUNT(*) AS count FROM (SELECT flights.origin, flights.month FROM flights) AS source "
    "GROUP BY source.origin ORDER BY count DESC",
]


@pytest.mark.parametrize("text", ANSWERED)
def test_from_exact_answers_a_statement_gives_what_duckdb_gives_on_the_rows(text: str) -> None:
    ours, theirs = numbers_of(ROWS.sql(text)), ROWS.duckdb(text)
    assert ours.column_names == theirs.column_names
    ordered = re.search(r"ORDER BY [^()]*$", text) is not None
    assert rows_of(ours, ordered=ordered) == rows_of(theirs, ordered=ordered)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM flights", "rows are private"),
        ("SELECT origin FROM flights LIMIT 3", "rows are private"),
        ("SELECT ROW_NUMBER() OVER (ORDER BY month) FROM flights", "rows are private"),
        ("SELECT origin, COUNT(*) FROM flights", "must appear in the GROUP BY|neither grouped by nor aggregated"),
        ("SELECT COUNT(DISTINCT origin) FROM flights", "GROUP BY lists them"),
        ("SELECT SUM(DISTINCT month) FROM flights", "DISTINCT"),
        ("SELECT SUM(origin) FROM flights", "no sum"),
        ("SELECT SUM(delay) FROM flights", "bins only"),
        ("SELECT delay / 10, COUNT(*) FROM flights GROUP BY 1", "bins only"),
        ("SELECT COUNT(*) FROM flights WHERE orgin = 'JFK'", "did you mean origin"),
        ("SELECT COUNT(*) FROM flights, flights AS g", "joined with nothing"),
        ("SELECT COUNT(*) FROM flights JOIN planes ON true", "one table"),
        (
            "SELECT COUNT(*) FROM flights WHERE month IN (SELECT month FROM flights GROUP BY month)",
            "inner SELECT first",
        ),
        ("SELECT COUNT(*) FROM read_csv('rows.csv')", "table functions"),
        ("SELECT getenv('HOME'), COUNT(*) FROM flights", "GETENV"),
        ("DROP TABLE flights", "only SELECT"),
        ("SELECT COUNT(*) FROM flights; SELECT 1", "one statement"),
        ("", "empty"),
        ("SELECT COUNT(*) FROM flights GROUP BY ROLLUP (origin)", "UNION ALL"),
        ("WITH RECURSIVE t AS (SELECT 1) SELECT COUNT(*) FROM t", "recursive"),
        ("SELECT COUNT(* FROM flights", "cannot be read"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500 + " FROM flights", "nested|read"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_what_could_be(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        split(text, SCHEMA)


def test_a_text_is_needed() -> None:
    with pytest.raises(QueryError, match="not int"):
        split(cast(Any, 7), SCHEMA)
    with pytest.raises(QueryError, match="characters"):
        split("SELECT COUNT(*) FROM flights WHERE " + "late AND " * 100_000 + "late", SCHEMA)


def test_a_million_groups_are_refused_before_they_are_listed() -> None:
    schema = Schema({"id": integers(1, 10**6)})
    with pytest.raises(QueryError, match="1,000,000 groups; at most 10,000"):
        split("SELECT id, COUNT(*) FROM flights GROUP BY id", schema)


def test_groups_without_number_are_refused_as_soon_as_there_are_too_many() -> None:
    """The labels of all keys would be 11 million sets, and their joint number has more digits than Python writes."""
    keys = ", ".join(f"id + {number}" for number in range(1100))
    with pytest.raises(QueryError, match="100,000,000 groups; at most 10,000"):
        split(f"SELECT COUNT(*) FROM flights GROUP BY {keys}", Schema({"id": integers(1, 10**4)}))


def test_as_many_labels_as_values_are_refused_before_there_is_a_set_for_each() -> None:
    """2^16 sets of 2^16 flags would be 4 GiB."""
    schema = Schema({"id": integers(1, 2**16)})
    tracemalloc.start()
    with pytest.raises(QueryError, match="65,536 groups; at most 10,000"):
        split("SELECT id + 1 AS x, COUNT(*) FROM flights GROUP BY 1", schema)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**28


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, COUNT(*) FROM flights GROUP BY id",
        "SELECT MEDIAN(id) FROM flights",
        "SELECT id % 1000 AS x, COUNT(*) FROM flights GROUP BY 1",
        f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE id > {number})' for number in range(500))} FROM flights",
        f"SELECT CASE {' '.join(f'WHEN id > {number} THEN {number}' for number in range(500))} END, COUNT(*) "
        "FROM flights GROUP BY 1",
    ],
)
def test_the_sets_that_a_statement_names_are_counted_for_its_request(text: str) -> None:
    seen: list[int] = []
    with until(Deadline(60, seen.append)):
        split(text, Schema({"id": integers(1, 5000)}))
    assert 500 * 5000 <= sum(seen) <= 10**8
