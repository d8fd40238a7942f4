"""The best private minimiser for a budget: its method, with noise that fits the budget, and its proven excess risk.

Every `Planned` keeps two promises: its method costs at most the budget by `treering.budget.minimising` at that size,
and its alpha bounds the excess risk with probability 1 − beta.

*The scaling law of boxes.* Alpha falls, or stays, when size, budget or beta grows, and when the size grows c-fold while
a pure budget is divided by c, or a zCDP one by c²: it is a minimum over candidates that do not depend on them (a ridge,
a number of steps, a pitch), each with a bound that does so. One exception: a solver whose passes are limited falls out
of the candidates at a size that needs more of them, so schedules over output perturbation set no limit, or a generous
one (passes grow with the logarithm of the size).

``plan_…`` plan one run at one size. A `Choice` is one kind of minimiser for one problem at any size, for schedules: its
``alpha``, found fast, obeys the scaling law; its ``method`` costs at most the budget, and has a proven excess risk of
at most ``alpha``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from treering.arrays import Floats
from treering.budget.minimising import (
    gradient_sensitivity,
    lattice_size,
    loss_sensitivity,
    perturbation_sensitivity,
    solver_distance,
)
from treering.budget.promise import Budget, BudgetKind
from treering.domain.problem import MOST_CANDIDATES, MOST_STEPS, Descent, Method, Net, Perturbation, Problem, Start
from treering.errors import GuaranteeError, ParameterError
from treering.params import at_least, probability, whole
from treering.theory.erm.steps import Courses, Steps, displacement_bound, net_bound, net_size, noise_norm
from treering.theory.search import least_whole

_TOLERANCE: Final = 64
"""For two neighbours together, the solver's error is at most one over this of the minimiser's sensitivity."""

_FINENESS: Final = 1024
"""The sensitivity spans at least this many grid steps, times √d: rounding adds less than a thousandth of it."""

_LONGER: Final = 2.0 ** (np.arange(17) / 16)
"""The factors by which a step may be longer than the best one."""

MOST_PASSES: Final = 1000
"""The default limit on passes over the entries."""
NET_CANDIDATES: Final = 2**12
"""The default limit on the candidates of a net."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A method, and ``alpha``, its proven excess risk."""

    method: Method
    alpha: float


def plan(
    problem: Problem, size: int, budget: Budget, beta: float, *, passes: int = MOST_PASSES, start: Start = None
) -> Planned:
    """The method with the least proven excess risk among all that the problem and the budget allow.

    ``size`` is the number of entries, ``beta`` the failure probability, ``passes`` the most passes over the entries,
    ``start`` a public model to begin with (None: the centre of the ball).
    """
    plans = possible(problem, size, budget, beta, passes=passes, start=start)
    if not plans:
        raise GuaranteeError(
            f"no minimiser of {type(problem.loss).__name__} loss fits a {budget.kind} budget in {problem.dimension} "
            "dimensions: a loss that is not smooth needs delta > 0, or at most 3 dimensions"
        )
    return min(plans, key=lambda planned: planned.alpha)


def possible(
    problem: Problem, size: int, budget: Budget, beta: float, *, passes: int = MOST_PASSES, start: Start = None
) -> list[Planned]:
    """The best plan of each kind of minimiser that the problem and the budget allow; parameters as in `plan`."""
    whole(size, "size")  # What no kind would take is refused, not passed over.
    probability(beta, "beta")
    whole(passes, "passes")
    kinds: list[Callable[[], Planned]] = [
        lambda: plan_perturbation(problem, size, budget, beta, passes=passes, start=start),
        lambda: plan_descent(problem, size, budget, beta, passes=passes, start=start),
        lambda: plan_net(problem, size, budget, beta),
    ]
    return [planned for kind in kinds for planned in _if_possible(kind)]


def _if_possible(kind: Callable[[], Planned]) -> Iterator[Planned]:
    try:
        yield kind()
    except (ParameterError, GuaranteeError):
        return


# -- output perturbation -----------------------------------------------------------------------------------------------


