from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, strategies as st

from treering.budget.cost import FREE, Cost, exponential, gaussian, laplace, pure, silent_run, sparse_run

scales = st.fractions(min_value=Fraction(1, 100), max_value=100)


def renyi(order: float, left: list[float], right: list[float]) -> float:
    """The Rényi divergence between two distributions, given by the logarithms of weights with the same sum."""
    whole = math.fsum(map(math.exp, left))
    total = math.fsum(math.exp(order * p + (1 - order) * q) for p, q in zip(left, right, strict=True))
    return math.log(total / whole) / (order - 1)


def pure_loss(left: list[float], right: list[float]) -> float:
    return max(abs(p - q) for p, q in zip(left, right, strict=True))


def test_costs_add_and_keep_the_weaker_guarantee() -> None:
    both = laplace(1, 2) + gaussian(1, 2)
    assert both == Cost(None, Fraction(1, 8) + Fraction(1, 8))
    assert FREE + pure(Fraction(1)) == pure(Fraction(1))


@pytest.mark.parametrize(("epsilon", "rho"), [(Fraction(-1), Fraction(0)), (None, Fraction(-1))])
def test_no_negative_cost(epsilon: Fraction | None, rho: Fraction) -> None:
    with pytest.raises(ValueError, match="negative"):
        Cost(epsilon, rho)


@pytest.mark.parametrize(("scale", "sensitivity"), list(product([1, 3], [1, 2])))
def test_laplace_cost_holds_and_is_tight(scale: int, sensitivity: int) -> None:
    support = range(-60 * scale, 60 * scale + 1)
    left = [-abs(j) / scale for j in support]
    right = [-abs(j - sensitivity) / scale for j in support]
    cost = laplace(sensitivity, scale)
    assert cost.epsilon is not None
    assert pure_loss(left, right) == pytest.approx(float(cost.epsilon), rel=1e-9)
    for order in (1.5, 2, 8, 32):
        assert renyi(order, left, right) <= float(cost.rho) * order * (1 + 1e-9)


@pytest.mark.parametrize("sigma", [1, 3])
def test_gaussian_cost_holds_and_is_tight(sigma: int) -> None:
    support = range(-40 * sigma, 40 * sigma + 1)
    left = [-(j**2) / (2 * sigma**2) for j in support]
    right = [-((j - 1) ** 2) / (2 * sigma**2) for j in support]
    for order in (2, 4):
        assert renyi(order, left, right) == pytest.approx(float(gaussian(1, sigma).rho) * order, rel=1e-6)


@pytest.mark.parametrize("scale", [3, Fraction(5, 7), 0.75])
@pytest.mark.parametrize("squared", [2, Fraction(9, 2)])
def test_costs_are_exact_whatever_the_scale(scale: Fraction | float, squared: Fraction | int) -> None:
    exact = Fraction(scale)
    assert gaussian(squared, scale) == Cost(None, Fraction(squared) / (2 * exact**2))
    assert pure(exact) == Cost(exact, exact**2 / 2)
    assert laplace(squared, exact) == pure(squared / exact)
    assert exponential(squared, exact) == Cost(2 * squared / exact, (2 * squared / exact) ** 2 / 8)
    assert sparse_run(scale, Fraction(2, 3)) == pure(1 / exact + 3)
    assert sparse_run(Fraction(2, 3), scale) == pure(Fraction(3, 2) + 2 / exact)
    assert silent_run(exact) == 1 / exact


def test_exponential_cost_holds_for_all_orders() -> None:
    """Two candidates whose scores move in opposite directions: the worst case of the exponential mechanism."""
    scale = Fraction(2)
    cost = exponential(1, scale)
    assert cost.epsilon == 1
    for gap in (-8, -1, 0, 1, 8):
        weights = [math.exp((gap + move) / 2) for move in (-1, 1)]
        left, right = ([math.log(w / (1 + w)), math.log(1 / (1 + w))] for w in weights)
        assert pure_loss(left, right) <= 1
        for order in (1.01, 2, 16):
            assert renyi(order, left, right) <= float(cost.rho) * order * (1 + 1e-9)


@given(scales, scales)
def test_a_silent_run_has_lost_less_than_the_run(threshold: Fraction, query: Fraction) -> None:
    cost = sparse_run(threshold, query)
    assert cost.epsilon is not None
    assert cost.epsilon - silent_run(threshold) == 2 / query
    assert cost.rho == cost.epsilon**2 / 2


def test_sparse_run_cost_holds_by_enumeration() -> None:
    """All transcripts of up to 8 queries on the worst pair of neighbours, thresholds' noise summed out."""
    s1, s2, reach = 2, 4, 120

    def upper(k: int) -> float:
        p = math.exp(-1 / s2)
        return p**k / (1 + p) if k >= 1 else 1 - p ** (1 - k) / (1 + p)

    p = math.exp(-1 / s1)
    thresholds = [(eta, (1 - p) / (1 + p) * p ** abs(eta)) for eta in range(-reach, reach + 1)]

    def chance(silent: list[int], last: int) -> float:
        return math.fsum(
            weight * math.prod(1 - upper(eta - count) for count in silent) * upper(eta - last)
            for eta, weight in thresholds
        )

    epsilon = float(sparse_run(s1, s2).epsilon or 0)
    losses = [
        abs(math.log(chance([0] * silent, last) / chance([step] * silent, last - step)))
        for silent in range(8)
        for last in (-40, 0, 40)
        for step in (-1, 1)
    ]
    assert max(losses) <= epsilon
    assert max(losses) > 0.7 * epsilon
