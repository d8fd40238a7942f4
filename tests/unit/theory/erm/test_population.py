"""What the risk on the data says about the risk on the population."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from treering.domain.loss import Logistic, Squared
from treering.domain.problem import Problem
from treering.errors import GuaranteeError, ParameterError
from treering.theory import erm

PROBLEM = Problem(Logistic(), dimension=3, radius=2.0, regularisation=0.1)
TINY = st.floats(0, 1)


@given(TINY, st.floats(0.1, 10), st.floats(0.01, 2), st.integers(1, 10**9), st.floats(0.001, 0.999))
def test_the_formula_is_the_theorems(risk: float, lipschitz: float, convexity: float, size: int, gamma: float) -> None:
    square = lipschitz**2 / convexity
    expected = math.sqrt(2 * square * risk) + 4 * square / (gamma * size)
    assert erm.excess_risk(risk, lipschitz, convexity, size, gamma) == pytest.approx(expected, rel=1e-12)


@given(TINY, st.integers(1, 10**9), st.floats(0.001, 0.999))
def test_ours_is_never_above_the_papers(risk: float, size: int, gamma: float) -> None:
    ours, papers = (erm.population_bound(PROBLEM, risk, size, gamma, profile=each) for each in ("tight", "paper"))
    assert ours <= papers * (1 + 1e-12)
    plain = erm.population_bound(PROBLEM, risk, size, gamma, regularised=False)
    assert plain == pytest.approx(ours + 0.1 * 2.0**2 / 2)


def test_static_and_growing_bounds_carry_over() -> None:
    """Losses that are 1-Lipschitz on a ball of diameter 1, with Δ/2·‖θ‖²: the true risk of ERM's and ERMG's models."""
    problem = erm._plain(4, 1.0)
    for bound in (erm.static_bound, erm.growing_bound):
        small, large = (
            erm.population_bound(problem, bound(4, size, 1.0, 1e-9, strong_convexity=1.0), size, 0.05)
            for size in (10**6, 10**8)
        )
        assert large < 0.7 * small
        assert large < 0.02


def squares(seed: int, size: int) -> tuple[float, float]:
    """Ridge regression of y on one coordinate: the excess true risk of the minimiser, and (i) for a model near it.

    Loss ½(xθ − y)² with |x|, |y| ≤ 1 is 2-Lipschitz for |θ| ≤ 1.
    """
    generator = np.random.default_rng(seed)
    x = generator.choice([-1.0, 1.0], size)
    y = np.where(generator.random(size) < 0.8, x, -x)
    added, square, product = 0.1, float(np.mean(x * x)), float(np.mean(x * y))

    def true(theta: float) -> float:
        return 0.5 * (theta**2 - 2 * theta * 0.6 + 1) + added / 2 * theta**2

    def empirical(theta: float) -> float:
        return 0.5 * (theta**2 * square - 2 * theta * product + float(np.mean(y * y))) + added / 2 * theta**2

    best, least = product / (square + added), true(0.6 / (1 + added))
    other = min(1.0, best + 0.1)
    gap = empirical(other) - empirical(best)
    lipschitz = 2 + added
    assert true(other) - true(best) <= lipschitz * math.sqrt(2 * gap / added)
    return true(best) - least, true(other) - least - lipschitz * math.sqrt(2 * gap / added)


def test_the_parts_of_the_proof_hold_on_samples() -> None:
    """(i) on every sample; (ii) in expectation: 2L²/(λn) is above the mean excess risk of the minimiser."""
    size = 50
    excesses = [squares(seed, size)[0] for seed in range(400)]
    assert min(excesses) >= 0
    assert np.mean(excesses) <= 2 * 2.0**2 / (0.1 * size)
    assert all(squares(seed, size)[1] <= 2 * 2.0**2 / (0.5 * 0.1 * size) for seed in range(50))


def test_a_set_far_from_the_origin_pays_for_its_distance() -> None:
    """Erratum E16: over [10, 11], of diameter 1, a regulariser of Δ/2·θ² moves the minimiser of |θ − 11|/10 to 10 where
    Δ = 0.02, and the loss alone is then worse by 0.1: far more than Δ/2·diameter² = 0.01, within Δ/2·max θ² = 1.21."""
    grid, added = np.linspace(10, 11, 1001), 0.02
    loss = np.abs(grid - 11) / 10
    chosen = int(np.argmin(loss + added / 2 * grid**2))
    worse = float(loss[chosen] - loss.min())
    assert added / 2 * 1.0**2 < worse <= added / 2 * 11.0**2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"empirical": -0.1}, "empirical"),
        ({"empirical": math.nan}, "empirical"),
        ({"size": 0}, "size"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": 1.0}, "gamma"),
        ({"profile": "loose"}, "profile"),
    ],
)
def test_bad_parameters_are_named(change: dict[str, Any], name: str) -> None:
    right: dict[str, Any] = {"problem": PROBLEM, "empirical": 0.1, "size": 100, "gamma": 0.05}
    erm.population_bound(**right)
    with pytest.raises(ParameterError, match=name):
        erm.population_bound(**(right | change))


def test_a_bound_needs_strong_convexity() -> None:
    with pytest.raises(GuaranteeError, match="regularisation above 0"):
        erm.population_bound(Problem(Squared(), dimension=2), 0.1, 100, 0.05)
