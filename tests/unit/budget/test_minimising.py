"""What a minimisation costs, number by number, and what is refused for what reason."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import treering as tr
from treering.budget import minimising as module
from treering.budget.minimising import (
    gradient_sensitivity,
    lattice_size,
    loss_sensitivity,
    minimising,
    perturbation_sensitivity,
    solver_distance,
    solver_rate,
)
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import Descent, Net, Perturbation, Problem

SVM = Problem(HuberHinge(), 3, 1.0, 0.5)
SOLVED = Perturbation("laplace", 100.0, 2.0**-20, 200)


def test_output_perturbation_costs_its_sensitivity_over_its_noise() -> None:
    """Δ₂ = 2L/(λn) + 2r; L1: √d·Δ₂/h + d, L2: Δ₂/h + √d."""
    moves = perturbation_sensitivity(SVM, SOLVED, 1000)
    assert moves == pytest.approx(2 / (0.5 * 1000) + 2 * solver_distance(SVM, SOLVED), rel=1e-9)
    assert moves == pytest.approx(0.004, rel=1e-6)
    pure = minimising(SVM, SOLVED, 1000)
    assert pure.epsilon is not None
    assert float(pure.epsilon) == pytest.approx((math.sqrt(3) * moves * 2**20 + 3) / 100, rel=1e-9)
    zcdp = minimising(SVM, Perturbation("gaussian", 100.0, 2.0**-20, 200), 1000)
    assert zcdp.epsilon is None
    assert float(zcdp.rho) == pytest.approx((moves * 2**20 + math.sqrt(3)) ** 2 / 20000, rel=1e-9)


def test_costs_are_rounded_up() -> None:
    moves = Fraction(perturbation_sensitivity(SVM, SOLVED, 1000)) * 2**20
    epsilon = minimising(SVM, SOLVED, 1000).epsilon
    assert epsilon is not None
    # (ε·scale − d)² ≥ 3·moves², without a root.
    assert (epsilon * 100 - 3) ** 2 >= 3 * moves**2


def test_a_ridge_adds_to_the_regularisation_and_fewer_passes_cost_more() -> None:
    ridged = Perturbation("laplace", 100.0, 2.0**-20, 200, ridge=0.5)
    assert perturbation_sensitivity(SVM, ridged, 1000) == pytest.approx(0.002, rel=1e-6)
    few = Perturbation("laplace", 100.0, 2.0**-20, 2)
    assert perturbation_sensitivity(SVM, few, 1000) > 10 * perturbation_sensitivity(SVM, SOLVED, 1000)


def test_the_solver_has_the_stated_rates() -> None:
    ridge = Perturbation("laplace", 1.0, 2.0**-20, 1, ridge=0.01)
    assert solver_rate(Problem(Squared(), 3), ridge) < 1e-10
    low, high = 1 / (4 * math.cosh(0.5) ** 2), 0.25
    expected = (high - low) / (high + low + 0.02)
    assert solver_rate(Problem(Logistic(), 3), ridge) == pytest.approx(expected, rel=1e-6)
    assert solver_rate(Problem(HuberHinge(0.5), 3), ridge) == pytest.approx(1 / 1.02, rel=1e-6)


def test_a_warm_start_counts_as_far_away_as_it_can_be() -> None:
    """It is a public model, and the minimiser may be anywhere."""
    far = Perturbation("laplace", 1.0, 2.0**-20, 3, start=(1.0, 0.0, 0.0))
    near = Perturbation("laplace", 1.0, 2.0**-20, 3)
    assert solver_distance(SVM, far) == pytest.approx(2 * solver_distance(SVM, near), rel=1e-6)


@pytest.mark.parametrize(("radius", "dimension"), [(1.0, 3), (3.0, 3), (0.25, 40)])
def test_after_many_passes_rounding_is_left(radius: float, dimension: int) -> None:
    """e ≤ 2u·(B + 100d²)·(L + T(R+2)), over λ(1−q): never less, and no more than its own rounding above that."""
    problem = Problem(HuberHinge(), dimension, radius, 0.5)
    method = Perturbation("laplace", 1.0, 2.0**-20, 10_000)
    steep, rate = Fraction(problem.loss.smoothness(radius)) + Fraction(1, 2), Fraction(solver_rate(problem, method))
    error = (
        Fraction(2, 2**53) * (4096 + 100 * dimension**2) * (Fraction(problem.lipschitz) + steep * Fraction(radius + 2))
    )
    bound = error / (Fraction(1, 2) * (1 - rate))
    assert bound <= Fraction(solver_distance(problem, method)) <= bound * (1 + Fraction(1, 2**39))


def test_descent_costs_its_steps() -> None:
    method = Descent("averaged", 7, 10.0)
    assert gradient_sensitivity(SVM, method) == 2
    assert minimising(SVM, method, 5).rho == 7 * Fraction(4, 200)
    assert minimising(SVM, method, 5).epsilon is None
    logistic = Problem(Logistic(), 3)
    assert 0 <= 2 * logistic.lipschitz - gradient_sensitivity(logistic, method) < 4 / 2**16


def test_a_net_costs_twice_the_range_of_the_loss_over_its_scale() -> None:
    median = Problem(Distance(), 2, 0.5)
    method = Net(0.25, 10.0)
    assert float(loss_sensitivity(median, method)) == pytest.approx(1.0, rel=1e-5)
    cost = minimising(median, method, 5)
    assert cost.epsilon == 2 * loss_sensitivity(median, method) / 10
    assert cost.rho == cost.epsilon**2 / 8


@pytest.mark.parametrize(
    ("problem", "method", "match"),
    [
        (Problem(Logistic(), 2), SOLVED, "strongly convex"),
        (Problem(Distance(), 2, 1.0, 1.0), SOLVED, "not smooth"),
        (Problem(Distance(), 2), Descent("accelerated", 3, 1.0), "smooth"),
        (Problem(Logistic(), 2), Descent("strong", 3, 1.0), "regularisation"),
        (Problem(Logistic(), 4), Net(0.5, 1.0), "output perturbation, or noisy descent"),
        (Problem(Logistic(), 3), Net(0.001, 1.0), "too fine"),
    ],
)
def test_what_a_method_cannot_do_is_refused(problem: Problem, method: Perturbation | Descent | Net, match: str) -> None:
    with pytest.raises(tr.ParameterError, match=match):
        minimising(problem, method, 100)


def test_a_net_of_the_most_dimensions_and_candidates_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more points than 64 times as many as there may be candidates: the ball is a small part of its cube."""
    method = Net(0.5, 1.0)
    problem = Problem(Logistic(), method.most_dimensions)
    points = lattice_size(problem, method)
    for most, possible in ((math.ceil(points / 64), True), (math.ceil(points / 64) - 1, False)):
        monkeypatch.setattr(module, "MOST_CANDIDATES", most)
        if possible:
            assert minimising(problem, method, 1).epsilon is not None
        else:
            with pytest.raises(tr.ParameterError, match="too fine"):
                minimising(problem, method, 1)