def plan_perturbation(
    problem: Problem, size: int, budget: Budget, beta: float, *, passes: int = MOST_PASSES, start: Start = None
) -> Planned:
    """Output perturbation: Laplace noise under a pure budget, Gaussian under a zCDP one, and the best ridge.

    Alpha is `displacement_bound` at the largest sum of solver error, rounding and noise that this plan's limits allow.
    """
    whole(size, "size")
    ridges = [2.0 ** (step / 4) for step in range(-80, 33)]
    if problem.regularisation:
        ridges.append(0.0)
    ranked = sorted(ridges, key=lambda ridge: _perturbed_alpha(problem, ridge, size, budget, beta))
    for ridge in ranked:
        method = perturbation_with(problem, ridge, size, budget, passes, start)
        if method is not None:
            return Planned(method, _perturbed_alpha(problem, ridge, size, budget, beta))
    raise GuaranteeError(
        f"no ridge lets the solver come near enough within {passes:,} passes; allow more, or add noise"
    )


def _moved(problem: Problem, ridge: float, size: int) -> float:
    """Δ = 2L/(λn): how far the exact minimiser moves when one entry is replaced."""
    return 2 * problem.lipschitz / ((problem.regularisation + ridge) * size)


def _perturbed_alpha(problem: Problem, ridge: float, size: int, budget: Budget, beta: float) -> float:
    return displacement_bound(problem, ridge, _moved(problem, ridge, size) * displaced_share(problem, budget, beta))


def displaced_share(problem: Problem, budget: Budget, beta: float) -> float:
    """A bound on the distance of the released model from the minimiser, in units of the minimiser's sensitivity Δ.

    Pitch h ≤ Δ₂/(1024√d) and solver distance r ≤ Δ/128, so h·scale ≤ Δ₂(1 + 1/1024)/√(2ρ) (zCDP), or √d times Δ₂(1 +
    1/1024)/ε (pure).
    """
    root = math.sqrt(problem.dimension)
    moved = (1 + 1 / _TOLERANCE) * (1 + 2.0**-30)
    pitch = moved / (_FINENESS * root)
    scale = per_unit(budget) * (_FINENESS + 1) * (problem.dimension if budget.kind == "pure" else root)
    noise = "laplace" if budget.kind == "pure" else "gaussian"
    displaced = moved / 2 / _TOLERANCE + pitch * (root / 2 + noise_norm(noise, scale, problem.dimension, beta))
    return displaced * (1 + 2.0**-30)


def solver_tolerance(problem: Problem, ridge: float, size: int) -> float:
    """The largest distance of the solver's result from the minimiser that a plan allows: Δ/128."""
    return _moved(problem, ridge, size) / 2 / _TOLERANCE


def perturbation_with(
    problem: Problem, ridge: float, size: int, budget: Budget, passes: int, start: Start
) -> Perturbation | None:
    """The method for a ridge with the fewest passes that suffice; None if rounding or the limit on passes forbid it."""
    draft = Perturbation("gaussian" if budget.kind == "zcdp" else "laplace", 1.0, 1.0, passes, ridge, start)
    wanted = solver_tolerance(problem, ridge, size)

    def near(method: Perturbation) -> bool:
        return solver_distance(problem, method) <= wanted

    if not near(draft):
        return None
    draft = replace(draft, iterations=least_whole(lambda few: near(replace(draft, iterations=few)), 0, passes))
    moves = perturbation_sensitivity(problem, draft, size)
    root = math.sqrt(problem.dimension)
    pitch = 2.0 ** math.floor(math.log2(moves / (_FINENESS * root)))
    if not 2.0**-60 <= pitch <= 1:
        pitch = min(1.0, max(2.0**-60, pitch))
    steps = Fraction(moves) / Fraction(pitch)
    above = Fraction(root * (1 + 2.0**-40))
    if budget.kind == "pure":
        scale = at_least((above * steps + problem.dimension) / budget.total)
    else:
        scale = at_least((steps + above) * root_above(1 / (2 * budget.total)))
    return replace(draft, pitch=pitch, scale=scale)


# -- noisy descent -----------------------------------------------------------------------------------------------------


def plan_descent(
    problem: Problem,
    size: int,
    budget: Budget,
    beta: float,
    *,
    passes: int = MOST_PASSES,
    start: Start = None,
    resolution: int = 2**16,
    within: float = 0.0,
) -> Planned:
    """Noisy descent under a zCDP budget: the best schedule and number of steps.

    The step size is the one with the best bound, or up to twice as long as far as the bound stays below ``within``. The
    bound is for the worst noise and the worst data; on common data there is less noise, and longer steps help.
    ``resolution`` is that of `Descent`; the other parameters are those of `plan`.
    """
    whole(size, "size")
    if budget.kind != "zcdp":
        raise ParameterError("budget", "must be zCDP for noisy descent: its noise is Gaussian (delta > 0)")
    _, draft = best_descent(
        problem, size, budget, beta, passes=min(passes, MOST_STEPS), start=start, resolution=resolution
    )
    method = Descent(draft.schedule, draft.number, 1.0, 1.0, start, resolution, draft.rise)
    return _descent(problem, size, budget, beta, method, within)


