"""The second stage: totals are exact, impossible numbers are not shown, and nothing fails for what noise brings."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.corpus import SCHEMA as FLIGHTS, answered
from support.plans import estimates_of, noise_in
from treering.deadline import Deadline, until
from treering.errors import QueryError, TimeLimit
from treering.mechanisms.plan import Counted
from treering.shown import notes
from treering.sql.answer import ONE_BY_ONE, answer, draws_for, rehearse, split

SCHEMA = tr.Schema(
    {
        "g": tr.integers(1, 60),
        "late": tr.categories(False, True),
        "cost": tr.numbers(0, 500, step=1, edges=[0, 100, 500]),
        "rare": tr.categories("a", "b", "c"),
    }
)
SIZE = 3000
GROUPS = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"


@cache
def database() -> tr.GrowingDatabase:
    generator = np.random.default_rng(7)
    db = tr.GrowingDatabase(SCHEMA)
    db.append(
        pa.table(
            {
                "g": generator.integers(1, 61, SIZE),
                "late": generator.random(SIZE) < 0.3,
                "cost": generator.integers(0, 30, SIZE).astype(float),
                "rare": ["a"] * (SIZE - 2) + ["b"] * 2,
            }
        )
    )
    return db


def rows(text: str, delta: float = 1e-6) -> list[dict[str, Any]]:
    """The result of a statement by rings of their own, whose noise is as large as the groups."""
    statement = split(text, SCHEMA)
    rings = tr.Rings(database(), epsilon=1.0, delta=delta)
    told = estimates_of(rings, statement.items)
    noise = noise_in(rings, statement.items).draw(told, draws_for(statement))
    found: list[dict[str, Any]] = answer(statement, told, noise, SIZE).to_pylist()
    return found


# -- what is public ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_total_that_is_public_is_exact_however_many_groups_would_be_below_zero(delta: float) -> None:
    text = f"SELECT SUM(n) AS s, SUM(n) * 1.0 AS f, SUM(n) - {SIZE} AS d, AVG(n) AS a FROM ({GROUPS}) AS g"
    (row,) = rows(text, delta)
    assert (row["s"], row["f"], row["d"], row["a"]) == (SIZE, float(SIZE), 0, SIZE / 60)
    assert isinstance(row["s"], int)
    assert [row[f"{name}_margin"] for name in "sfda"] == [0, 0, 0, 0]


def test_a_total_that_is_not_public_is_not_exact() -> None:
    (row,) = rows("SELECT SUM(n) AS s FROM (SELECT g, COUNT(*) AS n FROM t WHERE late GROUP BY g) AS g")
    assert row["s_margin"] > 10


# -- what is possible --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_numbers_are_what_the_schema_allows_and_empty_groups_come_last_as_null(delta: float) -> None:
    text = (
        "SELECT rare, SUM(cost) AS s, AVG(cost) AS a, COUNT(*) AS n, COUNT(*) FILTER (WHERE late) * 1.0 / COUNT(*) "
        "AS r FROM t GROUP BY rare ORDER BY"
    )
    empty = 0
    for column in "ar" * 5:
        found = rows(f"{text} {column} DESC", delta)
        for row in found:
            assert 0 <= row["s"] <= 500 * SIZE
            assert row["s_margin"] <= 500 * SIZE
            assert 0 <= row["n"] <= SIZE
            assert row["a"] is None or (0 <= row["a"] <= 500 and row["a_margin"] <= 500)
            assert row["r"] is None or (0 <= row["r"] <= 1 and row["r_margin"] <= 1)
        absent = [row[column] is None for row in found]
        assert absent == sorted(absent)
        assert absent == [row[f"{column}_margin"] is None for row in found]
        empty += sum(absent)
    assert empty >= 5  # Of 20 groups of two rows or none, each is above its margin with 3%.


def test_whatever_noise_makes_of_numbers_nothing_fails() -> None:
    for text in (
        "SELECT rare, LN(COUNT(*)) AS l, SQRT(COUNT(*)) AS q, LOG(10, COUNT(*)) AS t FROM t GROUP BY rare",
        "SELECT rare, 1 / COUNT(*) AS x, 1 / (COUNT(*) - 2) AS y, COUNT(*) // 7 AS q FROM t GROUP BY rare",
        "SELECT rare, POW(COUNT(*), 0.5) AS p, EXP(COUNT(*)) AS e FROM t GROUP BY rare",
        "SELECT rare, CAST(COUNT(*) * 100 AS SMALLINT) AS i FROM t GROUP BY rare",
        "SELECT CAST(CONCAT(COUNT(*), 'x') AS INTEGER) AS x FROM t WHERE late",
    ):
        for row in rows(text):
            assert all(value is None or not isinstance(value, float) or np.isfinite(value) for value in row.values())


def test_a_count_is_shown_whole_and_compared_as_it_is_shown() -> None:
    for row in rows("SELECT g, COUNT(*) AS n, COUNT(*) || '' AS t FROM t GROUP BY g HAVING COUNT(*) > 50"):
        assert row["n"] > 50
        assert row["t"] == str(row["n"])
    for text in (f"{GROUPS} ORDER BY n DESC, g", f"SELECT g, n FROM ({GROUPS}) AS a ORDER BY n DESC, g"):
        found = [(-row["n"], row["g"]) for row in rows(text)]
        assert found == sorted(found)


# -- what a statement is made of ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_scalar_subqueries_are_worked_out(delta: float) -> None:
    (row,) = rows(
        "SELECT (SELECT COUNT(*) FROM t WHERE late) * 1.0 / (SELECT COUNT(*) FROM t WHERE g <= 30) AS x", delta
    )
    assert 0 < row["x_margin"] < row["x"]


def test_rows_without_labels_have_margins_of_their_own() -> None:
    found = rows(
        "SELECT COUNT(*) * 2 AS x FROM t WHERE late GROUP BY rare UNION ALL SELECT COUNT(*) * 40 FROM t WHERE late"
    )
    assert len(found) == 4
    assert max(row["x_margin"] for row in found[:3]) < found[3]["x_margin"] / 5


def test_what_an_order_by_noise_decides_has_no_margin() -> None:
    for row in rows("SELECT g, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM t GROUP BY g LIMIT 3"):
        assert row["n_margin"] > 0
        assert row["r_margin"] is None


def test_margins_of_groups_that_noise_makes_are_those_of_the_same_group() -> None:
    text = f"SELECT CASE WHEN n > 50 THEN 'big' ELSE 'small' END AS k, COUNT(*) AS c FROM ({GROUPS}) AS g GROUP BY k"
    found = {row["k"]: row for row in rows(text)}
    assert found["big"]["c"] + found["small"]["c"] == 60
    assert all(0 < row["c_margin"] <= 60 for row in found.values())


# -- before the charge -------------------------------------------------------------------------------------------------


def test_what_is_bound_to_fail_fails_on_placeholders() -> None:
    rehearse(split("SELECT CAST(CONCAT(COUNT(*), '0') AS INTEGER) AS x FROM t WHERE late", SCHEMA))
    with pytest.raises(QueryError, match="Could not convert"):
        rehearse(split("SELECT CAST(CONCAT(COUNT(*), 'x') AS INTEGER) AS x FROM t WHERE late", SCHEMA))


@pytest.mark.parametrize("asked", answered()[::7], ids=str)
def test_what_can_be_answered_passes_the_rehearsal(asked: Any) -> None:
    rehearse(split(asked.sql, FLIGHTS))


def test_a_deadline_ends_the_work() -> None:
    gone = Deadline(60)
    gone.cancel()
    with until(gone), pytest.raises(TimeLimit):
        rehearse(split("SELECT COUNT(*) * 2 AS x FROM t WHERE late", SCHEMA))


# -- other mechanisms --------------------------------------------------------------------------------------------------


def test_errors_that_may_all_point_one_way_are_added_up() -> None:
    parts = [f"COUNT(*) FILTER (WHERE g > {each})" for each in (10, 20, 30, 40)]
    statement = split(f"SELECT {' + '.join(parts)} AS x, {parts[0]} - {parts[1]} AS d, {parts[0]} AS n FROM t", SCHEMA)
    answers = [tr.Answer(0.5, 0.02, SIZE, "easy", 0.01) for _ in statement.items]
    found = answer(statement, Counted(SIZE, answers).estimates(), None, SIZE)
    (row,) = found.to_pylist()
    assert (row["x"], row["x_margin"]) == (4 * SIZE // 2, 4 * 0.02 * SIZE)
    assert (row["d"], row["d_margin"]) == (0, 2 * 0.02 * SIZE)
    assert (row["n"], row["n_margin"]) == (SIZE // 2, 0.01 * SIZE)
    assert ONE_BY_ONE in notes(found)


def test_the_top_of_other_answers_keeps_the_error_that_all_keep_together() -> None:
    statement = split(f"{GROUPS} ORDER BY n DESC LIMIT 1", SCHEMA)
    answers = [tr.Answer(0.5 - place / 1000, 0.02, SIZE, "easy", 0.01) for place in range(len(statement.items))]
    (row,) = answer(statement, Counted(SIZE, answers).estimates(), None, SIZE).to_pylist()
    assert (row["g"], row["n"], row["n_margin"]) == (1, SIZE // 2, 0.02 * SIZE)
