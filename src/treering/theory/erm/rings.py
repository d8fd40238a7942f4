"""Learning by rings: the minimiser for the rows of one ring, which has the whole of learning's budget.

Every row lies in one ring (a, b]. A model is learnt from the rows of one ring alone and costs those rows only, so every
ring has the whole budget, for ever (``budget/rows.py``). What is minimised is the risk on the ring's own rows: the
bounds of `treering.theory.erm.steps` hold with n their number.

*How many steps.* Bounds that hold with high probability charge the noise of every step along the diameter of the ball,
and would stop descent early. What runs is chosen by a bound on the *expected* excess risk, `expected_risk`; what is
stated is the bound with high probability for what runs. Let s be the noise that a coordinate of the mean gradient would
have in a single step of the whole budget; K steps that share it have σ² = Ks². With the best step size the expected
excess risk is at most

    2MD²/(K(K+1)) + 2Ds·√(d(2K+1)/(6(K+1))) + 2Rb,

which falls to 2Ds√(d/3) + 2Rb as K grows: `plan_steps` takes the fewest steps that come within a third of that. There
is no other limit on them. It takes D to be half the radius: the least risk seldom lies on the sphere, and a start that
was learnt from earlier rows is nearer still. (D decides how long to descend; it is public, and the bound that is stated
does not depend on it.)

To stop in time is a pull towards the start: along a direction in which the ring's rows say nothing a model stays where
earlier rings have left it, but for noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from treering.budget.minimising import MOMENTS, gradient_sensitivity
from treering.budget.promise import Budget
from treering.domain.loss import Squared
from treering.domain.problem import MOST_STEPS, Descent, NoisyMoments, Problem, Refinement, Start
from treering.params import at_least, probability, whole
from treering.theory.erm.methods import Planned, per_unit, plan, root_above
from treering.theory.erm.steps import descent_bound, gradient_rounding, moments_bound
from treering.theory.search import least_whole

REACH: Final = 0.5
"""The distance from the start to the minimiser that steps are chosen for, as a part of the radius."""

NEAR: Final = 4 / 3
"""The fewest steps are taken whose expected excess risk is within this factor of the infimum."""

PULL: Final = 2.0
"""The ridge of noisy moments, in units of σ√d: about as far as their noise moves eigenvalues, up and down."""


ROUNDS: Final = 2
FITTED: Final = Fraction(1, 2)
COUNTED: Final = Fraction(1, 20)
"""Squared loss: the part of the budget for the moments, and that for counts of residuals in all rounds. The residuals
themselves have the rest."""

ALLOWED: Final = 1 / 16
"""How far the rounds may raise the objective of the noisy moments, as a part of the noise in the proven bound."""


def plan_ring(problem: Problem, size: int, budget: Budget, beta: float, *, start: Start = None) -> Planned:
    """The minimiser for a ring of ``size`` rows under the whole ``budget``, and its proven excess risk on them.

    ``beta`` is the probability that the bound fails, ``start`` a public model to begin with, such as that of the ring
    before. Under zCDP: noisy moments for squared loss, accelerated descent for another smooth loss. Otherwise the
    method with the least proven excess risk.

    >>> from treering.budget.promise import Promise
    >>> from treering.domain.loss import Logistic
    >>> planned = plan_ring(Problem(Logistic(), 13, 16.0), 10**6, Promise(1.0, 1e-6).budget, 0.05)
    >>> planned.alpha < 0.02
    True
    """
    whole(size, "size")
    if budget.kind == "zcdp" and type(problem.loss) is Squared:
        return _moments(problem, size, budget, beta, start)
    if budget.kind == "zcdp" and math.isfinite(problem.smoothness):
        return _descent(problem, size, budget, beta, start)
    return plan(problem, size, budget, beta, start=start)


def ring_share(beta: float, ring: int) -> float:
    """The share of ``beta`` of ring number 0, 1, …: 6/(π²(ring + 1)²) of it. All shares sum to ``beta``.

    >>> round(sum(ring_share(0.5, ring) for ring in range(10_000)), 3)
    0.5
    """
    return float(probability(beta, "beta")) * 6 / (math.pi * (ring + 1)) ** 2 * (1 - 2.0**-40)


# -- accelerated descent -----------------------------------------------------------------------------------------------


def _descent(problem: Problem, size: int, budget: Budget, beta: float, start: Start) -> Planned:
    number, step = plan_steps(problem, size, budget)
    draft = Descent("accelerated", number, 1.0, step, start)
    scale = at_least(gradient_sensitivity(problem, draft) * root_above(number / (2 * budget.total)))
    method = replace(draft, scale=scale)
    return Planned(method, descent_bound(problem, method, size, beta))


def plan_steps(problem: Problem, size: int, budget: Budget) -> tuple[int, float]:
    """The number of steps, and their size γ (see the module). Both are functions of public values.

    The step size for K steps is the one with the least `expected_risk`. That is A/γ + Bγ/(1−2Mγ), up to what does not
    depend on γ, with A = D²/2 and B = σ²dS/2, S = Σk²: least at γ = 1/(2M(1+w)), w = √(B/A)/(2M), where it is
    2MA + 2√(AB).

    >>> from treering.budget.promise import Promise
    >>> from treering.domain.loss import Logistic
    >>> problem, budget = Problem(Logistic(), 13, 16.0), Promise(1.0, 1e-6).budget
    >>> [plan_steps(problem, size, budget)[0] for size in (1_000, 16_000, 10**6)]
    [17, 70, 347]
    """
    single = float(gradient_sensitivity(problem, _DRAFT)) * per_unit(budget) / size
    d, far, smoothness = problem.dimension, problem.radius * REACH, problem.smoothness
    rounding = 2 * problem.radius * gradient_rounding(problem, _DRAFT.resolution)
    infimum = 2 * far * single * math.sqrt(d / 3) + rounding

    def near(number: int) -> bool:
        descended = 2 * smoothness * far**2 / (number * (number + 1))
        noise = 2 * far * single * math.sqrt(d * (2 * number + 1) / (6 * (number + 1)))
        return descended + noise + rounding <= NEAR * infimum

    number = least_whole(near, 1, MOST_STEPS)
    squares = number * (number + 1) * (2 * number + 1) / 6
    across = single * math.sqrt(number * d * squares) / (2 * smoothness * far)
    return number, 1 / (2 * smoothness * (1 + across))


_DRAFT: Final = Descent("accelerated", 1, 1.0)


def expected_risk(problem: Problem, method: Descent, size: int, distance: float) -> float:
    """A bound on the expected excess risk of accelerated descent with constant steps γ, on ``size`` entries.

    ``distance`` D is that of the start from a minimiser. The martingale in the proof of `Steps.accelerated` has mean 0,
    and E‖N_k‖² ≤ dσ², as the variance of discrete Gaussian noise of scale σ is at most σ² (Canonne, Kamath and Steinke
    2020, Corollary 9). So, with S = Σk²,

        E excess ≤ 2/(K(K+1))·(D²/(2γ) + γσ²dS/(2(1−2Mγ))) + 2Rb.
    """
    number, step, sigma = method.steps, method.step_size, method.scale / size
    squares = number * (number + 1) * (2 * number + 1) / 6
    noise = step * sigma**2 * problem.dimension * squares / (2 * (1 - 2 * problem.smoothness * step))
    rounding = 2 * problem.radius * gradient_rounding(problem, method.resolution)
    return 2 / (number * (number + 1)) * (distance**2 / (2 * step) + noise) + rounding


# -- noisy moments -----------------------------------------------------------------------------------------------------


def _moments(problem: Problem, size: int, budget: Budget, beta: float, start: Start) -> Planned:
    scale = at_least(root_above(MOMENTS / (2 * FITTED * budget.total)))
    ridge = PULL * scale / size * math.sqrt(problem.dimension)
    method = NoisyMoments(scale, ridge, start, _refinement(problem, size, budget, scale))
    return Planned(method, moments_bound(problem, method, size, beta))


def _refinement(problem: Problem, size: int, budget: Budget, scale: float) -> Refinement:
    """The rounds after the fit: what the moments leave of the budget, in equal parts."""
    errors = COUNTED * budget.total / ROUNDS
    slopes = (1 - FITTED - COUNTED) * budget.total / ROUNDS
    number = problem.dimension * (problem.dimension + 3) / 2
    noise = (problem.radius**2 + 2) / math.sqrt(2) * scale / size * math.sqrt(number)
    return Refinement(ROUNDS, at_least(root_above(1 / errors)), at_least(root_above(2 / slopes)), ALLOWED * noise)
