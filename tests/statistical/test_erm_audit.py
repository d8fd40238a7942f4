"""Every private minimiser passes an audit on adversarial neighbours, and the audits are not blind.

In most pairs the entries pull each way in equal numbers, in the straight part of the loss, and replacing one moves what
is noised by all of its sensitivity. Each case names the promise and, where it is known, the two probabilities of an
event from which the audit must find more than a fifth of the promise. ``support.audits`` states the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import treering as tr
from support.audits import ATTEMPTS, CONFIDENCE, ERM_AUDITS, catch_rate
from support.goodness import exponential_masses
from support.learning import points
from treering.audit import lower_bound
from treering.budget.convert import epsilon_of
from treering.budget.minimising import minimising
from treering.budget.promise import Budget
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import CellFeatures, Descent, Minimise, Net, Perturbation, Problem
from treering.params import at_least
from treering.protocols import Database
from treering.theory.tails import gaussian_tail, laplace_upper
from treering.trusted.learning.minimisers import candidates, summed_losses
from treering.trusted.learning.points import Points

SHARE = 0.2
MISS = 1e-6
DELTA = 0.01
SIZE = 4


@dataclass(frozen=True)
class Case:
    """One audit: two neighbouring databases, a request, what is looked at, and the event that it should find."""

    pair: tuple[Database, Database]
    request: Minimise
    budget: Budget
    look: Callable[[tuple[float, ...]], Hashable]
    event: tuple[float, float] | None
    samples: int = 3000

    @property
    def delta(self) -> float:
        return 0.0 if self.budget.kind == "pure" else DELTA

    @property
    def epsilon(self) -> float:
        return float(self.budget.total) if self.budget.kind == "pure" else epsilon_of(self.budget.total, DELTA)

    def run(self, database: Database) -> Hashable:
        gate = database.open_gate(self.budget)
        outcome = self.look(gate.minimise(self.request).theta)
        assert gate.spent > self.budget.total * Fraction(99, 100)
        return outcome


PURE = Budget("pure", Fraction(3))
ZCDP = Budget("zcdp", Fraction(2))

PULLING = points(np.ones((SIZE, 1)), np.array([1.0, -1.0, 1.0, -1.0]), HuberHinge())
PULLED = points(np.ones((SIZE, 1)), np.array([1.0, -1.0, 1.0, 1.0]), HuberHinge())
HINGE = (PULLING, PULLED)
"""The mean gradient at 0 is 0 on the left and −½ on the right."""


def perturbed(noise: str, budget: Budget, problem: Problem, size: int = SIZE) -> Perturbation:
    """Noise that spends the budget."""
    draft = Perturbation("laplace" if noise == "laplace" else "gaussian", 1.0, 2.0**-12, 10)
    price = budget.amount(minimising(problem, draft, size)) / budget.total
    return replace(draft, scale=at_least(price if noise == "laplace" else Fraction(math.sqrt(price) * (1 + 1e-12))))


def hinge_perturbed(noise: str, budget: Budget) -> Case:
    """The minimiser is 0 on the left and 1/(2λ) = ¼ on the right; the event: the release is at least ¼."""
    problem = Problem(HuberHinge(), 1, 1.0, 2.0)
    method = perturbed(noise, budget, problem)
    steps = 2**10
    tail = laplace_upper(method.scale, steps) if noise == "laplace" else gaussian_tail(method.scale, steps) / 2
    return Case(HINGE, Minimise(problem, method), budget, lambda theta: theta[0] >= 0.25 - 2.0**-20, (0.49, tail))


def ridge_perturbed() -> Case:
    """Squared loss, from exact moments: the minimiser moves by 2/(n(1+λ)) = 1/82."""
    budget = Budget("pure", Fraction(7))
    problem = Problem(Squared(), 1, 1.0, 40.0)
    method = perturbed("laplace", budget, problem)
    features = np.ones((SIZE, 1))
    left = points(features, np.array([1.0, -1.0, 1.0, -1.0]), Squared())
    right = points(features, np.array([1.0, -1.0, 1.0, 1.0]), Squared())
    moved = math.floor(1 / 82 / method.pitch)
    event = (0.49, laplace_upper(method.scale, moved - 2))
    return Case(
        (left, right), Minimise(problem, method), budget, lambda theta: theta[0] >= 1 / 82 - 2 * method.pitch, event
    )


def descending(schedule: str, steps: int) -> Descent:
    scale = at_least(Fraction(math.sqrt(2 * steps / (2 * float(ZCDP.total))) * math.sqrt(2) * (1 + 1e-12)))
    if schedule == "accelerated":
        return Descent("accelerated", steps, scale, 0.2)
    return Descent("averaged", steps, scale, 0.5)


def hinge_descended() -> Case:
    """One step: the noisy sum is at most −2, where it is −2 on the right without noise and 0 on the left."""
    method = descending("averaged", 1)
    tail = math.erfc(2 / method.scale / math.sqrt(2)) / 2
    limit = 0.5 * 2 / SIZE / 2 * (1 - 1e-9)
    return Case(HINGE, Minimise(Problem(HuberHinge(), 1), method), ZCDP, lambda theta: theta[0] >= limit, (0.49, tail))


def hinge_accelerated() -> Case:
    method = descending("accelerated", 3)
    return Case(HINGE, Minimise(Problem(HuberHinge(), 1), method), ZCDP, lambda theta: round(theta[0], 1), None, 3000)


def median_descended() -> Case:
    method = descending("averaged", 1)
    tail = math.erfc(2 / method.scale / math.sqrt(2)) / 2
    ends = np.array([[1.0, 0.0], [-1.0, 0.0]] * 2)
    other = ends.copy()
    other[-1] = (1.0, 0.0)
    pair = (points(ends, None, Distance()), points(other, None, Distance()))
    limit = 0.5 * 2 / SIZE / 2 * 0.999
    return Case(pair, Minimise(Problem(Distance(), 2), method), ZCDP, lambda theta: theta[0] >= limit, (0.45, tail))


def median_net() -> Case:
    """Both points at one end, or one at each. All candidates are looked at; the event: those right of 0."""
    ends = np.array([[-1.0], [-1.0]])
    other = np.array([[-1.0], [1.0]])
    pair = (points(ends, None, Distance()), points(other, None, Distance()))
    problem = Problem(Distance(), 1)
    method = spent_on(problem, Net(0.5, 1.0))
    likely, unlikely = (right_half(problem, method, side._points) for side in reversed(pair))
    return Case(pair, Minimise(problem, method), PURE, lambda theta: theta, (likely, unlikely), 4000)


def spent_on(problem: Problem, draft: Net) -> Net:
    price = minimising(problem, draft, 2).epsilon
    assert price is not None
    return replace(draft, scale=at_least(price / PURE.total))


def right_half(problem: Problem, method: Net, store: Points) -> float:
    models = candidates(problem, method)
    losses = summed_losses(problem, method, store.entries(), models)
    masses = exponential_masses([-loss for loss in losses], method.scale * method.resolution)
    return float(masses[models[:, 0] > 0].sum())


SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "late": tr.categories("n", "y")})
CELLS = CellFeatures(SCHEMA, ["origin"], [[1.0], [-1.0]], tr.parse("late = 'y'", SCHEMA))


def cells_net() -> Case:
    """Logistic loss over counts: two rows of one origin, both on time or one of them late."""
    pair = (tr.GrowingDatabase(SCHEMA), tr.GrowingDatabase(SCHEMA))
    for side, rows in zip(pair, ([0, 0], [0, 1]), strict=True):
        side.append_cells(rows)
    problem = Problem(Logistic(), 1, 2.0)
    method = spent_on(problem, Net(2.0, 1.0))
    same = [(np.ones((2, 1)), np.array(labels)) for labels in ([-1.0, -1.0], [-1.0, 1.0])]
    unlikely, likely = (right_half(problem, method, points(*each, Logistic())._points) for each in same)
    return Case(pair, Minimise(problem, method, CELLS), PURE, lambda theta: theta, (likely, unlikely), 4000)


CASES: dict[str, Callable[[], Case]] = {
    "output perturbation, Laplace": lambda: hinge_perturbed("laplace", PURE),
    "output perturbation, Gaussian": lambda: hinge_perturbed("gaussian", ZCDP),
    "output perturbation, moments": ridge_perturbed,
    "descent": hinge_descended,
    "accelerated descent": hinge_accelerated,
    "descent, median": median_descended,
    "net, median": median_net,
    "net, cells": cells_net,
}


@pytest.mark.parametrize("name", CASES)
def test_a_minimiser_keeps_its_promise_and_the_audit_sees_a_part_of_it(name: str) -> None:
    case = CASES[name]()
    found = lower_bound(case.run, *case.pair, case.samples, CONFIDENCE, case.delta)
    assert found <= case.epsilon
    if case.event is not None:
        assert catch_rate(*case.event, case.samples // 2, SHARE * case.epsilon, case.delta) > 1 - MISS
        assert found > SHARE * case.epsilon


def test_half_of_the_noise_is_caught() -> None:
    """The same run under half of the noise, for the same claim: this audit would not miss a wrong sensitivity."""
    case = hinge_perturbed("laplace", Budget("pure", Fraction(3)))
    claimed = Fraction(3, 2)
    assert case.event is not None
    likely, unlikely = case.event
    assert (1 - catch_rate(likely, unlikely, case.samples // 2, float(claimed))) ** ATTEMPTS < MISS
    assert caught_here(case, float(claimed))


def caught_here(case: Case, claimed: float) -> bool:
    return any(lower_bound(case.run, *case.pair, case.samples, CONFIDENCE) > claimed for _ in range(ATTEMPTS))


def test_the_audits_are_counted() -> None:
    assert len(CASES) <= ERM_AUDITS