def test_one_entry_is_enough() -> None:
    assert minimising(SVM, SOLVED, 1).epsilon is not None


def test_no_entries_give_no_risk() -> None:
    with pytest.raises(tr.GuaranteeError, match="no entries"):
        minimising(SVM, SOLVED, 0)


@pytest.mark.parametrize(("dimension", "ridge"), [(100, 2.0**-39), (1, 2.0**-32), (1, 2.0**-36), (300, 2.0**-31)])
def test_a_regularisation_that_rounding_swamps_is_refused(dimension: int, ridge: float) -> None:
    """At a rate of 1 the solver's distance, and with it the sensitivity, would have no bound; above, a negative one."""
    with pytest.raises(tr.GuaranteeError, match="larger"):
        solver_rate(Problem(HuberHinge(), dimension), Perturbation("laplace", 1.0, 2.0**-20, 1, ridge=ridge))


@pytest.mark.parametrize("dimension", [1, 20])
def test_no_rate_is_so_near_one_that_rounding_decides(dimension: int) -> None:
    """Whatever the regularisation, down to the least that is accepted, 1 − q is known to six digits."""

    def rate(ridge: float) -> float:
        return solver_rate(Problem(HuberHinge(), dimension), Perturbation("laplace", 1.0, 2.0**-20, 1, ridge=ridge))

    refused, accepted = 2.0**-39, 1.0
    for _ in range(80):
        middle = (refused + accepted) / 2
        try:
            rate(middle)
        except tr.GuaranteeError:
            refused = middle
        else:
            accepted = middle
    assert accepted == pytest.approx(refused)
    assert 0.999 < rate(accepted) <= 1 - 2.0**-31
