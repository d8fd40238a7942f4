"""Intervals of quotients against their definitions, and bounds over all unions against enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from treering.budget.promise import Budget
from treering.theory.cells import SubGaussianCell
from treering.theory.continual import Law
from treering.theory.rings import first_law
from treering.theory.sums import fieller, noise_price, quotient, union_radius

MARGINS = st.floats(0.01, 50)


@given(st.floats(-100, 100), st.floats(1, 200), MARGINS, MARGINS, st.floats(-1.2, 1.2))
def test_fieller_s_interval_is_the_set_that_keeps_the_inequality(
    total: float, rows: float, wide: float, narrow: float, ratio: float
) -> None:
    low, high = fieller(total, rows, wide, narrow, 1.0)
    assert -1 <= low <= high <= 1
    keeps = (total - ratio * rows) ** 2 - wide**2 - ratio**2 * narrow**2
    assume(abs(keeps) > 1e-6 * (total**2 + rows**2))
    if abs(ratio) <= 1 and keeps < 0:
        assert low - 1e-9 <= ratio <= high + 1e-9
    if keeps > 0 and rows > narrow * 1.001 and low < ratio < high:
        assert min(abs(ratio - low), abs(ratio - high)) < 1e-6


@given(st.floats(-100, 100), st.floats(-50, 200), MARGINS, MARGINS, st.floats(-1, 1), st.floats(-1, 1))
def test_a_quotient_lies_within_its_interval(
    total: float, rows: float, wide: float, narrow: float, off: float, away: float
) -> None:
    top, bottom = total + off * wide, rows + away * narrow
    assume(bottom > 1e-3)
    assume(abs(top) <= bottom)  # as sums of numbers within ±1 are
    low, high = quotient(total, rows, wide, narrow, 1.0)
    assert low - 1e-9 <= top / bottom <= high + 1e-9


def test_nothing_is_known_of_the_average_of_possibly_no_rows() -> None:
    assert fieller(5.0, 3.0, 1.0, 3.0, 1.0) == fieller(5.0, -30.0, 1.0, 3.0, 1.0) == (-1.0, 1.0)
    assert quotient(5.0, 3.0, 1.0, 3.0, 1.0) == (-1.0, 1.0)


@pytest.mark.parametrize("reach", [1, 20, 2**20])
def test_the_noise_of_sums_is_that_of_theory(reach: int) -> None:
    """11.6: at a price c, a sum has the variance 2R²/c, and R times a count the same; pure noise has the scale 2R/ε."""
    price = Fraction(1, 1000)
    law = first_law(noise_price(Budget("zcdp", price), reach), 2)
    assert math.isclose(law.variance, 2 * reach**2 * 1000, rel_tol=1e-9)
    pure = first_law(noise_price(Budget("pure", price), reach), 2)
    assert pure.parts == ((1.0, 2000.0 * reach, 1),)


def test_a_scaled_law_is_that_of_the_scaled_noise() -> None:
    assert Law(9.0).scaled(1 / 3) == Law(1.0)
    law = Law(0.0, ((1.0, 4.0, 1), (0.5, 8.0, 2)))
    assert math.isclose(law.scaled(0.25).deviation, law.deviation / 4, rel_tol=1e-12)


def test_the_bound_of_all_unions_is_kept_by_all_of_them_and_not_much_too_wide() -> None:
    groups, share, trials = 8, 0.2, 4_000
    noise = np.random.default_rng(3).normal(0, 1, (trials, groups))
    broken = np.zeros(trials, dtype=bool)
    for chosen in range(1, groups + 1):
        radius = union_radius(SubGaussianCell(1.0), groups, chosen, share)
        unions = np.stack([noise[:, each].sum(axis=1) for each in map(list, combinations(range(groups), chosen))])
        broken |= (np.abs(unions) > radius).any(axis=0)
        fixed = math.sqrt(2 * chosen * math.log(2 * groups * math.comb(groups, chosen) / share))
        assert radius == pytest.approx(fixed, rel=1e-3)
    assert np.mean(broken) <= share
    assert (np.abs(noise) > 0.6 * union_radius(SubGaussianCell(1.0), groups, 1, share)).any(axis=1).mean() > share
