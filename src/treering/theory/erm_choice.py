"""Which private minimiser runs at which size: bounds that obey the scaling law of boxes, found fast.

A `Choice` is one kind of minimiser for one problem. Its ``alpha`` is a minimum over candidates that do not depend on
size, budget or beta (a ridge, a number of steps, a pitch), each with a bound that falls, or stays, when one of the
three grows, and when the size grows c-fold while a pure budget is divided by c, or a zCDP one by c². So the minimum
does, too. Its ``method`` costs at most the budget, and its proven excess risk is at most ``alpha``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import replace
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.minimising import gradient_sensitivity, lattice_size, loss_sensitivity, solver_distance
from treering.budget.promise import Budget, Kind
from treering.domain.minimiser import MOST_CANDIDATES, MOST_STEPS, Descent, Method, Net, Perturbation, Start
from treering.domain.problem import Problem
from treering.errors import GuaranteeError, ParameterError
from treering.params import at_least
from treering.theory.erm.methods import (
    NET_CANDIDATES,
    descent_bounds,
    displaced_share,
    per_unit,
    perturbation_with,
    plan_descent,
    root_above,
    solver_tolerance,
    step_numbers,
)
from treering.theory.erm.steps import Courses, Steps
from treering.theory.erm_static import net_bound, net_size

SLACK: Final = 1.05
"""Descent that runs again and again gives away as much of its bound for longer steps (`plan_descent`)."""

PATIENCE: Final = 3.0
"""It takes more steps than few ones only where they make the bound better by more than this factor."""

THRIFT: Final = 1.3
"""Descent that runs once takes the fewest steps whose bound is within this factor of the best one's."""

_ROOM: Final = 1 + 2.0**-20
_RIDGES: Final = tuple(2.0 ** (step / 4) for step in range(-80, 33))


class Choice(ABC):
    """One kind of minimiser for one problem, in at most ``passes`` passes over the entries."""

    kind: Kind = "pure"
    """"pure": it takes budgets of both kinds."""

    @abstractmethod
    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The excess risk that it keeps to, but with probability beta."""

    @abstractmethod
    def method(self, size: int, budget: Budget, beta: float, start: Start) -> Method:
        """What to run. ``start`` is a public model that a solver may begin with."""


class Perturbing(Choice):
    """Output perturbation with the best ridge λ.

    The solver's distance r(λ) after all passes is public; it is small enough, at most a 64th of the sensitivity
    2L/(λn) on both sides together, up to some size N(λ). A larger database is treated as one of N(λ) entries, which
    costs no more: the sensitivity falls with the size. So alpha never rises with the size; the scaling law holds up
    to N(λ), the end of what the passes, and in the end floating point, can resolve.
    """

    def __init__(self, problem: Problem, passes: int) -> None:
        self._problem = problem
        self._passes = min(passes, MOST_STEPS)
        far = (problem.radius, *[0.0] * (problem.dimension - 1))
        ridges, reaches = [], []
        for ridge in (*_RIDGES, *([0.0] if problem.regularisation else [])):
            draft = Perturbation("gaussian", 1.0, 1.0, self._passes, ridge, far)
            try:
                # From the far end of the ball: any start is at most as far from the minimiser.
                distance = solver_distance(problem, draft)
            except GuaranteeError:
                continue
            reach = solver_tolerance(problem, ridge, 1) / distance * (1 - 2.0**-20)
            if reach >= 1:
                ridges.append(ridge)
                reaches.append(math.floor(min(reach, 2.0**62)))
        if not ridges:
            raise GuaranteeError(f"no ridge lets the solver come near enough within {passes:,} passes; allow more")
        self._ridges = np.array(ridges)
        self._reaches = np.array(reaches, dtype=np.int64)

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return float(self._bounds(size, budget, beta).min())

    def method(self, size: int, budget: Budget, beta: float, start: Start) -> Method:
        place = int(self._bounds(size, budget, beta).argmin())
        reached = min(size, int(self._reaches[place]))
        method = perturbation_with(self._problem, float(self._ridges[place]), reached, budget, self._passes, start)
        assert method is not None  # That is what the reaches are for.
        return method

    def _bounds(self, size: int, budget: Budget, beta: float) -> Floats:
        """`displacement_bound` for every ridge at once."""
        problem, ridges = self._problem, self._ridges
        share = displaced_share(problem, budget, beta)
        convexity = problem.regularisation + ridges
        displaced = share * 2 * problem.lipschitz / (convexity * np.minimum(size, self._reaches))
        straight = problem.whole_lipschitz * displaced
        curved = (problem.smoothness + ridges) / 2 * displaced**2
        inside = convexity * problem.radius >= problem.lipschitz
        loss = np.where(inside, np.minimum(straight, curved), straight)
        return np.asarray((loss + ridges / 2 * problem.radius**2) * _ROOM)


class Descending(Choice):
    """Noisy projected gradient descent from the centre, zCDP, with the best schedule and few steps.

    Without ``few``, as for a model that is learnt once, or if the loss is not smooth: the fewest steps whose bound is
    within `THRIFT` of the best one in at most ``passes``. With it, as for models that are learnt again and again: the
    best bound with at most `rerun_passes` steps, times `SLACK`; but where that is more than `PATIENCE` times the best
    one, the fewest steps within `PATIENCE` of it. Allowed steps rise with the size alone, so alpha obeys the same laws.

    It begins at the centre, not at a released model: the proven distance to the minimiser is R from there, and up to
    2R from anywhere else.
    """

    kind: Kind = "zcdp"

    def __init__(self, problem: Problem, passes: int, few: int | None = None) -> None:
        self._problem = problem
        self._numbers = step_numbers(min(passes, MOST_STEPS))
        self._courses = Courses.of(self._numbers)
        # Without smoothness a bound falls as 1/√K: few steps would leave it far from the best one.
        self._few = few if math.isfinite(problem.smoothness) else None
        self._last: tuple[tuple[int, Budget, float], Floats] | None = None
        draft = Descent("averaged", 1, 1.0)
        self._resolution = draft.resolution
        self._sensitivity = float(gradient_sensitivity(problem, draft))

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return self._aim(size, self._bounds(size, budget, beta))[0] * _ROOM

    def method(self, size: int, budget: Budget, beta: float, start: Start) -> Method:
        aim, place = self._aim(size, self._bounds(size, budget, beta))
        few = self._numbers[place]
        return plan_descent(
            self._problem, size, budget, beta, passes=few, resolution=self._resolution, within=aim
        ).method

    def _aim(self, size: int, bounds: Floats) -> tuple[float, int]:
        """The excess risk to keep to, and the place of the number of steps that does."""
        best = float(bounds.min())
        enough = best * THRIFT
        if self._few is not None:
            allowed = bounds[: bisect_right(self._numbers, rerun_passes(size, self._few))]
            enough = best * PATIENCE
            if allowed.min() * SLACK <= enough:
                return float(allowed.min()) * SLACK, int(allowed.argmin())
        return enough, int(np.argmax(bounds <= enough))

    def _bounds(self, size: int, budget: Budget, beta: float) -> Floats:
        """The best schedule's bound for each number of steps. A run asks several times: the last is kept."""
        if self._last is not None and self._last[0] == (size, budget, beta):
            return self._last[1]
        if budget.kind != "zcdp":
            raise ParameterError("budget", "must be zCDP for noisy descent: its noise is Gaussian (delta > 0)")
        sigma = self._sensitivity * per_unit(budget) / size * np.sqrt(self._courses.number)
        steps = Steps.of(self._problem, self._courses, sigma, self._resolution, None, beta)
        best = np.min([bounds.min(axis=1) for bounds in descent_bounds(steps).values()], axis=0)
        self._last = (size, budget, beta), best
        return np.asarray(best)


