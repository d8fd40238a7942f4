"""Sensitivities of minimisers, by the formulas of the docstrings written down again; roundings are part of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from treering.budget.cost import Cost
from treering.budget.minimising import (
    gradient_sensitivity,
    largest_gradient,
    lattice_size,
    loss_sensitivity,
    loss_width,
    minimising,
    perturbation_sensitivity,
    solver_convexity,
    solver_distance,
    solver_rate,
)
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Squared
from treering.domain.problem import Descent, Net, NoisyMoments, Perturbation, Problem, Refinement
from treering.errors import ParameterError

UP = 1 + 2.0**-40
EXACT = 1e-14
"""Below the roundings of 2^-40: a test sees whether they are there."""
PROBLEMS = [
    (Problem(Logistic(), 3, 1.0, 0.25), 0.0),
    (Problem(Logistic(), 5, 2.0, 0.0), 0.125),
    (Problem(HuberHinge(0.5), 2, 1.5, 0.5), 0.25),
    (Problem(Squared(), 4, 1.0, 0.25), 0.5),
]


@pytest.mark.parametrize(("problem", "ridge"), PROBLEMS)
@pytest.mark.parametrize("start", [None, (0.3, 0.4), (30.0, 40.0)])
def test_how_far_the_solver_is_from_the_minimiser(
    problem: Problem, ridge: float, start: tuple[float, ...] | None
) -> None:
    given = None if start is None else (*start, *([0.0] * (problem.dimension - 2)))
    method = Perturbation("gaussian", 7.0, 2.0**-10, 9, ridge=ridge, start=given)
    convexity = problem.regularisation + ridge
    assert solver_convexity(problem, method) == convexity
    steep, flat = problem.loss.smoothness(problem.radius), problem.loss.flatness(problem.radius)
    rate = (steep - flat) / (steep + flat + 2 * convexity) * UP
    rate += 10 * problem.dimension**2 * 2.0**-52 * (steep + convexity) / convexity
    assert solver_rate(problem, method) == pytest.approx(rate, rel=EXACT, abs=0)
    far = problem.radius + (0.0 if start is None else min(problem.radius, math.hypot(*start)))
    top = steep + convexity
    rounding = 2.0**-52 * (4096 + 100 * problem.dimension**2) * (problem.lipschitz + top * (problem.radius + 2))
    distance = rate**9 * math.sqrt(top / convexity) * far + rounding / (convexity * (1 - rate))
    assert solver_distance(problem, method) == pytest.approx(distance * UP, rel=EXACT * 100, abs=0)
    moves = (2 * problem.lipschitz / (convexity * 50) + 2 * solver_distance(problem, method)) * UP
    assert perturbation_sensitivity(problem, method, 50) == pytest.approx(moves, rel=EXACT, abs=0)
    cost = minimising(problem, method, 50)
    steps = Fraction(perturbation_sensitivity(problem, method, 50)) * 1024
    root = Fraction(math.sqrt(problem.dimension) * UP)
    assert cost == Cost(None, (steps + root) ** 2 / (2 * Fraction(7) ** 2))
    pure = minimising(problem, Perturbation("laplace", 7.0, 2.0**-10, 9, ridge=ridge, start=given), 50)
    assert pure.epsilon == (root * steps + problem.dimension) / 7


def test_the_least_convexity() -> None:
    """2^-40 is enough, and less is not."""
    problem = Problem(Squared(), 1)
    assert solver_convexity(problem, Perturbation("laplace", 1.0, 1.0, 1, ridge=2.0**-40)) == 2.0**-40
    with pytest.raises(ParameterError, match="ridge"):
        solver_convexity(problem, Perturbation("laplace", 1.0, 1.0, 1, ridge=2.0**-41))


@pytest.mark.parametrize("problem", [Problem(Logistic(), 3), Problem(HuberHinge(), 3), Problem(Distance(), 2, 0.001)])
@pytest.mark.parametrize("resolution", [1, 2**16])
def test_gradients_are_clipped_to_a_whole_number(problem: Problem, resolution: int) -> None:
    method = Descent("averaged", 5, 10.0, resolution=resolution)
    largest = max(1, math.floor(problem.lipschitz * resolution))
    assert largest_gradient(problem, method) == largest
    sensitivity = Fraction(2 * largest, resolution)
    assert gradient_sensitivity(problem, method) == sensitivity
    assert minimising(problem, method, 9) == Cost(None, 5 * sensitivity**2 / 200)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(Distance(), 2, 0.5),
        Problem(HuberDistance(), 1, 2.0),
        Problem(Logistic(), 3),
        Problem(Logistic(), 3, 1.25),
    ],
)
def test_the_width_of_a_range_of_losses(problem: Problem) -> None:
    """Six units are for roundings."""
    method = Net(0.5, 10.0)
    low, high = (float(each[0]) for each in problem.loss.range(np.array([problem.radius])))
    width = math.ceil((high - low) * method.resolution * UP) + 6
    assert loss_width(problem, method) == width
    assert loss_sensitivity(problem, method) == Fraction(width, method.resolution)
    side = math.floor((problem.radius + 0.5 * math.sqrt(problem.dimension) / 2) / 0.5)
    assert lattice_size(problem, method) == (2 * side + 1) ** problem.dimension
    cost = minimising(problem, method, 4)
    assert cost.epsilon == 2 * Fraction(width, method.resolution) / 10


@pytest.mark.parametrize("refinement", [None, Refinement(3, 5.0, 7.0, 0.01)])
def test_moments_and_their_refinement(refinement: Refinement | None) -> None:
    """9/2 for the moments; for each round two counts that move by one, and a sum that moves by two clips."""
    cost = minimising(Problem(Squared(), 3), NoisyMoments(11.0, refinement=refinement), 8)
    rounds = Fraction(0) if refinement is None else 3 * (Fraction(2, 2 * 25) + Fraction(4, 2 * 49))
    assert cost == Cost(None, Fraction(9, 2) / (2 * 121) + rounds)
