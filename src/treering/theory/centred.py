"""How far answers stray when all cells of a histogram carry noise and the number of rows is known.

The number of rows is public, so the total of the noise is known, too, and an N-th of it is taken off each cell: X_i
becomes X_i − X̄. Answers are then consistent (a query and its complement sum to 1), and a query of weights w ∈
[0, 1]^N, mass m = Σw, has the error Σ (w_i − m/N)·X_i. Its variance is at most m(1 − m/N) times that of a cell, and it
is the same, but for its sign, for a query and its complement: m may be taken as at most N/2.

The bounds here hold for all queries together, so for those asked after the noise was seen. Two are taken, and the lower
counts. X is symmetric and independent from cell to cell; K(λ) ≥ log E e^{λX} is all that is known of it.

*Subsets one by one.* For a set of m cells, x = m/N, and any λ > 0: P(Σ (w_i − x)·X_i > R) ≤ e^{−λR + m·K(λ(1−x)) +
(N−m)·K(λx)}. There are C(N, m) sets of m cells and two signs; set size m gets β·w_m of β, with the w of
`treering.theory.pmwg.tight`, which sum to 1. For a mass between m and m+1 the largest error is reached with at most one
weight that is neither 0 nor 1 (a linear program over the weights), and the m or m+1 largest cells: so it is at most the
value in between, on the line from the bound for m to that for m+1.

*All at once.* |Σ (w_i − x)·X_i| ≤ |Σ w_i·X_i| + x·|ΣX_i|. `treering.theory.subsets` bounds the first for all w, and the
second is one sum.

K is tabulated. It is convex, so the line between two entries lies above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.params import probability, whole
from treering.theory.cells import CellNoise
from treering.theory.pmwg.tight import rarity
from treering.theory.subsets import all_subsets, subset_radius

SMALL: Final = 4096
"""Up to so many cells the worst query is looked for among all masses; beyond, its bound is that of half the cells."""

_BLOCK: Final = 1024
_UP: Final = 1 + 1e-12
_LOG_MARGIN: Final = 1e-6
"""More than the error of a logarithm of a binomial coefficient of up to 2^26 cells."""


@dataclass(frozen=True)
class CentredBound:
    """The bound for all queries at once on a histogram of ``cells`` cells whose total is known.

    Guarantee: with probability at least 1 − beta, |Σ (w_i − m/N)·X_i| ≤ radius(m) for all w ∈ [0, 1]^N, m = Σw.
    """

    noise: CellNoise
    cells: int
    beta: float

    def __post_init__(self) -> None:
        whole(self.cells, "cells")
        probability(self.beta, "beta")

    def radius(self, masses: npt.ArrayLike) -> Floats:
        """The bound for each mass, within 0 and the number of cells."""
        mass = np.asarray(masses, dtype=np.float64)
        mass = np.minimum(mass, self.cells - mass)
        below = np.floor(mass).astype(np.int64)
        needed, place = np.unique(np.concatenate([below.reshape(-1), below.reshape(-1) + 1]), return_inverse=True)
        low, high = self._sets(needed)[place.reshape(2, -1)]
        part = (mass - below).reshape(-1)
        one_by_one = ((1 - part) * low + part * high).reshape(mass.shape)
        bound: Floats = np.minimum(one_by_one, self._together(mass)) * _UP
        return bound

    @cached_property
    def worst(self) -> float:
        """A bound on the radius of every query."""
        together = float(self._together(np.array(self.cells / 2)))
        if self.cells > SMALL:
            return together * _UP
        steps = np.arange(self.cells // 2 + 2)
        sets = self._sets(steps)
        # Between two sizes: at most the larger end of the one, and the right end of the other, which rises.
        ends = np.maximum(sets[:-1], sets[1:])
        return float(np.minimum(ends, self._together(np.minimum(steps[1:], self.cells / 2))).max()) * _UP

    def _together(self, mass: Floats) -> Floats:
        every = all_subsets(self.noise, self.cells, self.beta / 4)
        return every.radius(mass) + mass / self.cells * self._total

    @cached_property
    def _total(self) -> float:
        return subset_radius(self.noise, [1.0], [self.cells], self.beta / 4)

    def _sets(self, sizes: Ints) -> Floats:
        """The bound for sets of so many cells, increasing sizes; past half of the cells, that of the complement."""
        sizes = np.minimum(sizes, self.cells - sizes)
        bounds = np.zeros(len(sizes))
        chosen = np.flatnonzero(sizes > 0)
        for start in range(0, len(chosen), _BLOCK):
            part = chosen[start : start + _BLOCK]
            tails = [log_choose(self.cells, size) + rarity(math.log(size)) for size in sizes[part].tolist()]
            bounds[part] = set_radius(self.noise, self.cells, sizes[part], np.array(tails) + math.log(4 / self.beta))
        return bounds


def set_radius(noise: CellNoise, cells: int, sizes: npt.ArrayLike, tails: Floats) -> Floats:
    """r with P(Σ (w_i − m/N)·X_i > r) ≤ e^{−tail} for a set of m cells given beforehand, for each size and its tail.

    Sizes lie above 0 and at most at half of the cells; w is 1 in the set and 0 elsewhere.
    """
    rates, moments = _table(noise)
    size = np.asarray(sizes, dtype=np.float64)[:, np.newaxis]
    share = size / cells
    # With λ = rate/(1−x) the cells inside are at the table's rates, those outside at rate·x/(1−x) ≤ rate.
    outside = np.interp(rates * (share / (1 - share)), [0.0, *rates], [0.0, *moments])
    exponents = size * moments + (cells - size) * outside
    least: Floats = np.min((exponents + tails[:, np.newaxis]) * (1 - share) / rates, axis=1)
    return least * _UP


def log_choose(cells: int, size: int) -> float:
    """log C(cells, size), a hair more."""
    return math.lgamma(cells + 1) - math.lgamma(size + 1) - math.lgamma(cells - size + 1) + _LOG_MARGIN


@lru_cache(maxsize=256)
def _table(noise: CellNoise) -> tuple[Floats, Floats]:
    """The rates worth trying and K there, where it is finite."""
    rates = noise.rates
    moments = noise.log_moment(rates)
    finite = np.isfinite(moments)
    return rates[finite], moments[finite]