def rerun_passes(size: int, few: int) -> int:
    """How many passes over the entries a run makes at most where there are many runs: ∛size/5, or ``few``.

    What K steps leave of the distance to the minimiser is of the order of 1/K² ~ size^{-2/3}: as the bound of a growing
    database, noise and staleness included.

    >>> [rerun_passes(size, 5) for size in (1_000, 100_000, 10**8)]
    [5, 9, 92]
    """
    return max(few, math.floor(math.cbrt(size) / 5 * (1 + 2.0**-40)))


class Choosing(Choice):
    """The exponential mechanism over the best net. A run looks at every entry once for each candidate."""

    def __init__(self, problem: Problem, candidates: int = NET_CANDIDATES) -> None:
        drafts = [Net(problem.radius * 2.0 ** (-step / 4), 1.0) for step in range(64)]
        if problem.dimension > drafts[0].most_dimensions:
            raise ParameterError(
                "dimension",
                f"of a net is at most {drafts[0].most_dimensions}, not {problem.dimension}: its size grows as a power "
                "of it. Use output perturbation, or noisy descent under a promise with delta > 0",
            )
        self._problem = problem
        self._drafts = [
            draft for draft in drafts if lattice_size(problem, draft) <= min(candidates, MOST_CANDIDATES)
        ] or drafts[:1]
        self._doubled = 2 * loss_sensitivity(problem, drafts[0])
        # `net_bound` is fixed + scale·(logarithm + log(1/β))/size.
        self._fixed = np.array([net_bound(problem, replace(draft, scale=2.0**-900), 1, 0.5) for draft in self._drafts])
        self._logarithms = np.array([math.log(net_size(problem, draft)) for draft in self._drafts])

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return float(self._bounds(size, budget, beta).min())

    def method(self, size: int, budget: Budget, beta: float, start: Start) -> Method:
        draft = self._drafts[int(self._bounds(size, budget, beta).argmin())]
        return replace(draft, scale=self._scale(budget))

    def _bounds(self, size: int, budget: Budget, beta: float) -> Floats:
        """`net_bound` for every pitch at once."""
        draw = self._scale(budget) * (self._logarithms + math.log(1 / beta)) / size
        return np.asarray((self._fixed + draw) * _ROOM)

    def _scale(self, budget: Budget) -> float:
        """ε-DP, or ρ = ε²/8 under a zCDP budget."""
        if budget.kind == "pure":
            return at_least(self._doubled / budget.total)
        return at_least(self._doubled * root_above(1 / (8 * budget.total)))
