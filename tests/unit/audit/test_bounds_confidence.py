"""Clopper–Pearson bounds: equal to scipy's, on the safe side of the exact tails, and monotone."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import beta

from treering.audit.bounds import clopper_pearson_lower, clopper_pearson_upper
from treering.errors import ParameterError

ALPHAS = [0.5, 0.3, 0.025, 1e-4, 1e-9, 1e-12]
TRIALS = [1, 2, 3, 10, 15, 16, 17, 100, 9_999, 1_000_000]


def hits_of(trials: int) -> list[int]:
    middle = {1, 2, 3, trials // 100, trials // 10, trials // 2, trials - 2, trials - 1}
    return sorted({0, trials, *(k for k in middle if 0 < k < trials)})


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("trials", TRIALS)
def test_bounds_agree_with_scipy(trials: int, alpha: float) -> None:
    for hits in hits_of(trials):
        lower = float(beta.ppf(alpha, hits, trials - hits + 1)) if hits else 0.0
        upper = float(beta.isf(alpha, hits + 1, trials - hits)) if hits < trials else 1.0
        assert clopper_pearson_lower(hits, trials, alpha) == pytest.approx(lower, rel=1e-9)
        assert clopper_pearson_upper(hits, trials, alpha) == pytest.approx(upper, rel=1e-9)


def tail(hits: int, trials: int, p: Fraction) -> Fraction:
    """P(at least this many hits), exactly."""
    return sum((math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1)), Fraction(0))


@settings(max_examples=60)
@given(trials=st.integers(1, 40), share=st.fractions(0, 1), alpha=st.floats(1e-12, 0.5))
def test_bounds_are_on_the_safe_side_and_close(trials: int, share: Fraction, alpha: float) -> None:
    """In rational arithmetic: at the bound, the tail is at most alpha, and no more than a hair below it."""
    hits = round(share * trials)
    if hits:
        bound = Fraction(clopper_pearson_lower(hits, trials, alpha))
        assert tail(hits, trials, bound) <= Fraction(alpha) < tail(hits, trials, bound * (1 + Fraction(1, 10**10)))
    if hits < trials:
        bound = 1 - Fraction(clopper_pearson_upper(hits, trials, alpha))
        wider = bound + (1 - bound) / 10**10
        assert tail(trials - hits, trials, bound) <= Fraction(alpha) < tail(trials - hits, trials, wider)


@given(trials=st.integers(2, 3000), data=st.data(), alpha=st.sampled_from(ALPHAS))
def test_bounds_grow_with_the_hits_and_enclose_the_frequency(trials: int, data: st.DataObject, alpha: float) -> None:
    hits = data.draw(st.integers(1, trials))
    fewer, more = (clopper_pearson_lower(k, trials, alpha) for k in (hits - 1, hits))
    assert 0 <= fewer < more <= hits / trials
    assert clopper_pearson_upper(hits - 1, trials, alpha) <= clopper_pearson_upper(hits, trials, alpha) <= 1
    assert clopper_pearson_upper(hits, trials, alpha) >= hits / trials


def test_closed_forms_at_the_ends() -> None:
    assert clopper_pearson_lower(0, 10**6, 1e-9) == 0
    assert clopper_pearson_upper(10**6, 10**6, 1e-9) == 1
    assert clopper_pearson_lower(10**6, 10**6, 1e-9) == pytest.approx(math.exp(math.log(1e-9) / 10**6), rel=1e-10)
    assert clopper_pearson_upper(0, 10**6, 1e-9) == pytest.approx(-math.expm1(math.log(1e-9) / 10**6), rel=1e-10)
    # Two of ten at a level that scipy does not reach: 45p² = α.
    assert clopper_pearson_lower(2, 10, 1e-200) == pytest.approx(math.sqrt(1e-200 / 45), rel=1e-10)


@pytest.mark.parametrize("bound", [clopper_pearson_lower, clopper_pearson_upper])
@pytest.mark.parametrize(
    ("hits", "trials", "alpha", "named"),
    [
        (1, 0, 0.1, "trials"),
        (-1, 5, 0.1, "hits"),
        (6, 5, 0.1, "hits"),
        (1, 5, 0.0, "alpha"),
        (1, 5, 0.6, "alpha"),
        (1, 5, math.nan, "alpha"),
        (1, 5, 1e-300, "alpha"),
    ],
)
def test_bad_parameters_are_named(
    bound: Callable[[int, int, float], float], hits: int, trials: int, alpha: float, named: str
) -> None:
    with pytest.raises(ParameterError, match=named):
        bound(hits, trials, alpha)
