"""The best method of each kind for a budget: noise that costs no more than the budget, and a proven excess risk.

Every `Planned` keeps two promises: its method costs at most the budget by ``budget/minimising`` at that size, and its
alpha bounds the excess risk with probability 1 − beta. Alpha falls, or stays, when size, budget or beta grows, and when
the size grows c-fold while a pure budget is divided by c, or a zCDP one by c²: it is a minimum over candidates that do
not depend on them, each with a bound that does so. One exception: a solver whose passes are limited falls out of the
candidates at a size that needs more of them, so schedules over output perturbation set no limit, or a generous one
(passes grow with the logarithm of the size).

Which private minimiser runs at which size: bounds that obey the scaling law of boxes, found fast.

A `Choice` is one kind of minimiser for one problem. Its ``alpha`` is a minimum over candidates that do not depend on
size, budget or beta (a ridge, a number of steps, a pitch), each with a bound that falls, or stays, when one of the
three grows, and when the size grows c-fold while a pure budget is divided by c, or a zCDP one by c². So the minimum
does, too. Its ``method`` costs at most the budget, and its proven excess risk is at most ``alpha``.
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
"""The solver is as near as this part of the minimiser's own sensitivity, both sides together."""

_FINENESS: Final = 1024
"""How many steps of the grid, per √d, the sensitivity spans: rounding adds less than a thousandth of it."""

_LONGER: Final = 2.0 ** (np.arange(17) / 16)
"""How much longer than the best one a step may be."""

MOST_PASSES: Final = 1000
NET_CANDIDATES: Final = 2**12


@dataclass(frozen=True, slots=True)
class Planned:
    """A method, and the excess risk that it keeps to."""

    method: Method
    alpha: float


def plan(
    problem: Problem, size: int, budget: Budget, beta: float, *, passes: int = MOST_PASSES, start: Start = None
) -> Planned:
    """The method with the least proven excess risk among all that can be had, in at most ``passes`` passes."""
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
    """The best plan of each kind that can be had."""
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

    Alpha is `displacement_bound` at the most that solver, rounding and noise add up to within this plan's limits.
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
    """2L/(λn): how far the exact minimiser moves."""
    return 2 * problem.lipschitz / ((problem.regularisation + ridge) * size)


def _perturbed_alpha(problem: Problem, ridge: float, size: int, budget: Budget, beta: float) -> float:
    return displacement_bound(problem, ridge, _moved(problem, ridge, size) * displaced_share(problem, budget, beta))


def displaced_share(problem: Problem, budget: Budget, beta: float) -> float:
    """How far from the minimiser the released model is at most, in units of the minimiser's own sensitivity Δ.

    Pitch h ≤ Δ₂/(1024√d) and solver distance r ≤ Δ/128, so h·scale ≤ Δ₂(1 + 1/1024)·√d^{0|1}/(√2ρ | ε).
    """
    root = math.sqrt(problem.dimension)
    moved = (1 + 1 / _TOLERANCE) * (1 + 2.0**-30)
    pitch = moved / (_FINENESS * root)
    scale = per_unit(budget) * (_FINENESS + 1) * (problem.dimension if budget.kind == "pure" else root)
    noise = "laplace" if budget.kind == "pure" else "gaussian"
    displaced = moved / 2 / _TOLERANCE + pitch * (root / 2 + noise_norm(noise, scale, problem.dimension, beta))
    return displaced * (1 + 2.0**-30)


def solver_tolerance(problem: Problem, ridge: float, size: int) -> float:
    """How near the solver must come to the minimiser: Δ/128."""
    return _moved(problem, ridge, size) / 2 / _TOLERANCE


def perturbation_with(
    problem: Problem, ridge: float, size: int, budget: Budget, passes: int, start: Start
) -> Perturbation | None:
    """The method for a ridge with as few passes as do; None where rounding or the passes allowed do not let it."""
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


# -- descent -----------------------------------------------------------------------------------------------------------


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

    Its step is the best one, or, as far as the bound stays ``within`` some excess risk, up to twice as long. The bound
    is for the most noise and for the worst data; on common data noise is less, and what is left of the way is more.
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
    """A course of descent; its steps may be more than can be run."""

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
    """The schedule with noise that spends the budget, and its step."""
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
    """1, 2, 3 … and then steps of an eighth, up to ``most``."""
    numbers = [1]
    while numbers[-1] < whole(most, "passes"):
        numbers.append(min(most, max(numbers[-1] + 1, numbers[-1] * 9 // 8)))
    return numbers


# -- the net -----------------------------------------------------------------------------------------------------------


def plan_net(problem: Problem, size: int, budget: Budget, beta: float, *, most: int = NET_CANDIDATES) -> Planned:
    """The exponential mechanism over the best net: ε-DP, or ρ = ε²/8 under a zCDP budget.

    A run looks at every entry once for each candidate; ``most`` limits their number (a cube around the ball counts).
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


# -- erm choice --------------------------------------------------------------------------------------------------------


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

    kind: BudgetKind = "pure"
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

    kind: BudgetKind = "zcdp"

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
