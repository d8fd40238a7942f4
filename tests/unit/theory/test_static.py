"""What a budget buys, and the accuracy that is proven for it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from treering.budget.promise import Budget
from treering.noise import Gaussian, Laplace, Noise
from treering.theory.static import (
    answer_radius,
    answers_noise,
    answers_rate,
    histogram_noise,
    histogram_radius,
    histogram_rate,
)
from treering.theory.tails import gaussian_radius, gaussian_tail, laplace_radius, laplace_tail
from treering.trusted.operations.histogram import tabulating

SCALES = [0.02, 0.3, 1.0, 4.0, 9.0, 11.0, 150.0, 1e6]
BETAS = [0.9, 0.5, 0.32, 0.31, 0.05, 1e-3, 1e-9, 1e-30]
totals = st.fractions(Fraction(1, 10**6), Fraction(100))


@given(totals)
def test_the_noise_costs_the_budget_or_a_hair_less(total: Fraction) -> None:
    """Checked against the kernel's own prices."""
    for kind, laplace in (("pure", False), ("zcdp", False), ("zcdp", True)):
        budget = Budget("pure" if kind == "pure" else "zcdp", total)
        cost = budget.amount(tabulating(histogram_noise(budget, laplace)))
        assert (1 - 1e-12) * total < cost <= total


def test_the_kind_of_noise_follows_the_budget() -> None:
    pure, zcdp = Budget("pure", Fraction(1, 2)), Budget("zcdp", Fraction(1, 4))
    assert histogram_noise(pure) == Laplace(4.0)
    assert histogram_noise(zcdp) == Gaussian(2.0)
    assert histogram_noise(zcdp, laplace=True) == Laplace(2.0)
    spreads = [Fraction(1), Fraction(1, 2)]
    assert answers_noise(pure, spreads) == Laplace(3.0)
    assert answers_noise(zcdp, [Fraction(1)] * 8) == Gaussian(4.0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("beta", BETAS)
def test_a_radius_is_seldom_exceeded(scale: float, beta: float) -> None:
    reach = answer_radius(Laplace(scale), beta)
    assert laplace_tail(scale, math.floor(reach) + 1) <= beta * (1 + 1e-9)
    reach = answer_radius(Gaussian(scale), beta)
    assert gaussian_tail(scale, math.floor(reach) + 1) <= beta * (1 + 1e-9)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("beta", BETAS)
def test_a_radius_is_hardly_above_the_exact_one(scale: float, beta: float) -> None:
    assert answer_radius(Laplace(scale), beta) <= laplace_radius(scale, beta) + 1 + 1e-9
    if scale >= 1 and beta < 0.32:
        assert answer_radius(Gaussian(scale), beta) <= gaussian_radius(scale, beta) * (1 + 1e-6) + 1.5


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
@pytest.mark.parametrize("factor", [1.1, 2.0, 37.0])
def test_radii_scale(kind: type[Noise], factor: float) -> None:
    """Wider noise has a larger radius, by no more than the factor."""
    for scale in SCALES[:-1]:
        for beta in BETAS:
            before, after = answer_radius(kind(scale), beta), answer_radius(kind(factor * scale), beta)
            assert before <= after <= factor * before * (1 + 1e-12)
        before, after = (histogram_radius(kind(each), 500, 0.05) for each in (scale, factor * scale))
        assert before <= after <= factor * before * (1 + 1e-12)


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_radii_fall_with_beta(kind: type[Noise]) -> None:
    for scale in SCALES:
        radii = [answer_radius(kind(scale), beta) for beta in sorted(BETAS)]
        assert radii == sorted(radii, reverse=True)


@pytest.mark.parametrize("cells", [1, 2, 100, 10**6])
def test_the_histograms_rate_is_a_bound(cells: int) -> None:
    g = histogram_rate(cells)
    for epsilon in (1e-4, 0.1, 1.0, 10.0, 1000.0):
        for beta in (0.5, 0.3, 0.05, 1e-6, 1e-12):
            radius = histogram_radius(Laplace(2 / epsilon), cells, beta)
            assert radius <= g * math.log(1 / beta) / epsilon
    # And no smaller constant would do at beta = ½, for noise so narrow that it is hardly there.
    assert histogram_radius(Laplace(2 / 1e5), cells, 0.5) >= 0.99 * g * math.log(2) / 1e5


@pytest.mark.parametrize("queries", [1, 10, 10**5])
def test_the_answers_rate_is_a_bound(queries: int) -> None:
    g = answers_rate(queries, Fraction(queries))
    for epsilon in (1e-4, 1.0, 1000.0):
        for beta in (0.5, 0.05, 1e-12):
            assert answer_radius(Laplace(queries / epsilon), beta / queries) <= g * math.log(1 / beta) / epsilon