@dataclass(frozen=True, slots=True)
class Drafted:
    """A course of descent; it may have more steps than can be run."""

    schedule: Literal["averaged", "accelerated", "strong"]
    number: int
    rise: float


def best_descent(
    problem: Problem,
    size: int,
    budget: Budget,
    beta: float,
    *,
    passes: int,
    start: Start = None,
    resolution: int = 2**16,
) -> tuple[float, Drafted]:
    """The least bound of noisy descent, and its course."""
    numbers = step_numbers(passes)
    courses = Courses.of(numbers)
    sensitivity = float(gradient_sensitivity(problem, Descent("averaged", 1, 1.0, 1.0, start, resolution)))
    sigma = sensitivity * per_unit(budget) / size * np.sqrt(courses.number)
    found = descent_bounds(Steps.of(problem, courses, sigma, resolution, start, beta))
    alpha, schedule, place = min(
        ((float(bounds.min()), schedule, int(bounds.argmin())) for schedule, bounds in found.items())
    )
    row, column = divmod(place, courses.rise.size)
    return alpha, Drafted(schedule, numbers[row], float(courses.rise[0, column]))


def descent_bounds(steps: Steps) -> dict[Literal["averaged", "accelerated", "strong"], Floats]:
    """The bounds of every schedule that the problem allows."""
    found: dict[Literal["averaged", "accelerated", "strong"], Floats] = {"averaged": steps.averaged()}
    if steps.convexity:
        found["strong"] = steps.strong()
    if math.isfinite(steps.smoothness):
        found["accelerated"] = steps.accelerated()
    return found


def _descent(problem: Problem, size: int, budget: Budget, beta: float, draft: Descent, within: float) -> Planned:
    """The plan of a course: noise that spends the budget, and the step size."""
    sensitivity = gradient_sensitivity(problem, draft)
    scale = at_least(sensitivity * root_above(draft.steps / (2 * budget.total)))
    courses = Courses.of([draft.steps], [draft.rise])
    steps = Steps.of(problem, courses, scale / size, draft.resolution, draft.start, beta)
    room = 1 + 2.0**-30
    if draft.schedule == "strong":
        return Planned(replace(draft, scale=scale), float(steps.strong()[0, 0]) * room)
    if draft.schedule == "accelerated":
        best, bound = steps.accelerated_step(), steps.accelerated
    else:
        best, bound = steps.averaged_step(), steps.averaged
    bounds = bound(best * _LONGER)[0] * room
    place = max(np.flatnonzero(bounds <= within), default=0)
    return Planned(replace(draft, scale=scale, step_size=float(best[0, 0] * _LONGER[place])), float(bounds[place]))


