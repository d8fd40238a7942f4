"""BROKEN ON PURPOSE: learners that lose more than they claim. Never point one at real rows.

The negative controls of ERM and ERMG: output perturbation, the method with the longest proof; and those of ERMRings:
accelerated descent over rings of rows. They hold points that the auditor made up, in the open, and charge nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import count, pairwise
from typing import ClassVar, Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.minimising import minimising
from treering.domain.loss import HuberHinge
from treering.domain.problem import Descent, Minimise, Perturbation, Problem
from treering.noise import Gaussian
from treering.params import Number, at_least, exact
from treering.trusted.learning.minimisers import accelerated, gradient_sum, gradient_unit, minimum
from treering.trusted.learning.points import Points
from treering.trusted.noise import draw

_DRAFT: Final = Perturbation("laplace", 1.0, 2.0**-12, 10)


class _Learner:
    """A correct learner, unless its heir tampers with it: one model of some entries is the whole epsilon.

    The minimiser of a strongly convex problem, with Laplace noise for its whole sensitivity: what a replaced entry, the
    solver's tolerance and the grid can do.
    """

    sensitivity: ClassVar[Fraction] = Fraction(1)
    """How much of it the noise is made for."""

    def __init__(self, problem: Problem, features: Floats, labels: Floats, epsilon: Number) -> None:
        self._problem = problem
        self._points = Points(problem.dimension, problem.loss.labels)
        self._points.add_points(features, labels)
        self.method = _method(problem, self._points.size, exact(epsilon, "epsilon") / self.sensitivity)
        """How the model is made."""

    def release(self) -> tuple[float, ...]:
        """The model; one is the whole epsilon."""
        return minimum(Minimise(self._problem, self.method), self._points.entries())


class HonestLearner(_Learner):
    """NO DEFECT: what shows that an audit does not accuse everything."""


class HalfSensitivityLearner(_Learner):
    """DEFECT: noise for half of the sensitivity, L/(λn) in place of 2L/(λn).

    That is what adding or removing an entry does to the minimiser, a slip between two kinds of neighbours: a replaced
    entry loses up to 2ε.
    """

    sensitivity: ClassVar[Fraction] = Fraction(1, 2)


# -- learning by rings -------------------------------------------------------------------------------------------------


class _Rings:
    """A correct learner, unless its heir tampers with it: a model of each ring, and each is the whole rho.

    The rings are labels of the one point x = 1, in the straight part of the hinge: a gradient is minus the label at
    every model. A run releases minus the sum of the noisy sums of gradients, times `weights`·γ/n.
    """

    problem: ClassVar[Problem] = Problem(HuberHinge(), 1, 0.5)
    sensitivity: ClassVar[float] = 2.0
    """What the noise is made for."""
    weights: ClassVar[tuple[float, ...]] = (1.0, 4 / 3)
    """What each step counts: step j is j·γ long, and is in the last K + 1 − j models, averaged by 1, 2, …, K."""

    def __init__(self, rings: Sequence[Floats], rho: float) -> None:
        steps = len(self.weights)
        self.method = Descent("accelerated", steps, self.sensitivity * math.sqrt(steps / (2 * rho)), 0.02)
        """How a model is made."""
        self._labels = np.concatenate(rings)
        self._edges = np.cumsum([0, *(len(ring) for ring in rings)]).tolist()

    def release(self) -> list[float]:
        """The models, one for each ring."""
        return [self._model(*rows) for rows in pairwise(self._edges)]

    def _model(self, start: int, end: int) -> float:
        points = Points(1, "signs")
        points.add_points(np.ones((end - start, 1)), self._labels[start:end])
        entries, unit = points.entries(), gradient_unit(self.problem, self.method)
        steps = count(1)

        def slope(theta: Floats) -> Floats:
            exact = gradient_sum(self.problem, self.method, entries, theta)[0]
            return np.asarray((exact + self._noise(next(steps), unit)) / (unit * entries.size))

        return float(accelerated(self.problem, self.method, np.zeros(1), slope)[0])

    def _noise(self, step: int, unit: int) -> Ints:
        return draw(Gaussian(self.method.scale), unit, 1)


class HonestRings(_Rings):
    """NO DEFECT: what shows that an audit does not accuse everything."""


class OneGradientRings(_Rings):
    """DEFECT: noise for one gradient, where a replaced row moves two: half of the sensitivity, four times the rho."""

    sensitivity: ClassVar[float] = 1.0


class RepeatedRings(_Rings):
    """DEFECT: a ring is learnt together with all rings before it, each time with the whole budget: the first rows are
    used in all of them, and lose as many times the rho."""

    def release(self) -> list[float]:
        return [self._model(0, end) for end in self._edges[1:]]


class ForgetfulRings(_Rings):
    """DEFECT: only the first step has noise."""

    weights: ClassVar[tuple[float, ...]] = (1.0, 1.8, 2.1, 1.6)

    def _noise(self, step: int, unit: int) -> Ints:
        return super()._noise(step, unit) if step == 1 else np.zeros(1, dtype=np.int64)


@lru_cache
def _method(problem: Problem, size: int, epsilon: Fraction) -> Perturbation:
    """Noise that spends all of an epsilon."""
    price = minimising(problem, _DRAFT, size).epsilon
    assert price is not None
    return replace(_DRAFT, scale=at_least(price / epsilon))
