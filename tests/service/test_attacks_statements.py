"""Statements that grow where nobody looks: SELECTs in SELECTs, names in their places, texts, frames, rows from nothing.

Each is asked about numbers that are known, so that nothing but its size can refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.attacking import KNOWN, MONTHS, SECONDS, SLACK, Scene, ended, played
from support.office import ROWS, SCHEMA

A, B = f"{MONTHS} AS a", f"{MONTHS} AS b"


def times(number: int, pattern: str, word: str) -> str:
    """A pattern a number of times, with ``@`` as the number of each."""
    return word.join(pattern.replace("@", str(place)) for place in range(number))


def around(number: int, start: str, inner: str, end: str) -> str:
    return start * number + inner + end * number


GROWN = around(6, "REPLACE(", "origin", f", 'J', '{'J' * 300}')")
CROSSED = f"{MONTHS} AS a, {MONTHS} AS b, {MONTHS} AS c, {MONTHS} AS d"
FRAME = "ORDER BY a.n, b.n, c.n, d.n ROWS BETWEEN 10000 PRECEDING AND 10000 FOLLOWING"
HIDDEN = {
    "many EXISTS": f"SELECT n FROM {A} WHERE {times(60, f'EXISTS (SELECT 1 FROM {B} WHERE b.n > @)', ' AND ')}",
    "many EXISTS that depend": f"SELECT n FROM {A} WHERE "
    + times(60, f"EXISTS (SELECT 1 FROM {B} WHERE b.n > a.n + @)", " AND "),
    "as many as may depend": f"SELECT n FROM {A} WHERE "
    + times(16, f"EXISTS (SELECT 1 FROM {B} WHERE b.n > a.n + @)", " AND "),
    "EXISTS in EXISTS": f"SELECT a0.n FROM {MONTHS} AS a0 WHERE "
    + "".join(
        f"EXISTS (SELECT 1 FROM {MONTHS} AS a{level} WHERE {times(level, f'a{level}.n >= a@.n', ' AND ')} AND "
        for level in range(1, 12)
    )
    + "1 = 1"
    + ")" * 11,
    "many numbers": f"SELECT {times(60, '(SELECT COUNT(*) FROM t WHERE month = 1 + @ % 12)', ' + ')} AS x",
    "many NOT INs": f"SELECT n FROM {A} WHERE {times(60, f'n NOT IN (SELECT n + @ FROM {B})', ' AND ')}",
    "many CASEs": f"SELECT {around(40, 'CASE WHEN n > 0 THEN ', '1', ' ELSE 2 END')} AS x FROM {MONTHS}",
    "many columns": f"SELECT {times(300, 'n + @ AS c@', ', ')} FROM {MONTHS}",
    "too many columns": f"SELECT {times(1500, 'n + @ AS c@', ', ')} FROM {MONTHS}",
    "many UNIONs": times(40, f"SELECT n + @ AS n FROM {A}", " UNION "),
    "too many UNIONs": times(500, "SELECT COUNT(*) FROM t", " UNION ALL "),
    "a long list": f"SELECT n FROM {MONTHS} WHERE n IN ({times(3000, '@', ', ')})",
    "a long list of rows": f"SELECT COUNT(*) FROM t WHERE month IN ({times(3000, '@', ', ')})",
    "a long pattern": f"SELECT n FROM {MONTHS} WHERE CAST(n AS VARCHAR) LIKE '{'%a' * 5000}%'",
    "a pattern and a long text": f"SELECT REPLACE('{'a' * 200}', 'a', '{'a' * 50_000}') LIKE '%{'_a%' * 2000}%c' AS x "
    f"FROM {MONTHS}",
    "a pattern about rows": f"SELECT COUNT(*) FROM t WHERE origin LIKE '{'%J' * 5000}%'",
    "an expression that backtracks": "SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(origin, '(a|aa)+$')",
    "an expression and a long text": f"SELECT REGEXP_MATCHES(REPLACE('{'a' * 9000}', 'a', '{'a' * 9000}'), "
    f"'(a*)*b{{1000}}') AS x FROM {MONTHS}",
    "an expression of expressions": "SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(origin, '(((a{99}){99}){99}){99}')",
    "texts again and again": f"SELECT REPEAT('a', 1000000000) AS x FROM {MONTHS}",
    "padded texts": f"SELECT LPAD('a', 1000000000, 'b') AS x FROM {MONTHS}",
    "texts of rows that grow": f"SELECT COUNT(*) FROM t WHERE {GROWN} = 'a'",
    "keys that grow": f"SELECT {GROWN} AS x, COUNT(*) FROM t GROUP BY 1",
    "a wide frame": f"SELECT MEDIAN(a.n) OVER ({FRAME}) AS x FROM {CROSSED}",
    "a frame of different numbers": f"SELECT COUNT(DISTINCT a.n) OVER ({FRAME}) AS x FROM {CROSSED}",
    "many frames": "SELECT "
    + times(200, "SUM(n) OVER (ORDER BY month ROWS BETWEEN @ PRECEDING AND CURRENT ROW) AS x@", ", ")
    + f" FROM {MONTHS}",
    "rows out of nothing": "SELECT * FROM range(1000000000)",
    "a series in FROM": f"SELECT * FROM {MONTHS}, generate_series(1, 1000000000)",
    "a list in FROM": f"SELECT * FROM {MONTHS}, UNNEST([1, 2, 3])",
    "a list's rows": f"SELECT UNNEST(RANGE(1000000000)) FROM {MONTHS}",
    "a list": f"SELECT LIST_SUM(RANGE(1000000000)) FROM {MONTHS}",
    "a struct": f"SELECT {{'a': n}} FROM {MONTHS}",
    "JSON": f"SELECT CAST('{'[' * 5000}{']' * 5000}' AS JSON) FROM {MONTHS}",
    "a long text of all": f"SELECT STRING_AGG(CAST(a.n AS VARCHAR), 'x') FROM {CROSSED}",
    "a CTE of itself": "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x) SELECT * FROM x",
    "CTEs of CTEs": "WITH a0 AS (SELECT month, COUNT(*) AS n FROM t GROUP BY 1), "
    + ", ".join(f"a{place + 1} AS (SELECT a.n FROM a{place} AS a, a{place} AS b)" for place in range(5))
    + " SELECT * FROM a5",
    "joined again and again": f"SELECT a0.n FROM {MONTHS} AS a0 JOIN "
    + " JOIN ".join(f"{MONTHS} AS a{place} ON a{place}.month = a0.month" for place in range(1, 50)),
    "all with all": f"SELECT COUNT(*) FROM {times(50, f'{MONTHS} AS a@', ', ')}",
    "many cases of rows": f"SELECT CASE {times(1000, 'WHEN month = 1 + @ % 12 THEN @', ' ')} END AS c, COUNT(*) "
    "FROM t GROUP BY 1",
    "a long format": f"SELECT STRFTIME(DATE '2013-01-01', '{'%A' * 5000}') AS d, n FROM {MONTHS}",
    "an age": f"SELECT DATE '2013-01-01' + INTERVAL 999999999999 YEAR AS d, n FROM {MONTHS}",
    "parentheses around": around(40, "(", KNOWN, ")"),
    "LIMITs around": around(40, "(", KNOWN, ") LIMIT 5"),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("attacks") / "v", SCHEMA, ROWS) as scene:
        yield scene


def test_statements_that_grow_end_within_their_limits(scene: Scene) -> None:
    """Two at a time; none of them changes what others get."""
    before = scene.probes()
    with scene.attacked() as client, ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda text: ended(client, {"sql": text}), HIDDEN.values())
        for name, (status, seconds) in zip(HIDDEN, outcomes, strict=True):
            assert status == 200 or 400 <= status < 500, name
            assert seconds <= SECONDS + SLACK, name
    assert scene.probes() == before