def step_numbers(most: int) -> list[int]:
    """The numbers of steps to try: 1, 2, 3, …, then each an eighth larger, up to ``most``."""
    numbers = [1]
    while numbers[-1] < whole(most, "passes"):
        numbers.append(min(most, max(numbers[-1] + 1, numbers[-1] * 9 // 8)))
    return numbers


# -- the exponential mechanism over a net ------------------------------------------------------------------------------


def plan_net(problem: Problem, size: int, budget: Budget, beta: float, *, most: int = NET_CANDIDATES) -> Planned:
    """The exponential mechanism over the best net: ε-DP, or ρ = ε²/8 under a zCDP budget.

    A run reads every entry once for each candidate; ``most`` limits the lattice points in the cube around the ball.
    """
    whole(size, "size")
    probability(beta, "beta")
    best: Planned | None = None
    for step in range(64):
        draft = Net(problem.radius * 2.0 ** (-step / 4), 1.0)
        if problem.dimension > draft.most_dimensions:
            raise ParameterError("dimension", f"of a net is at most {draft.most_dimensions}, not {problem.dimension}")
        if best is not None and lattice_size(problem, draft) > min(most, MOST_CANDIDATES):
            break
        doubled = 2 * loss_sensitivity(problem, draft)
        if budget.kind == "pure":
            scale = at_least(doubled / budget.total)
        else:
            scale = at_least(doubled * root_above(1 / (8 * budget.total)))
        method = replace(draft, scale=scale)
        alpha = net_bound(problem, method, size, beta)
        if best is None or alpha < best.alpha:
            best = Planned(method, alpha)
    assert best is not None
    return best


# -- arithmetic --------------------------------------------------------------------------------------------------------


def per_unit(budget: Budget) -> float:
    """The scale that noise needs for a sensitivity of 1: 1/ε, or 1/√(2ρ)."""
    if budget.kind == "pure":
        return float(1 / budget.total)
    return math.sqrt(1 / (2 * budget.total))


def root_above(value: Fraction) -> Fraction:
    """A rational whose square is not below ``value``, and close."""
    return Fraction(math.sqrt(value) * (1 + 2.0**-40))


# -- choices for schedules: one kind of minimiser at any size ----------------------------------------------------------


SLACK: Final = 1.05
"""The factor by which descent that runs again and again may exceed its bound for longer steps (`plan_descent`)."""

PATIENCE: Final = 3.0
"""Descent that runs again and again exceeds `rerun_passes` only if that improves the bound by more than this factor."""

THRIFT: Final = 1.3
"""Descent that runs once takes the fewest steps whose bound is within this factor of the best one's."""

_ROOM: Final = 1 + 2.0**-20
_RIDGES: Final = tuple(2.0 ** (step / 4) for step in range(-80, 33))


class Choice(ABC):
    """One kind of minimiser for one problem, in at most ``passes`` passes over the entries."""

    kind: BudgetKind = "pure"
    """The budgets that it takes: "zcdp" only zCDP, "pure" both kinds."""

    @abstractmethod
    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The proven excess risk on ``size`` entries; it is exceeded with probability at most ``beta``."""

    @abstractmethod
    def method(self, size: int, budget: Budget, beta: float, start: Start) -> Method:
        """The method to run, with excess risk at most `alpha`; ``start`` is a public model to begin with, if it can."""


class Perturbing(Choice):
    """Output perturbation with the best ridge λ.

    The solver's distance r(λ) from the minimiser after all passes is public. Up to some size N(λ) it is small enough:
    2r(λ) is at most a 64th of the sensitivity 2L/(λn). A larger database is treated as one of N(λ) entries, which costs
    no more: the sensitivity falls with the size. So alpha never rises with the size; the scaling law holds up
    to N(λ), which the number of passes and, in the end, floating point limit.
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
        assert method is not None  # the reaches ensure it
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
    within the factor `THRIFT` of the best one in at most ``passes``. With it, as for models that are learnt again and
    again: the best bound with at most `rerun_passes` steps, times `SLACK`; but where that is more than `PATIENCE` times
    the best bound, the fewest steps within the factor `PATIENCE` of it. The number of steps allowed rises with the size
    alone, so alpha obeys the scaling law.

    It begins at the centre, not at a released model: the proven distance to the minimiser is R from there, and up to
    2R from anywhere else.
    """

    kind: BudgetKind = "zcdp"

    def __init__(self, problem: Problem, passes: int, few: int | None = None) -> None:
        self._problem = problem
        self._numbers = step_numbers(min(passes, MOST_STEPS))
        self._courses = Courses.of(self._numbers)
        # Without smoothness a bound falls as 1/√K: with few steps it would be far from the best one.
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
        """The excess risk aimed at, and the index of the number of steps that reaches it."""
        best = float(bounds.min())
        enough = best * THRIFT
        if self._few is not None:
            allowed = bounds[: bisect_right(self._numbers, rerun_passes(size, self._few))]
            enough = best * PATIENCE
            if allowed.min() * SLACK <= enough:
                return float(allowed.min()) * SLACK, int(allowed.argmin())
        return enough, int(np.argmax(bounds <= enough))

    def _bounds(self, size: int, budget: Budget, beta: float) -> Floats:
        """The best schedule's bound for each number of steps. A run asks several times: the last result is cached."""
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
    """The most passes over the entries of one run where there are many runs: ∛size/5, but at least ``few``.

    The part of the error that K steps leave is of the order of 1/K² ~ size^{-2/3}, the same order as the bound of a
    growing database, noise and staleness included.

    >>> [rerun_passes(size, 5) for size in (1_000, 100_000, 10**8)]
    [5, 9, 92]
    """
    return max(few, math.floor(math.cbrt(size) / 5 * (1 + 2.0**-40)))


class Choosing(Choice):
    """The exponential mechanism over the best net. A run reads every entry once for each candidate."""

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
        """The scale at which a draw costs the budget: it is ε-DP, or ρ = ε²/8 under a zCDP budget."""
        if budget.kind == "pure":
            return at_least(self._doubled / budget.total)
        return at_least(self._doubled * root_above(1 / (8 * budget.total)))
