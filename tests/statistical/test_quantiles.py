"""Quantiles in two steps: intervals hold for 95%, those of a quarter of the width do not; they are narrower than cells.

Each life has 12 groups whose noise is independent, and three levels that share it. A right interval of one level and
`LIVES` lives holds in less than 88.5% of them with probability below 1e-9, by the binomial law.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import treering as tr
from treering.domain.language.measures import Quantile, Request

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

GROUPS, ROWS, LIVES = 12, 3_000, 60
LEAST = 0.885
LEVELS = (0.25, 0.5, 0.9)
SCHEMA = tr.Schema({"g": tr.integers(1, GROUPS), "v": tr.numbers(0, 2000, step=0.5)})
VALUES = np.round(np.random.default_rng(3).lognormal(4, 0.7, (GROUPS, ROWS)).clip(0, 1999) * 2) / 2
TABLE = pa.table({"g": np.repeat(np.arange(1, GROUPS + 1), ROWS), "v": VALUES.reshape(-1)})


@pytest.fixture(scope="module")
def found() -> Array:
    """Value, low and high for each life, group and level."""
    db = tr.GrowingDatabase(SCHEMA)
    db.append(TABLE)
    request = Request.of(SCHEMA, [Quantile("v", level) for level in LEVELS], ["g"])
    lives = []
    for _ in range(LIVES):
        release = tr.Rings(db, epsilon=3.0, delta=1e-6).release(request)
        lives.append([[(each.value, each.low, each.high) for each in group] for group in release.rows])
    return np.array(lives, dtype=np.float64)


def holds(low: Array, high: Array, place: int) -> float:
    truth = np.quantile(VALUES, LEVELS[place], axis=1, method="inverted_cdf")
    return float(((low[..., place] <= truth) & (truth <= high[..., place])).mean())


@pytest.mark.parametrize("place", range(len(LEVELS)))
def test_intervals_hold_for_95_percent_and_those_of_a_quarter_of_the_width_do_not(found: Array, place: int) -> None:
    assert binom.cdf(math.floor(LEAST * LIVES * GROUPS), LIVES * GROUPS, 0.95) < 1e-9
    value, low, high = np.moveaxis(found, -1, 0)
    assert holds(low, high, place) >= LEAST
    middle, half = (low + high) / 2, (high - low) / 8
    assert holds(middle - half, middle + half, place) < LEAST
    assert np.isfinite(value).all()


def test_intervals_are_far_narrower_than_the_cells_of_the_grid(
    found: Array,
) -> None:
    widths = found[..., 2] - found[..., 1]
    assert np.median(widths[..., 1]) < 2000 / 64 / 2
