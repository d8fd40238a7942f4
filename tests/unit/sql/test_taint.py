"""Which columns rest on noise, and where rows are chosen by it."""

from __future__ import annotations

import pytest

import treering as tr
from treering.errors import QueryError
from treering.sql.split import split
from treering.sql.taint import taint

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
GROUPS = "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin"


@pytest.mark.parametrize(
    ("text", "columns", "selects"),
    [
        (GROUPS, (False, True), False),
        ("SELECT DISTINCT origin FROM t", (False,), False),
        (f"{GROUPS} ORDER BY n", (False, True), False),
        (f"{GROUPS} ORDER BY n LIMIT 1", (False, True), True),
        (f"{GROUPS} ORDER BY COUNT(*) DESC LIMIT 1", (False, True), True),
        (f"{GROUPS} ORDER BY origin LIMIT 1", (False, True), False),
        (f"{GROUPS} HAVING COUNT(*) > 3", (False, True), True),
        (f"{GROUPS} HAVING origin <> 'EWR'", (False, True), False),
        (f"{GROUPS} QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1", (False, True), True),
        (f"SELECT MAX(n) AS m, COUNT(*) AS c FROM ({GROUPS}) AS g", (True, True), True),
        (f"SELECT COUNT(*) AS c FROM ({GROUPS}) AS g WHERE n > 3", (True,), True),
        (f"SELECT COUNT(*) AS c FROM ({GROUPS}) AS g", (False,), False),
        (f"SELECT origin, 2 * n AS d, upper(origin) AS u FROM ({GROUPS}) AS g", (False, True, False), False),
        (f"SELECT arg_max(origin, n) AS best FROM ({GROUPS}) AS g", (True,), True),
        ("SELECT origin, COUNT(*) / (SELECT COUNT(*) FROM t) AS s FROM t GROUP BY origin", (False, True), False),
        (f"{GROUPS} UNION ALL SELECT 'all', COUNT(*) FROM t", (False, True), False),
        ("SELECT origin, 7 AS n FROM t GROUP BY origin UNION ALL SELECT 'x', COUNT(*) FROM t", (False, True), False),
    ],
)
def test_what_rests_on_noise(text: str, columns: tuple[bool, ...], selects: bool) -> None:
    found = taint(split(text, SCHEMA).outer)
    assert found.columns == columns
    assert found.selects is selects


def test_selects_of_different_widths_cannot_be_put_together() -> None:
    outer = split(f"{GROUPS} UNION ALL SELECT COUNT(*) FROM t", SCHEMA).outer
    with pytest.raises(QueryError, match="numbers of columns"):
        taint(outer)
