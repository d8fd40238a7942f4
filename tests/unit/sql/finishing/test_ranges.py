"""What numbers can be at all."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from treering.sql.finishing.ranges import Ranges, shown
from treering.sql.split import split

SCHEMA = tr.Schema(
    {
        "g": tr.integers(1, 4),
        "late": tr.categories(False, True),
        "cost": tr.numbers(0, 500, step=1),
        "change": tr.numbers(-20, 60, step=1),
    }
)
SIZE = 1000
INF = math.inf


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("COUNT(*)", 0, SIZE),
        ("2 * COUNT(*) + 1", 1, 2 * SIZE + 1),
        ("COUNT(*) - COUNT(*) FILTER (WHERE late)", -SIZE, SIZE),
        ("SUM(cost)", 0, 500 * SIZE),
        ("SUM(-cost)", -500 * SIZE, 0),
        ("SUM(change)", -20 * SIZE, 60 * SIZE),
        ("SUM(g)", 0, 4 * SIZE),
        ("AVG(cost)", 0, 500),
        ("AVG(change)", -20, 60),
        ("AVG(g)", 1, 4),
        ("AVG(CASE WHEN late THEN 1.0 ELSE 0.0 END)", 0, 1),
        ("COUNT(*) FILTER (WHERE late) * 1.0 / COUNT(*)", 0, 1),
        ("ROUND(100.0 * SUM(CASE WHEN late THEN 1 ELSE 0 END) / COUNT(*), 2)", 0, 100),
        ("COUNT(*) * 100.0 / SUM(COUNT(*)) OVER ()", 0, 100),
        ("COUNT(*) * 1.0 / COUNT(*) FILTER (WHERE late)", 0, INF),
        ("COUNT(*) FILTER (WHERE late) * 1.0 / (SELECT COUNT(*) FROM t WHERE late)", 0, INF),
        ("LN(COUNT(*))", -INF, INF),
    ],
)
def test_what_a_number_can_be(expression: str, least: float, most: float) -> None:
    assert Ranges(split(f"SELECT {expression} AS x FROM t GROUP BY g", SCHEMA), SIZE).of(0) == (least, most)
    nested = f"SELECT x FROM (SELECT {expression} AS x FROM t GROUP BY g) AS a"
    assert Ranges(split(nested, SCHEMA), SIZE).of(0) == (least, most)


def test_a_column_of_several_selects_can_be_what_either_can() -> None:
    statement = split("SELECT AVG(cost) AS x FROM t GROUP BY g UNION ALL SELECT AVG(change) FROM t GROUP BY g", SCHEMA)
    assert Ranges(statement, SIZE).of(0) == (-20, 500)


def test_numbers_are_held_within_their_range_and_so_are_their_margins() -> None:
    values, margins = np.array([-48.0, 3.0, 700.0, np.nan, 5.0]), np.array([60.0, 700.0, 10.0, 2.0, np.inf])
    column, wide = shown(pa.array(values), pa.float64(), margins, (0.0, 500.0), released=False)
    assert column.to_pylist() == [0.0, 3.0, 500.0, None, None]
    assert wide.to_pylist() == [60.0, 497.0, 10.0, None, None]


def test_whole_numbers_are_whole_and_rounding_errors_are_no_margin() -> None:
    values, margins = np.array([20_000.000000003, 10.6, 3e-12]), np.array([3e-11, 2.5, 2e-11])
    column, wide = shown(pa.array(values), pa.decimal128(38, 0), margins, (-INF, INF), released=False)
    assert column.to_pylist() == [20_000, 11, 0]
    assert wide.to_pylist() == [0.0, 2.0, 0.0]
    column, wide = shown(pa.array(values), pa.float64(), margins, (-INF, INF), released=False)
    assert column.to_pylist() == [20_000.0, 10.6, 0.0]
    assert wide.to_pylist() == [0.0, 2.5, 0.0]
