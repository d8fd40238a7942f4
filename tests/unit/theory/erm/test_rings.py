"""The minimiser for a ring: what it costs, how many steps it takes, and what is proven of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from support.learning import points
from treering.budget.minimising import minimising
from treering.budget.promise import Budget, Promise
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Squared
from treering.domain.problem import FEATURE_UNIT, Descent, Minimise, Net, NoisyMoments, Perturbation, Problem
from treering.errors import ParameterError
from treering.theory.erm.rings import NEAR, REACH, expected_risk, plan_ring, plan_steps, ring_share
from treering.theory.erm.steps import bound, gradient_rounding, moments_bound

ZCDP = Promise(1.0, 1e-6).budget
PROBLEMS = {
    "logistic": Problem(Logistic(), 13, 16.0),
    "svm": Problem(HuberHinge(), 5, 16.0, 0.01),
    "ridge": Problem(Squared(), 9, 4.0),
    "rounded median": Problem(HuberDistance(), 3, 1.0),
    "median": Problem(Distance(), 3, 1.0),
}
each = pytest.mark.parametrize("name", PROBLEMS)


@each
@pytest.mark.parametrize("budget", [ZCDP, Budget("zcdp", Fraction(5)), Budget("pure", Fraction(1))], ids=str)
@pytest.mark.parametrize("size", [100, 20_000])
def test_a_plan_spends_the_budget_and_states_its_bound(name: str, budget: Budget, size: int) -> None:
    problem = PROBLEMS[name]
    planned = plan_ring(problem, size, budget, 0.01)
    cost = budget.amount(minimising(problem, planned.method, size))
    assert budget.total * (1 - Fraction(1, 10**6)) <= cost <= budget.total
    assert planned.alpha >= bound(problem, planned.method, size, 0.01) * (1 - 1e-12) > 0


def test_each_loss_has_its_method() -> None:
    kinds = {name: type(plan_ring(problem, 1000, ZCDP, 0.05).method) for name, problem in PROBLEMS.items()}
    assert kinds == {
        "logistic": Descent,
        "svm": Descent,
        "ridge": NoisyMoments,
        "rounded median": Descent,
        "median": kinds["median"],
    }
    pure = Budget("pure", Fraction(1))
    assert isinstance(plan_ring(PROBLEMS["ridge"], 1000, pure, 0.05).method, Perturbation)
    assert isinstance(plan_ring(PROBLEMS["rounded median"], 1000, pure, 0.05).method, Net)


@each
def test_bounds_fall_with_the_rows(name: str) -> None:
    alphas = [plan_ring(PROBLEMS[name], size, ZCDP, 0.05).alpha for size in (1000, 4000, 16_000, 64_000)]
    assert alphas == sorted(alphas, reverse=True)
    # Without smoothness a bound waits for steps as well as for rows.
    assert alphas[-1] < alphas[0] / (1.5 if name == "median" else 4)


@pytest.mark.parametrize("name", ["logistic", "svm", "ridge", "rounded median"])
def test_a_public_model_may_be_the_start(name: str) -> None:
    problem = PROBLEMS[name]
    start = (problem.radius / 2, *[0.0] * (problem.dimension - 1))
    cold, warm = (plan_ring(problem, 10_000, ZCDP, 0.05, start=each) for each in (None, start))
    assert not isinstance(warm.method, Net)
    assert warm.method.start == start
    assert cold.alpha < warm.alpha
    assert replace(warm.method, start=None) == cold.method


# -- how many steps ----------------------------------------------------------------------------------------------------


def drafted(problem: Problem, number: int, step: float) -> Descent:
    """So many steps under the budget, with as much noise as they cost, but for rounding."""
    scale = 2 * problem.lipschitz * math.sqrt(number / (2 * float(ZCDP.total)))
    return Descent("accelerated", number, scale, step)


@pytest.mark.parametrize("name", ["logistic", "svm", "rounded median"])
@pytest.mark.parametrize("size", [500, 16_000, 10**6])
def test_the_fewest_steps_near_the_least_expected_risk(name: str, size: int) -> None:
    """By a search over step sizes, and numbers up to many times as many."""
    problem = PROBLEMS[name]
    number, step = plan_steps(problem, size, ZCDP)
    far = problem.radius * REACH
    sizes = np.geomspace(1e-10, 1 - 1e-6, 4000) / (2 * problem.smoothness)

    def least(steps: int) -> float:
        return min(expected_risk(problem, drafted(problem, steps, each), size, far) for each in sizes)

    chosen = expected_risk(problem, drafted(problem, number, step), size, far)
    assert chosen == pytest.approx(least(number), rel=1e-3)
    best = least(max(20_000, 100 * number))
    assert chosen <= NEAR * best * 1.01
    if number > 1:
        assert least(number - 1) > NEAR * best * 0.99


def test_steps_have_no_limit_but_what_rounding_leaves() -> None:
    problem, rich = PROBLEMS["logistic"], Budget("zcdp", Fraction(10**12))
    numbers = [plan_steps(problem, size, rich)[0] for size in (10**3, 10**6, 10**9)]
    assert numbers[0] <= numbers[1] <= numbers[2] <= numbers[0] + 1
    floor = 2 * problem.radius * gradient_rounding(problem, 2**16)
    assert numbers[-1] == pytest.approx(math.sqrt(2 * problem.smoothness * 64 / (floor / 3)), rel=0.01)
    assert plan_steps(problem, 4 * 10**4, ZCDP)[0] > 1.5 * plan_steps(problem, 10**4, ZCDP)[0]


def test_all_rings_share_beta() -> None:
    shares = [ring_share(0.05, ring) for ring in range(100_000)]
    assert sum(shares) < 0.05
    assert sum(shares) == pytest.approx(0.05, rel=1e-4)
    assert shares == sorted(shares, reverse=True)
    for bad in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="beta"):
            ring_share(bad, 0)


@pytest.mark.parametrize("bad", [0, -1, 1.5, None])
def test_a_ring_has_rows(bad: int) -> None:
    with pytest.raises(ParameterError, match="size"):
        plan_ring(PROBLEMS["logistic"], bad, ZCDP, 0.05)


# -- the bound of noisy moments ----------------------------------------------------------------------------------------


def test_the_bound_of_noisy_moments_is_the_formula() -> None:
    problem, method = Problem(Squared(), 2, 1.0), NoisyMoments(30.0, 0.25, (0.6, 0.8))
    x, m = math.log(100), 5
    noise = 30 / 1000 * math.sqrt(1.004 * (m + 2 * math.sqrt(m * x) + 2 * x))
    assert moments_bound(problem, method, 1000, 0.01) == pytest.approx(3 / math.sqrt(2) * noise + 0.125 * 4)


def test_no_noise_of_that_size_makes_the_excess_larger_than_the_bound() -> None:
    """Against moments that are moved on purpose, by as much as the bound allows for and in bad directions."""
    generator = np.random.default_rng(4)
    features = generator.normal(size=(400, 3)) / 4
    labels = np.clip(features @ [1.0, -0.5, 0.2] + generator.normal(size=400) / 5, -1, 1)
    database = points(features, labels, Squared())
    held = database._points.entries()
    entries = held.grid / FEATURE_UNIT, held.labels
    problem = Problem(Squared(), 3, 1.0)
    best = min(
        problem.risk(np.array(database.open_gate(Budget("zcdp", Fraction(10**9))).minimise(request).theta), *entries)
        for request in [Minimise(problem, NoisyMoments(2.0**-10))]
    )
    method = NoisyMoments(40.0, 0.01)
    limit = moments_bound(problem, method, 400, 1e-9)
    risks = [
        problem.risk(np.array(database.open_gate(ZCDP).minimise(Minimise(problem, method)).theta), *entries) - best
        for _ in range(40)
    ]
    assert max(risks) <= limit
    assert max(risks) > limit / 50
