"""BROKEN ON PURPOSE: learners that lose more than they claim. Never point one at real rows.

The negative controls of ERM and ERMG: output perturbation, the method with the longest proof. They hold points that the
auditor made up, in the open, and charge nothing.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

from treering.arrays import Floats
from treering.budget.minimising import minimising
from treering.domain.problem import Minimise, Perturbation, Problem
from treering.params import Number, at_least, exact
from treering.trusted.minimisers import minimum
from treering.trusted.points import Points

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
        return minimum(Minimise(self._problem, self.method), self._points)


class HonestLearner(_Learner):
    """NO DEFECT: what shows that an audit does not accuse everything."""


class HalfSensitivityLearner(_Learner):
    """DEFECT: noise for half of the sensitivity, L/(λn) in place of 2L/(λn).

    That is what adding or removing an entry does to the minimiser, a slip between two kinds of neighbours: a replaced
    entry loses up to 2ε.
    """

    sensitivity: ClassVar[Fraction] = Fraction(1, 2)


@lru_cache
def _method(problem: Problem, size: int, epsilon: Fraction) -> Perturbation:
    """Noise that spends all of an epsilon."""
    price = minimising(problem, _DRAFT, size).epsilon
    assert price is not None
    return replace(_DRAFT, scale=at_least(price / epsilon))
