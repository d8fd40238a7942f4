"""The static boxes that release noisy counts: what noise a budget buys, and the accuracy that is proven for it.

Neighbours replace one row. Accuracies are functions of the *noise*, in rows; divide by the size. They are what a box
promises before it runs, so they keep the law that schedules for the whole future rest on: noise c times as wide gives
a bound at most c times as large (c ≥ 1), never a smaller one. A release may state less: see `drawn_radius`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from treering.budget.promise import Budget
from treering.gate import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.theory.cells import SmoothLaplaceCell, smooth
from treering.theory.subsets import all_subsets
from treering.theory.tails import gaussian_radius, laplace_radius

_ROUNDING: Final = 1 + 1e-12

_ONE_WIDTH: Final = math.erfc(1 / math.sqrt(2))
"""P(|N(0, 1)| > 1)."""

LARGEST_BETA: Final = 0.5
"""A rate's constant holds for failure probabilities up to here. The paper's schedules take none above."""

# -- noise that a budget buys ------------------------------------------------------------------------------------------


def answers_noise(budget: Budget, spreads: Iterable[Fraction], laplace: bool = False) -> Noise:
    """The noise with which answers to these queries together cost the budget, or a hair less.

    A replaced row moves the answers by their spreads (in rows) at most. Pure: Laplace noise, Σ spread/s = ε. zCDP:
    Gaussian noise, Σ spread²/(2σ²) = ρ; Laplace noise costs the same, Σ (spread/s)²/2.
    """
    moved = tuple(spreads)
    if budget.kind == "pure":
        return Laplace(at_least(sum(moved, Fraction(0)) / budget.total))
    scale = root_at_least(sum((spread**2 for spread in moved), Fraction(0)) / (2 * budget.total))
    return Laplace(scale) if laplace else Gaussian(scale)


def histogram_noise(budget: Budget, laplace: bool = False) -> Noise:
    """The noise with which a histogram costs the budget: a replaced row moves two cells by one each."""
    return answers_noise(budget, (Fraction(1), Fraction(1)), laplace)


# -- accuracy, in rows -------------------------------------------------------------------------------------------------


def answer_radius(noise: Noise, beta: float) -> float:
    """A draw exceeds this, in absolute value, with probability at most beta.

    Laplace: P(|X| > r) = 2p^{⌊r⌋+1}/(1+p) ≤ β for r = s·(log(2/β) − log(1+p)), and r/s falls as s grows.
    Gaussian, the smaller of two: σ·√(2·log(2/β)) by Chernoff; and σ·z + ½ with P(|N(0, 1)| > z) = β where z ≥ 1, since
    ⌊r⌋ + 1 ≥ σ + ½ (see `treering.theory.tails.gaussian_tail`, whose argument needs no more).
    """
    chance = float(probability(beta, "beta"))
    if isinstance(noise, Laplace):
        return noise.scale * (math.log(2 / chance) - math.log1p(math.exp(-1 / noise.scale))) * _ROUNDING
    chernoff = noise.scale * math.sqrt(2 * math.log(2 / chance))
    normal = noise.scale * -NormalDist().inv_cdf(min(chance, _ONE_WIDTH) / 2) * (1 + 1e-9) + 0.5
    return min(chernoff * _ROUNDING, normal)


@lru_cache(maxsize=1024)
def drawn_radius(noise: Noise, scale: int, beta: float) -> int:
    """The least integer that a draw for a query of this weight scale exceeds with probability at most beta, in units of
    1/scale rows: what a release states, where a promise states `answer_radius`."""
    radius = laplace_radius if isinstance(noise, Laplace) else gaussian_radius
    return radius(noise.scale * scale, beta)


def histogram_radius(noise: Noise, cells: int, beta: float) -> float:
    """With probability at least 1 − beta every query, chosen after the release, is answered within so many rows.

    The total is public, so a query is answered by the lighter of it and its complement: the mass is at most N/2 (see
    `treering.theory.subsets`).
    """
    return float(all_subsets(smooth(noise), whole(cells, "cells"), beta).radius(cells / 2))


# -- the paper's rates -------------------------------------------------------------------------------------------------


def histogram_rate(cells: int) -> float:
    """g such that `histogram_radius` of a pure ε is at most g·log(1/β)/ε, for β ≤ ½ and every ε.

    In units of the scale the bound is largest for the narrowest noise, and concave in log(1/β) (a minimum of affine
    functions), so its ratio to log(1/β) is largest at β = ½.
    """
    narrow = 2.0**-20
    bound = all_subsets(SmoothLaplaceCell(narrow), cells, LARGEST_BETA).radius(cells / 2)
    return rate_of(float(bound) / narrow, 2)


def answers_rate(queries: int, moved: Fraction) -> float:
    """g such that `answer_radius` at beta over the number of queries is at most g·log(1/β)/ε, β ≤ ½: log(2k/β) ≤
    (1 + log(2k)/log 2)·log(1/β)."""
    return rate_of(math.log(2 * whole(queries, "queries") / LARGEST_BETA), moved)


def rate_of(units: float, moved: Fraction | int) -> float:
    """The constant of a bound of ``units`` noise scales at β = ½, the scale being ``moved``/ε."""
    return float(moved) * units / math.log(1 / LARGEST_BETA) * (1 + 1e-9)
