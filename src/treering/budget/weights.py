"""The weights of a series' releases: integers near reals that fall slowly, and the exact sum of their squares.

There are two rules. r_k = C(2k, k)/4^k are the coefficients of (1−x)^{−1/2}, whose square is 1/(1−x): the matrix that
sums leaves up is the square of the one that has r_{t−s} in row t, column s. `Weights.ROOT` are the integers nearest to
2^12·r_k, the best there is if one knows how many leaves there will be. `Weights.FADING` are those nearest to
2^12·r_k/(1 + H_k/6), H_k = 1 + 1/2 + … + 1/k: they fall a little faster, so that the sum of their squares hardly grows
with the number of leaves, and nobody need know it. `treering.theory.series` says what both are good for.

*Cost.* The release of leaf t is Σ_{s≤t} w_{t−s}·(rows of leaf s), so a row of leaf s is in the releases of the leaves
s, s+1, …, T of its segment with the weights w_0, w_1, …, w_{T−s}. Replaced by a row of another group, it moves two
groups by these: the squared L2 distance of all releases together is 2·Σ_{k≤T−s} w_k² ≤ 2·`squares`(T). What a release
costs is derived from its integer weights, so no promise rests on how near they are to the reals they stand for.

*Every machine has the same weights.* Quotients, products and sums are rounded once each, as IEEE 754 prescribes, and
taken in the order of k: w_k does not depend on the machine or on how many are asked for. The product r_k has an error
of at most 2k·2^−53 relative, the sum H_k one of at most (k+1)·2^−53, and four more roundings follow: together less than
2^−31, and for no k < 2^20 is the result that near to the middle between two integers (a test looks at all of them). So
w_k is the integer nearest to the real.

>>> Weights.ROOT.first(6), Weights.ROOT.squares(2) == 4096**2 + 2048**2
(array([4096, 2048, 1536, 1280, 1120, 1008]), True)
>>> Weights.FADING.first(6)
array([4096, 1755, 1229,  980,  831,  730])
"""

from __future__ import annotations

from enum import Enum
from functools import cache, lru_cache
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.errors import ParameterError
from treering.params import whole

UNIT: Final = 2**12
"""The weight that stands for 1: releases are in units of 1/UNIT rows."""

LONGEST: Final = 2**20
"""The most weights there are, and so the most leaves that a segment has. None of them is 0."""

_FADING: Final = 6.0
"""The larger, the slower `Weights.FADING` fall. With this, the deviation after 365 leaves and after 10,000 is less than
1.3 times the least there is for so many (tests of `treering.theory.series` look at it)."""


class Weights(Enum):
    """A rule for the weights of a segment's releases."""

    ROOT = "root"
    FADING = "fading"

    def first(self, length: int) -> Ints:
        """The weights w_k for k < ``length``, positive and never rising; read-only."""
        if whole(length, "length") > LONGEST:
            raise ParameterError("length", f"must be at most 2^20, not {length}")
        return _weights(self, 1 << (length - 1).bit_length())[:length]

    def squares(self, length: int) -> int:
        """Σ w_k² over k < ``length``, exactly: at most 2^24·2^20, it is within 64 bits."""
        return _squares(self, whole(length, "length"))


@lru_cache(maxsize=1024)
def _squares(rule: Weights, length: int) -> int:
    weights = rule.first(length)
    return int(np.dot(weights, weights))


@cache
def _weights(rule: Weights, length: int) -> Ints:
    """The weights, for each of the 21 powers of two computed once."""
    doubles = np.arange(2.0, 2.0 * length, 2.0)
    reals: Floats = np.cumprod(np.concatenate(([1.0], (doubles - 1) / doubles))).astype(np.float64)
    if rule is Weights.FADING:
        reals /= 1 + np.cumsum(np.concatenate(([0.0], 2 / doubles))) / _FADING
    weights = np.rint(UNIT * reals).astype(np.int64)
    weights.setflags(write=False)
    return weights
