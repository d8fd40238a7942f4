"""Private empirical risk minimisation: the excess risk on one database, and on a growing one.

Two profiles. ``paper``: the formulas of the theorem and the table (`treering.theory.erm.paper`), whose leading constant
is not stated. ``tight``: ours, proven with all constants (`treering.theory.erm.steps` has the bounds,
`treering.theory.erm.methods` the choice of methods).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from treering.budget.minimising import loss_sensitivity
from treering.budget.promise import Budget, Promise
from treering.domain.loss import Distance
from treering.domain.problem import Net, Problem
from treering.errors import GuaranteeError, ParameterError
from treering.params import Profile, check_profile, whole
from treering.theory.erm.methods import Planned, best_descent, plan, plan_descent, plan_net, plan_perturbation, possible
from treering.theory.erm.paper import (
    ErmRate,
    format_table,
    paper_alpha_at,
    paper_growing_bound,
    paper_static_bound,
    rate,
    table,
)
from treering.theory.erm.population import excess_risk, population_bound
from treering.theory.erm.steps import bound, descent_bound, net_bound, noise_norm, perturbation_bound
from treering.theory.schedule.improver import doubling_share

__all__ = [
    "DoublingBound",
    "ErmRate",
    "Planned",
    "bound",
    "descent_bound",
    "excess_risk",
    "format_table",
    "grow",
    "growing_bound",
    "net_bound",
    "net_rate",
    "noise_norm",
    "paper_alpha_at",
    "paper_growing_bound",
    "paper_static_bound",
    "perturbation_bound",
    "plan",
    "plan_descent",
    "plan_net",
    "plan_perturbation",
    "population_bound",
    "rate",
    "static_bound",
    "table",
]

Static: TypeAlias = Callable[[int, Budget, float], float]
"""A proven excess risk, as a function of size (entries), budget and beta."""

_UNLIMITED: Final = 2**50
"""The number of passes allowed where a bound is computed whatever its run would take."""

_FINEST: Final = 2**30
"""The finest resolution of gradients."""

_MOST_RUNS: Final = 2**40


def static_bound(
    dimension: int,
    size: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    *,
    strong_convexity: float | None = None,
    profile: Profile = "tight",
    constant: float = 1.0,
) -> float:
    """The excess risk of one private minimisation, for losses that are 1-Lipschitz on a ball of diameter 1 (L2).

    ``dimension`` is the number of coordinates of a model, ``size`` the number of entries; the bound fails with
    probability at most ``beta``.

    ``paper``: the table's formula times ``constant``. ``tight``: the least bound proven for our minimisers, with no
    smoothness assumed, however many passes a run takes; under δ = 0 that is the net, in at most 3 dimensions. With
    ``strong_convexity`` Δ the objective is such a loss plus Δ/2·‖θ‖².
    """
    if _paper(profile):
        return paper_static_bound(
            dimension, size, epsilon, delta, beta, strong_convexity=strong_convexity, constant=constant
        )
    return _unlimited(_plain(dimension, strong_convexity))(size, Promise(epsilon, delta).budget, beta)


def growing_bound(
    dimension: int,
    size: int,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    *,
    start: int = 1,
    c: float = 0.1,
    strong_convexity: float | None = None,
    profile: Profile = "tight",
    constant: float = 1.0,
) -> float:
    """The excess risk, at ``size`` entries, of models released again and again from ``start`` entries on.

    All models together are (ε, δ)-DP for ever, and all bounds hold together but with probability ``beta``. ``paper``:
    the theorem of ERMG, with the ``c`` of its exponent, times ``constant``. ``tight``: `grow` with the best static
    bound.
    """
    if _paper(profile):
        return paper_growing_bound(
            dimension, size, epsilon, delta, beta, c=c, strong_convexity=strong_convexity, constant=constant
        )
    problem = _plain(dimension, strong_convexity)
    stale = problem.whole_lipschitz * 2 * problem.radius
    return grow(start, size, Promise(epsilon, delta).budget, beta, _unlimited(problem), stale).alpha


@dataclass(frozen=True, slots=True)
class DoublingBound:
    """The tight schedule at one size: the bound, and the budget and beta of each run of this doubling."""

    alpha: float
    runs: int
    """The number of runs while the size doubles."""
    budget: Budget
    beta: float


def grow(start: int, size: int, budget: Budget, beta: float, static: Static, stale: float) -> DoublingBound:
    """BBImprover's tight schedule for an excess risk, at one size (`treering.theory.schedule.improver`).

    The k-th doubling of the size after ``start`` has its `doubling_share` of budget and beta, spread evenly over m runs
    at equal growth factors. At size τ a model made at s ≥ τ/2^{1/m} has excess risk at most (s/τ)·α + (1 −
    s/τ)·``stale``, stale = Lipschitz constant times diameter: on the old entries the model's excess risk is at most α,
    on the new ones at most stale. The doubling's m is the one with the least bound; α is taken at the doubling's first
    size, so the bound holds throughout it.
    """
    if whole(size, "size") < whole(start, "start"):
        raise ParameterError("size", f"must be at least the starting size, {start:,}")
    doubling = (size // start).bit_length() - 1
    share = float(doubling_share(doubling)) * (1 - 2.0**-40)
    first = start * 2**doubling

    def with_runs(runs: int) -> DoublingBound:
        part = budget.share(share).share(1 / runs)
        chance = beta * share / runs
        late = -math.expm1(-math.log(2) / runs)
        return DoublingBound(static(first, part, chance) + late * stale, runs, part, chance)

    return _least(with_runs)


def _least(option: Callable[[int], DoublingBound]) -> DoublingBound:
    """The option with the best number of runs: of 1, 2, 4, …, then by halving steps around the best of them."""
    found = {runs: option(runs) for runs in (2**power for power in range(_MOST_RUNS.bit_length()))}
    runs = min(found, key=lambda each: found[each].alpha)
    step = max(1, runs // 4)
    while step >= max(1, runs // 16):
        for near in (runs - step, runs + step):
            if near >= 1 and near not in found:
                found[near] = option(near)
        runs = min(found, key=lambda each: found[each].alpha)
        step //= 2
    return found[runs]


def net_rate(problem: Problem) -> ErmRate:
    """A (p, p′, p″, g) with an explicit constant that is proven: the exponential mechanism over a net, pure.

    For ε ≤ 1, n ≥ 3, β ≤ 1/e and εn ≤ 2^20. Let w be the width of the loss's range, L the objective's Lipschitz
    constant, R the radius. A net of pitch p = 4wd/(εnL√d) has cover a = 2wd/(εnL), and at most (2(R+a)/p + 1)^d points
    on the lattice, log of which is at most d·log(εnLR/(2w√d) + √d + 1) ≤ d·log n·κ, κ = 1 + log(LR/(2w√d) + √d + 1).
    The bound is L·a + 2w/(εn)·(d·κ·log n + log(1/β)) + 2/2^20, so g = 2w·(d + dκ + 1) + 2 does; the width has room for
    rounding to 2^-20. A finer pitch than the largest net allows is refused when it is run, so this is for small n.
    """
    if problem.dimension > 3:
        raise GuaranteeError("a net is for at most 3 dimensions")
    width = float(loss_sensitivity(problem, Net(problem.radius, 1.0)))
    d = problem.dimension
    ratio = problem.whole_lipschitz * problem.radius / (2 * width * math.sqrt(d))
    kappa = 1 + math.log(ratio + math.sqrt(d) + 1)
    return ErmRate(1.0, 1.0, 1.0, 2 * width * (d + d * kappa + 1) + 2)


def _unlimited(problem: Problem) -> Static:
    """The least static bound, however many passes a run would take."""

    def static(size: int, budget: Budget, beta: float) -> float:
        bounds = [planned.alpha for planned in possible(problem, size, budget, beta)]
        if budget.kind == "zcdp":
            bounds.append(
                best_descent(problem, size, budget, beta, passes=_UNLIMITED, resolution=_FINEST)[0],
            )
        if not bounds:
            raise GuaranteeError(
                f"under delta = 0 there is no bound in {problem.dimension} dimensions: at most 3 have a net"
            )
        return min(bounds)

    return static


def _plain(dimension: int, strong_convexity: float | None) -> Problem:
    """A problem with a loss that is 1-Lipschitz, and not smooth, on a ball of diameter 1."""
    return Problem(Distance(), dimension, 0.5, 0.0 if strong_convexity is None else strong_convexity)


def _paper(profile: Profile) -> bool:
    check_profile(profile)
    return profile == "paper"
