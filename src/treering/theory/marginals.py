"""Marginals released side by side under one budget: how it is split over them, and how far they stray.

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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Final, TypeAlias

from treering.budget.promise import Budget, Kind
from treering.errors import ParameterError
from treering.gate import Gaussian, Laplace, Noise
from treering.params import whole
from treering.theory.cells import CellNoise, LaplaceSumCell, SmoothLaplaceCell, SubGaussianCell, exact, smooth
from treering.theory.static import LARGEST_BETA, histogram_noise, rate_of
from treering.theory.subsets import SubsetBound, all_subsets

Attributes: TypeAlias = tuple[int, ...]

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


def shares(kind: Kind, sizes: Sequence[int]) -> tuple[Fraction, ...]:
    """How marginals of these sizes share a budget so that their largest errors are alike: positive, 1 in all.

    >>> shares("pure", [24, 24, 24])
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    """
    weights = [_weight(kind, cells) for cells in sizes]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def _weight(kind: Kind, cells: int) -> int:
    """κ or κ², in steps."""
    noise: Noise = Laplace(_WIDE) if kind == "pure" else Gaussian(_WIDE)
    width = max(1, round(_half(smooth(noise), cells, _USUAL_BETA) / _WIDE * _STEPS))
    return width if kind == "pure" else width**2


@lru_cache(maxsize=2**12)
def _half(law: CellNoise, cells: int, beta: float) -> float:
    """The bound at half of the mass, the most that a query or its complement has."""
    return float(all_subsets(law, cells, beta).radius(cells / 2))
