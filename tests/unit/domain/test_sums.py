"""Values as whole steps: clipped, rounded half up, the same for every kind of number; and who has sums."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.domain.sums import Grid, of_codes, summable, sums_of, valued

FARE = tr.numbers(0, 2000, step=0.01, edges=[0, 50, 100, 2000])
SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK"),
        "fare": FARE,
        "month": tr.integers(1, 12, other=True, missing=True),
        "delay": tr.bins([-10, 0, 10]),
        "far": tr.numbers(-5, 5, step=0.5),
    }
)


def grid_of(name: str) -> Grid:
    grid = Grid.of(SCHEMA.attributes[name])
    assert grid is not None
    return grid


def test_numbers_and_integers_have_sums() -> None:
    assert summable(SCHEMA) == (1, 2, 4)
    assert Grid.of(SCHEMA.attributes["delay"]) is None
    assert Grid.of(SCHEMA.attributes["origin"]) is None
    assert sums_of(SCHEMA, 1, counts=True).reach == 200_000
    assert sums_of(SCHEMA, 1, counts=True).numbers(7) == 14
    assert sums_of(SCHEMA, 2, counts=False).numbers(7) == 7


@given(st.floats(allow_nan=False) | st.integers(0, 2 * 10**6).map(lambda cents: cents / 1000))
def test_a_value_is_the_nearest_step_within_the_bounds(value: float) -> None:
    """Compared with exact rationals; at the middle between two steps either is right, as doubles are not exact."""
    grid = grid_of("fare")
    (unit,) = grid.half_steps(np.array([value])).tolist()
    assert abs(unit) <= grid.steps
    assert (unit + grid.steps) % 2 == 0
    clipped = Fraction(min(2000.0, max(0.0, value)))
    found = grid.middle + grid.half * unit
    assert abs(found - clipped) <= grid.half * (1 + Fraction(1, 10**6))


def test_steps_are_rounded_half_up_and_ends_are_ends() -> None:
    grid = grid_of("far")
    values = [-math.inf, -7.0, -5.0, -4.75, -4.76, 0.0, 0.25, 0.24, 5.0, 5.1, math.inf]
    assert grid.half_steps(np.array(values)).tolist() == [-20, -20, -20, -18, -20, 0, 2, 0, 20, 20, 20]
    assert (grid.middle, grid.half) == (Fraction(0), Fraction(1, 4))


def test_cents_are_cents() -> None:
    """Each cent is its own step, though no double is a cent."""
    cents = np.arange(200_001)
    values = np.array([float(Decimal(int(cent)) / 100) for cent in cents[::97]])
    assert (grid_of("fare").half_steps(values) == 2 * cents[::97] - 200_000).all()


def test_codes_that_stand_for_values() -> None:
    assert valued(SCHEMA.attributes["fare"]).tolist() == [True] * 5 + [False]
    assert valued(SCHEMA.attributes["month"]).tolist() == [True] * 12 + [False] * 3
    assert valued(SCHEMA.attributes["delay"]).tolist() == [True, True]


def test_the_units_of_codes() -> None:
    assert of_codes(SCHEMA.attributes["month"]).tolist() == [*range(-11, 12, 2), 0, 0, 0]
    # The middles of [0, 50), [50, 100) and [100, 2000); the bounds; nothing.
    assert of_codes(FARE).tolist() == [-195_000, -185_000, 10_000, -200_000, 200_000, 0]
    assert of_codes(tr.integers(5, 5)).tolist() == [-1]


@pytest.mark.parametrize(("low", "high", "step"), [(0, 1, 2**-20), (0, 2**20, 1)])
def test_a_range_has_at_most_2_to_the_20_steps(low: float, high: float, step: float) -> None:
    assert tr.numbers(low, high, step=step).steps == 2**20
    with pytest.raises(tr.SchemaError, match=r"at most 2\^20 steps.*use a larger step"):
        tr.numbers(low, 2 * high, step=step)
