"""Excess risk stays within its bound, run after run, for every minimiser and loss; and bounds are not idle.

Bounds are at beta = 1e-9, so that a run fails by chance less than once in 1e6 suites of a thousand runs.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from support.learning import points
from treering.arrays import Floats
from treering.budget.promise import Budget, Promise
from treering.domain.loss import Distance, HuberHinge, Logistic, Loss, Squared
from treering.domain.problem import FEATURE_UNIT, Minimise, Problem
from treering.theory import erm
from treering.theory.erm.methods import possible

BETA = 1e-9
RUNS = 8
PROBLEMS = {
    "logistic": Problem(Logistic(), 5, 1.0),
    "ridge": Problem(Squared(), 3, 1.0, 0.3),
    "svm": Problem(HuberHinge(), 4, 1.0, 1.2),
    "median": Problem(Distance(), 2, 1.0),
}


def stream(loss: Loss, rows: int, dimension: int) -> tuple[Floats, Floats]:
    """Points with a direction to be learnt."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, dimension)) / np.sqrt(dimension) / 1.5
    features[:, 0] += 0.3
    features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    aim = features @ np.linspace(1, 2, dimension)
    if loss.labels == "numbers":
        return features, np.clip(aim + generator.normal(size=rows) / 3, -1, 1)
    return features, np.where(generator.random(rows) < 1 / (1 + np.exp(-2 * aim)), 1.0, -1.0)


def least(problem: Problem, features: Floats, labels: Floats) -> float:
    """The least risk, to about 1e-6: accelerated descent without noise."""
    average = theta = np.zeros(problem.dimension)
    step = 1 / (2 * min(problem.smoothness, 50.0))
    for k in range(1, 800):
        weight = 2 / (k + 1)
        slope = problem.gradient((1 - weight) * average + weight * theta, features, labels)
        theta = problem.project(theta - k * step * slope)
        average = (1 - weight) * average + weight * theta
    return problem.risk(average, features, labels)


@pytest.mark.parametrize("budget", [Budget("pure", Fraction(1)), Promise(1.0, 1e-6).budget], ids=["pure", "zcdp"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_excess_risk_is_within_its_bound(name: str, budget: Budget) -> None:
    problem = PROBLEMS[name]
    features, labels = stream(problem.loss, 3000, problem.dimension)
    database = points(features, labels, problem.loss)
    held = database._points.entries()
    entries = held.grid / FEATURE_UNIT, held.labels
    best = least(problem, *entries)
    plans = possible(problem, 3000, budget, BETA, passes=60)
    assert plans
    for planned in plans:
        request = Minimise(problem, planned.method)
        risks = [
            problem.risk(np.array(database.open_gate(budget).minimise(request).theta), *entries) for _ in range(RUNS)
        ]
        assert max(risks) - best <= planned.alpha + 1e-5
        assert min(risks) >= best - 1e-5


def test_a_model_is_learnt() -> None:
    """Not only within a bound: at this size every zCDP plan removes most of what there is to learn."""
    problem = PROBLEMS["logistic"]
    features, labels = stream(problem.loss, 20_000, 5)
    database = points(features, labels, problem.loss)
    best = least(problem, features, labels)
    nothing = problem.risk(np.zeros(5), features, labels) - best
    budget = Promise(1.0, 1e-6).budget
    for planned in possible(problem, 20_000, budget, 0.05, passes=60):
        theta = np.array(database.open_gate(budget).minimise(Minimise(problem, planned.method)).theta)
        assert problem.risk(theta, features, labels) - best < nothing / 2


def test_a_warm_start_helps_a_short_descent() -> None:
    """Three steps from the last model reach less risk than three from nowhere: the noise is small here."""
    problem = Problem(Logistic(), 5, 3.0)
    features, labels = stream(problem.loss, 20_000, 5)
    database = points(features, labels, problem.loss)
    budget = Promise(1.0, 1e-6).budget
    first = erm.plan_descent(problem, 20_000, budget, 0.05, passes=40)
    theta = database.open_gate(budget).minimise(Minimise(problem, first.method)).theta
    risks = []
    for start in (None, theta):
        method = erm.plan_descent(problem, 20_000, budget, 0.05, passes=3, start=start).method
        released = database.open_gate(budget).minimise(Minimise(problem, method)).theta
        risks.append(problem.risk(np.array(released), features, labels))
    assert risks[1] < risks[0]
