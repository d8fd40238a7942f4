"""Margins of what SQL makes of released numbers: shares, ratios and differences keep theirs 95% of the time, and the
top of a list keeps its joint one.

Every trial has noise of its own. A right margin is kept by less than 91% or more than 98.5% of 1,200 numbers with
probability below 1e-9 if they were independent; those of one statement are correlated, mostly negatively.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.plans import estimates_of, noise_in
from treering.arrays import Floats
from treering.sql.answer import answer, draws_for, split

LEAST, MOST, TRIALS = 0.91, 0.985, 100
SCHEMA = tr.Schema({"month": tr.integers(1, 12), "late": tr.categories(False, True)})
MONTHS = np.repeat(np.arange(1, 13), 2000)
LATE = np.tile(np.arange(10) < 3, 2400)

SHARE = "SELECT month, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS x FROM t WHERE late GROUP BY month"
RATIO = "SELECT month, SUM(CASE WHEN late THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS x FROM t GROUP BY month"
DIFFERENCE = "SELECT month, COUNT(*) - COUNT(*) FILTER (WHERE late) AS x FROM t GROUP BY month"
TRUTH = {SHARE: 100 / 12, RATIO: 0.3, DIFFERENCE: 1400.0}


@cache
def database() -> tr.GrowingDatabase:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(pa.table({"month": MONTHS, "late": LATE}))
    return db


def told(text: str, *, correlated: bool = True) -> pa.Table:
    """The result of a statement, with noise of its own."""
    statement = split(text, SCHEMA)
    rings = tr.Rings(database(), epsilon=1.0, delta=1e-6)
    known = estimates_of(rings, statement.items)
    noise: Floats | None = noise_in(rings, statement.items).draw(known, draws_for(statement)) if correlated else None
    return answer(statement, known, noise, database().size)


def kept(text: str, *, correlated: bool = True) -> float:
    """How often a number is within its margin."""
    inside: list[bool] = []
    for _ in range(TRIALS):
        found = told(text, correlated=correlated)
        numbers = zip(found["x"].to_pylist(), found["x_margin"].to_pylist(), strict=True)
        inside += [abs(value - TRUTH[text]) <= margin for value, margin in numbers]
    return sum(inside) / len(inside)


@pytest.mark.parametrize("text", [SHARE, RATIO, DIFFERENCE])
def test_derived_numbers_keep_their_margins(text: str) -> None:
    assert LEAST <= kept(text) <= MOST


def test_noise_that_is_taken_for_independent_is_noticed() -> None:
    # What is not late is all minus those that are late, of the same noise: much of it cancels.
    assert kept(DIFFERENCE, correlated=False) > MOST


TOP = "SELECT month, COUNT(*) AS x FROM t WHERE late GROUP BY month ORDER BY x DESC LIMIT 1"


def test_the_top_of_a_list_keeps_its_joint_margin_and_would_not_keep_that_of_one_answer() -> None:
    # The greatest of 12 equal counts is beyond 1.96 deviations with 26%, and beyond 2.87 with 2.5%.
    narrow = wide = 0
    for _ in range(2 * TRIALS):
        (row,) = told(TOP).to_pylist()
        wide += abs(row["x"] - 600) <= row["x_margin"]
        narrow += abs(row["x"] - 600) <= row["x_margin"] * 1.96 / 2.865
    assert wide >= 175
    assert narrow <= 180
