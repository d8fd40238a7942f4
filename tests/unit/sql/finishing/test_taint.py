"""Which columns rest on noise, and where rows are chosen by it."""

from __future__ import annotations

import pytest

import treering as tr
from treering.errors import QueryError
from treering.sql.finishing.taint import taint
from treering.sql.split import split

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
GROUPS = "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin"


SAFE = [
    (GROUPS, (0, 1)),
    ("SELECT DISTINCT origin FROM t", (0,)),
    (f"{GROUPS} ORDER BY n", (0, 1)),
    (f"{GROUPS} ORDER BY ALL", (0, 1)),
    (f"{GROUPS} ORDER BY origin LIMIT 1", (0, 1)),
    (f"{GROUPS} HAVING origin <> 'EWR'", (0, 1)),
    (f"SELECT COUNT(*) AS c FROM ({GROUPS}) AS g", (0,)),
    (f"SELECT origin, 2 * n AS d, upper(origin) AS u FROM ({GROUPS}) AS g", (0, 1, 0)),
    ("SELECT origin, COUNT(*) / (SELECT COUNT(*) FROM t) AS s FROM t GROUP BY origin", (0, 1)),
    (f"{GROUPS} UNION ALL SELECT 'all', COUNT(*) FROM t", (0, 1)),
    ("SELECT origin, 7 AS n FROM t GROUP BY origin UNION ALL SELECT 'x', COUNT(*) FROM t", (0, 1)),
    (f"SELECT SUM(n) FILTER (WHERE origin = 'JFK') AS s FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT a.origin, a.n - b.n AS d FROM ({GROUPS}) AS a JOIN ({GROUPS}) AS b ON a.origin = b.origin", (0, 1)),
    (f"SELECT origin, SUM(n) OVER (ORDER BY origin) AS s FROM ({GROUPS}) AS g", (0, 1)),
    (f"SELECT SUM(CASE WHEN origin = 'JFK' THEN n ELSE 0 END) AS s FROM ({GROUPS}) AS g", (1,)),
    ("SELECT MEDIAN(month) AS m FROM t", (1,)),
]

CHOOSING = [
    (f"{GROUPS} ORDER BY n LIMIT 1", (0, 1)),
    (f"{GROUPS} ORDER BY 2 LIMIT 1", (0, 1)),
    (f"{GROUPS} ORDER BY n OFFSET 1", (0, 1)),
    (f"{GROUPS} ORDER BY ALL LIMIT 1", (0, 1)),
    (f"{GROUPS} ORDER BY COUNT(*) DESC LIMIT 1", (0, 1)),
    (f"{GROUPS} HAVING COUNT(*) > 3", (0, 1)),
    (f"{GROUPS} QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1", (0, 1)),
    (f"SELECT * FROM ({GROUPS} ORDER BY n DESC) AS g LIMIT 1", (0, 1)),
    (f"SELECT * FROM (SELECT * FROM ({GROUPS} ORDER BY n DESC) AS g) AS h LIMIT 1", (0, 1)),
    (f"SELECT a.origin, a.n FROM ({GROUPS}) AS a JOIN ({GROUPS}) AS b ON a.n > b.n", (0, 1)),
    ("SELECT DISTINCT ON (month) month, origin, COUNT(*) AS n FROM t GROUP BY ALL ORDER BY month, n DESC", (0, 0, 1)),
    (f"SELECT DISTINCT n FROM ({GROUPS}) AS g", (1,)),
    (f"{GROUPS} UNION ALL {GROUPS} ORDER BY n LIMIT 1", (0, 1)),
    (f"{GROUPS} UNION ALL {GROUPS} ORDER BY 2 OFFSET 1", (0, 1)),
    (f"{GROUPS} UNION {GROUPS}", (0, 1)),
    (f"{GROUPS} INTERSECT {GROUPS}", (0, 1)),
    (f"SELECT COUNT(*) AS c FROM ({GROUPS}) AS g WHERE n > 3", (1,)),
    (f"SELECT COUNT(*) AS c FROM (SELECT origin FROM ({GROUPS}) AS g WHERE n > 3) AS h", (1,)),
    (f"SELECT COUNT(*) OVER () AS c FROM ({GROUPS} HAVING COUNT(*) > 3) AS g", (1,)),
    (f"SELECT MAX(n) AS m, COUNT(*) AS c FROM ({GROUPS}) AS g", (1, 0)),
    (f"SELECT MEDIAN(n) AS m FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT QUANTILE_CONT(n, 0.9) AS m FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT COUNT(DISTINCT n) AS m FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT arg_max(origin, n) AS best FROM ({GROUPS}) AS g", (2,)),
    (f"SELECT SUM(n) FILTER (WHERE n > 3) AS s FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT SUM(CASE WHEN n > 3 THEN 1 ELSE 0 END) AS s FROM ({GROUPS}) AS g", (1,)),
    (f"SELECT origin, GREATEST(n, 3) AS m FROM ({GROUPS}) AS g", (0, 1)),
    (f"SELECT origin, RANK() OVER (ORDER BY n) AS r FROM ({GROUPS}) AS g", (0, 2)),
    (f"SELECT origin, SUM(n) OVER (ORDER BY n) AS r FROM ({GROUPS}) AS g", (0, 2)),
    (f"SELECT origin, FIRST_VALUE(origin) OVER (ORDER BY n) AS r FROM ({GROUPS}) AS g", (0, 2)),
    (f"SELECT origin, 2 * r AS d FROM (SELECT origin, RANK() OVER (ORDER BY n) AS r FROM ({GROUPS}) AS g) h", (0, 2)),
    (f"SELECT origin FROM ({GROUPS}) AS g WHERE EXISTS (SELECT 1 FROM ({GROUPS}) AS h WHERE h.n > 100)", (0,)),
    (f"SELECT origin FROM ({GROUPS}) AS g WHERE origin IN (SELECT origin FROM ({GROUPS}) AS h WHERE h.n > 9)", (0,)),
    (f"SELECT CASE WHEN n > 3 THEN 'a' ELSE 'b' END AS k, COUNT(*) AS c FROM ({GROUPS}) AS g GROUP BY k", (1, 1)),
    (f"SELECT n, COUNT(*) AS c FROM ({GROUPS}) AS g GROUP BY ALL", (1, 1)),
]


@pytest.mark.parametrize(("text", "levels"), SAFE)
def test_what_chooses_nothing_by_noise(text: str, levels: tuple[int, ...]) -> None:
    found = taint(split(text, SCHEMA).outer)
    assert found.levels == levels
    assert not found.selects


@pytest.mark.parametrize(("text", "levels"), CHOOSING)
def test_what_chooses_by_noise(text: str, levels: tuple[int, ...]) -> None:
    found = taint(split(text, SCHEMA).outer)
    assert found.levels == levels
    assert found.selects
    assert found.columns == tuple(level > 0 for level in levels)


def test_selects_of_different_widths_cannot_be_put_together() -> None:
    outer = split(f"{GROUPS} UNION ALL SELECT COUNT(*) FROM t", SCHEMA).outer
    with pytest.raises(QueryError, match="numbers of columns"):
        taint(outer)
