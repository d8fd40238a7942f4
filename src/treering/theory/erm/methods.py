"""The best method of each kind for a budget: noise that costs no more than the budget, and a proven excess risk.

Every `Planned` keeps two promises: its method costs at most the budget by ``budget/minimising`` at that size, and its
alpha bounds the excess risk with probability 1 − beta. Alpha falls, or stays, when size, budget or beta grows, and when
the size grows c-fold while a pure budget is divided by c, or a zCDP one by c²: it is a minimum over candidates that do
not depend on them, each with a bound that does so. One exception: a solver whose passes are limited falls out of the
candidates at a size that needs more of them, so schedules over output perturbation set no limit, or a generous one
(passes grow with the logarithm of the size).
"""

from __future__ import annotations

import math
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
from treering.budget.promise import Budget
from treering.domain.minimiser import MOST_CANDIDATES, MOST_STEPS, Descent, Method, Net, Perturbation, Start
from treering.domain.problem import Problem
from treering.errors import GuaranteeError, ParameterError
from treering.params import at_least, probability, whole
from treering.theory.erm.steps import Courses, Steps
from treering.theory.erm_static import displacement_bound, net_bound, noise_norm

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
    if solver_distance(problem, draft) > wanted:
        return None
    low, high = 0, passes
    while high - low > 1:
        middle = (low + high) // 2
        if solver_distance(problem, replace(draft, iterations=middle)) <= wanted:
            high = middle
        else:
            low = middle
    draft = replace(draft, iterations=high)
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
