"""The static boxes that release noisy counts: what noise a budget buys, and the accuracy that is proven for it.

Neighbours replace one row. Accuracies are functions of the *noise*, in rows; divide by the size. They are what a box
promises before it runs, so they keep the law that schedules for the whole future rest on: noise c times as wide gives
a bound at most c times as large (c ≥ 1), never a smaller one. A release may state less: see `drawn_radius`.

Marginals released side by side under one budget: how it is split over them, and how far they stray.

Neighbours replace one row, which moves two cells of every marginal by one each: a marginal with discrete Laplace noise
of scale 2/ε is ε-DP, one with discrete Gaussian noise of variance 1/ρ is ρ-zCDP, and they add up.

*Accuracy.* Let S run over the sets of attributes whose marginals are released, with c cells each. `subsets.all_subsets`
bounds the error of all queries over S at once. A query or its complement has at most half of the mass, and the total is
public, so r_S, the bound at mass c/2, bounds them all. The statements for all sets of 1 to ``ways`` attributes share
beta equally; those for the smaller sets, which are read off a released marginal by adding up cells, only tighten what
the released ones already say.

*Split.* In units of its noise scale, r_S is nearly a number κ_S of its own. Scales are proportional to 1/w for a share
w of a pure budget, to 1/√w for one of a zCDP budget; the largest error is smallest where all are equal, at w ∝ κ and at
w ∝ κ². The shares are exact rationals that sum to 1. They depend neither on the budget nor on beta (κ is taken at a
fixed one), so that the bounds, at given shares, keep the law of scaling of `cell_noise.smooth`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Final

from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Attributes
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.theory.cells import (
    CellNoise,
    LaplaceSumCell,
    SmoothLaplaceCell,
    SubGaussianCell,
    SubsetBound,
    all_subsets,
    exact,
    smooth,
)
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
    `treering.theory.cells`).
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


# -- marginals ---------------------------------------------------------------------------------------------------------


_WIDE: Final = 2.0**20
_USUAL_BETA: Final = 1e-4
"""Where κ is taken: wide noise, and a beta that a few hundred sets leave to each."""

_NARROW: Final = 2.0**-20
"""Where the bound is largest in units of the scale."""

_STEPS: Final = 256
"""κ is rounded to so many parts of one: finer would be of no use."""

_LONGEST_SUM: Final = 1024
"""Sums of more cells than this get no bound of their own."""


@dataclass(frozen=True)
class Marginals:
    """All sets of ``ways`` attributes of a universe, attributes of a single value left out.

    >>> Marginals((3, 1, 4, 2), 2).sets
    ((0, 2), (0, 3), (2, 3))
    """

    shape: tuple[int, ...]
    ways: int

    def __post_init__(self) -> None:
        whole(self.ways, "ways")
        if self.ways > len(self.positions):
            raise ParameterError(
                "ways", f"must be at most {len(self.positions)}, the number of attributes with more than one value"
            )

    @cached_property
    def positions(self) -> Attributes:
        """The attributes that have more than one value."""
        return tuple(position for position, size in enumerate(self.shape) if size > 1)

    @property
    def number(self) -> int:
        """How many sets there are; known before they are listed."""
        return math.comb(len(self.positions), self.ways)

    @cached_property
    def sets(self) -> tuple[Attributes, ...]:
        """The sets of attributes."""
        return tuple(combinations(self.positions, self.ways))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each marginal."""
        return tuple(self.cells(each) for each in self.sets)

    def cells(self, attributes: Attributes) -> int:
        """The number of joint values of some attributes."""
        return math.prod(self.shape[position] for position in attributes)

    def noises(self, budget: Budget) -> tuple[Noise, ...]:
        """The noise of each marginal: together they cost the budget, to within the rounding of scales, and no more."""
        return tuple(histogram_noise(budget.share(share)) for share in shares(budget.kind, self.sizes))

    def radius(self, budget: Budget, beta: float) -> float:
        """The error in rows that no query within a set exceeds, but with probability beta.

        It falls, or stays, when the budget or beta grows, and grows at most c-fold when a pure budget is divided by c,
        a zCDP one by c².
        """
        pairs = set(zip(self.noises(budget), self.sizes, strict=True))
        return max(_half(smooth(noise), cells, self._part(beta)) for noise, cells in pairs)

    @cached_property
    def rate(self) -> float:
        """g such that `radius` of a pure ε is at most g·log(1/β)/ε, for β ≤ ½: as `static.histogram_rate`."""
        split = dict(zip(self.sizes, shares("pure", self.sizes), strict=True))
        law, part = SmoothLaplaceCell(_NARROW), self._part(LARGEST_BETA)
        return max(rate_of(_half(law, cells, part) / _NARROW, 2 / share) for cells, share in split.items())

    def bound(self, noise: Noise, cells: int, beta: float) -> SubsetBound:
        """The bound for all queries over one released marginal. At half of the mass it is at most `radius`."""
        law, above = exact(noise), smooth(noise)
        part = self._part(beta)
        better = _half(law, cells, part) <= _half(above, cells, part)
        return all_subsets(law if better else above, cells, part)

    def projected_bound(self, noise: Noise, cells: int, summed: int, beta: float) -> SubsetBound | None:
        """The bound for all queries over a marginal of ``cells`` cells, each the sum of ``summed`` released ones.

        None where the sums are too long to be worth one: then what `bound` says of the released cells has to do.
        """
        if summed > _LONGEST_SUM:
            return None
        law: CellNoise = (
            LaplaceSumCell([(1.0, noise.scale)] * summed)
            if isinstance(noise, Laplace)
            else SubGaussianCell(noise.scale * math.sqrt(summed) * (1 + 1e-12))
        )
        return all_subsets(law, cells, self._part(beta))

    @cached_property
    def _statements(self) -> int:
        return sum(math.comb(len(self.positions), few) for few in range(1, self.ways + 1))

    def _part(self, beta: float) -> float:
        return beta / self._statements


def shares(kind: BudgetKind, sizes: Sequence[int]) -> tuple[Fraction, ...]:
    """How marginals of these sizes share a budget so that their largest errors are alike: positive, 1 in all.

    >>> shares("pure", [24, 24, 24])
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    """
    weights = [_weight(kind, cells) for cells in sizes]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def _weight(kind: BudgetKind, cells: int) -> int:
    """κ or κ², in steps."""
    noise: Noise = Laplace(_WIDE) if kind == "pure" else Gaussian(_WIDE)
    width = max(1, round(_half(smooth(noise), cells, _USUAL_BETA) / _WIDE * _STEPS))
    return width if kind == "pure" else width**2


@lru_cache(maxsize=2**12)
def _half(law: CellNoise, cells: int, beta: float) -> float:
    """The bound at half of the mass, the most that a query or its complement has."""
    return float(all_subsets(law, cells, beta).radius(cells / 2))
