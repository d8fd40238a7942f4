from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from treering.errors import ParameterError
from treering.theory.tails import (
    gaussian_radius,
    gaussian_tail,
    laplace_one_sided_radius,
    laplace_radius,
    laplace_tail,
    laplace_upper,
)

BETAS = [0.9, 0.5, 0.3, 0.05, 1e-3, 1e-9, 1e-30, 1e-300]
SCALES = [1e-3, 0.03, 0.5, 1.0, 7.3, 100.0, 1e5, 1e12]

betas = st.floats(1e-300, 0.999)


def laplace_upper_decimal(scale: float, k: int) -> Decimal:
    """P(X ≥ k) to fifty digits."""
    with localcontext() as context:
        context.prec = 50
        p = (-1 / Decimal(scale)).exp()
        at_least_one = (-Decimal(max(k, 1 - k)) / Decimal(scale)).exp() / (1 + p)
        return at_least_one if k >= 1 else 1 - at_least_one


def gaussian_tails_decimal(sigma: float, furthest: int) -> list[Decimal]:
    """P(|X| ≥ k) for k = 0..furthest to forty digits, by summation far beyond it."""
    with localcontext() as context:
        context.prec = 60
        weight = Decimal(1) / (2 * Decimal(sigma) ** 2)
        end = furthest + math.ceil(12 * sigma) + 2
        terms = [2 * (-weight * j * j).exp() for j in range(1, end)]
        tails = [Decimal(0)]
        for term in reversed(terms):
            tails.append(tails[-1] + term)
        whole = tails[-1] + 1
        return [Decimal(1), *(tail / whole for tail in reversed(tails))][: furthest + 1]


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 20.0])
def test_laplace_tails_are_sums_of_the_distribution(scale: float) -> None:
    p = math.exp(-1 / scale)
    mass = {j: (1 - p) / (1 + p) * p ** abs(j) for j in range(-1200, 1201)}
    for k in range(-5, 30):
        assert laplace_upper(scale, k) == pytest.approx(math.fsum(m for j, m in mass.items() if j >= k), rel=1e-12)
        assert laplace_tail(scale, k) == pytest.approx(math.fsum(m for j, m in mass.items() if abs(j) >= k), rel=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_tails_far_out(scale: float) -> None:
    for deviations in (0.1, 1.0, 30.0, 690.0):
        k = max(1, math.floor(deviations * scale))
        expected = laplace_upper_decimal(scale, k)
        assert laplace_upper(scale, k) == pytest.approx(float(expected), rel=1e-12, abs=1e-307)
        assert laplace_tail(scale, k) == pytest.approx(float(2 * expected), rel=1e-12, abs=1e-307)


@given(st.floats(1e-3, 1e12), betas)
@settings(max_examples=300)
def test_laplace_radius_is_the_smallest(scale: float, beta: float) -> None:
    radius = laplace_radius(scale, beta)
    chance = Decimal(repr(beta))
    assert 2 * laplace_upper_decimal(scale, radius + 1) <= chance
    assert radius == 0 or 2 * laplace_upper_decimal(scale, radius) > chance


@given(st.floats(1e-3, 1e12), betas)
@settings(max_examples=300)
def test_laplace_one_sided_radius_is_the_smallest(scale: float, beta: float) -> None:
    radius = laplace_one_sided_radius(scale, beta)
    chance = Decimal(repr(beta))
    assert laplace_upper_decimal(scale, radius + 1) <= chance < laplace_upper_decimal(scale, radius)


def test_a_one_sided_radius_may_be_negative() -> None:
    assert laplace_one_sided_radius(10.0, 0.9) < 0 < laplace_one_sided_radius(10.0, 0.1)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.5, 1.0, 2.5, 9.99, 10.01, 40.0, 150.0])
def test_gaussian_tail_is_an_upper_bound_and_a_close_one(sigma: float) -> None:
    furthest = math.ceil(7 * sigma) + 3
    for k, truth in enumerate(gaussian_tails_decimal(sigma, furthest)):
        bound = Decimal(gaussian_tail(sigma, k))
        assert bound >= truth or truth < Decimal("1e-307")
        if k >= 3 * sigma:
            assert bound <= truth * Decimal("1.03") + Decimal("1e-307")
        assert bound <= min(Decimal(1), truth + Decimal(1) / Decimal(2 * sigma))


@given(st.floats(1e-3, 1e12), st.floats(0.01, 37))
def test_gaussian_tail_beats_the_sub_gaussian_bound(sigma: float, deviations: float) -> None:
    """Canonne, Kamath and Steinke 2020: P(|X| ≥ k) ≤ 2·e^{−k²/(2σ²)}."""
    k = math.ceil(deviations * sigma)
    assert gaussian_tail(sigma, k) <= 2 * math.exp(-((k / sigma) ** 2) / 2) * (1 + 1e-9) + 1e-307


@pytest.mark.parametrize("sigma", SCALES)
@pytest.mark.parametrize("beta", BETAS)
def test_gaussian_radius_is_the_smallest_proven(sigma: float, beta: float) -> None:
    radius = gaussian_radius(sigma, beta)
    assert gaussian_tail(sigma, radius + 1) <= beta
    assert radius == 0 or gaussian_tail(sigma, radius) > beta
    assert radius <= sigma * math.sqrt(2 * math.log(2 / beta)) + 1


@pytest.mark.parametrize("sigma", [0.4, 3.0, 9.0, 12.0, 60.0])
def test_gaussian_radius_is_the_true_one(sigma: float) -> None:
    truths = gaussian_tails_decimal(sigma, math.ceil(8 * sigma) + 2)
    for beta in (0.05, 1e-3, 1e-9):
        smallest = next(r for r in range(len(truths)) if truths[r + 1] <= Decimal(repr(beta)))
        assert smallest <= gaussian_radius(sigma, beta) <= smallest + 1


@given(st.floats(1e-3, 1e6), st.integers(-3, 10**6))
def test_tails_fall(scale: float, k: int) -> None:
    for tail in (laplace_tail, laplace_upper, gaussian_tail):
        assert 0 <= tail(scale, k + 1) <= tail(scale, k) <= 1


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf, "1"])
def test_bad_parameters_are_refused(wrong: Any) -> None:
    for function in (laplace_tail, laplace_upper):
        with pytest.raises(ParameterError, match="scale must be"):
            function(wrong, 1)
    for radius in (laplace_radius, laplace_one_sided_radius):
        with pytest.raises(ParameterError, match="scale must be"):
            radius(wrong, 0.1)
    with pytest.raises(ParameterError, match="sigma must be"):
        gaussian_tail(wrong, 1)
    for any_radius in (laplace_radius, laplace_one_sided_radius, gaussian_radius):
        with pytest.raises(ParameterError, match="beta must be"):
            any_radius(1.0, wrong)
