"""The threshold of discoveries: never below the exact tail, and no larger than it must be."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from treering.budget.threshold import LARGEST, least_beyond, tail, threshold
from treering.errors import ParameterError


def by_sums(scale: float, least: int) -> float:
    """P(X ≥ least), term by term."""
    far = math.ceil(45 * scale) + 3
    weights = [math.exp(-(k**2) / (2 * scale**2)) for k in range(-far, least + far)]
    return math.fsum(weights[least + far :]) / math.fsum(weights)


@given(scale=st.floats(0.2, 60.0), part=st.floats(0.0, 7.0))
def test_a_tail_is_never_too_small(scale: float, part: float) -> None:
    least = max(1, round(part * scale))
    exact, told = by_sums(scale, least), float(tail(scale, least))
    assert exact * (1 - 1e-13) <= told
    assert told <= exact * (1 + 1e-13) or scale < 3
    assert told <= exact * 1.2


@given(scale=st.floats(0.2, 60.0), digits=st.integers(1, 14))
def test_a_threshold_is_the_least_that_keeps_the_chance(scale: float, digits: int) -> None:
    failure = Fraction(1, 10**digits)
    found = threshold(scale, failure)
    assert tail(scale, found - 1) <= failure < tail(scale, found - 2) or found == 2


def test_the_figures_of_the_theory() -> None:
    """ε = 1, δ = 1e-6, a fifth of ρ, δ′ = 1e-8."""
    assert threshold(14.4, Fraction(1, 10**8)) == 83


def test_a_threshold_with_above_for_at_least_fails_too_often() -> None:
    """BROKEN: the least T with P(X > T − 1) ≤ δ′. It is one less, and a value of one row is told too often."""
    failure = Fraction(1, 10**8)
    broken = threshold(14.3, failure) - 1
    assert tail(14.3, broken) <= failure < tail(14.3, broken - 1)


def test_a_least_count_before_the_threshold_fails_more_than_ten_times_as_often() -> None:
    """BROKEN: values with fewer than 10 rows get no noise. A row then decides whether one with 10 is told at all."""
    failure = Fraction(1, 10**8)
    assert tail(14.3, threshold(14.3, failure) - 10) > 10 * failure


def test_noise_is_within_its_margin_as_often_as_is_said() -> None:
    margin = least_beyond(14.3, Fraction(1, 40)) - 1
    assert margin == 28
    assert 2 * by_sums(14.3, margin + 1) <= 0.05


@pytest.mark.parametrize("scale", [0.0, -1.0, LARGEST * 2, math.inf, math.nan])
def test_rejects_scale_that_is_none_or_too_large(scale: float) -> None:
    with pytest.raises(ParameterError, match="scale"):
        threshold(scale, Fraction(1, 100))


@pytest.mark.parametrize("failure", [Fraction(0), Fraction(-1), Fraction(1, 2), Fraction(2)])
def test_rejects_failure_that_is_no_small_chance(failure: Fraction) -> None:
    with pytest.raises(ParameterError, match="failure"):
        threshold(10.0, failure)
