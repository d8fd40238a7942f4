"""The weights of a series' releases: integers near 2^12·C(2k, k)/4^k, and the exact sum of their squares.

r_k = C(2k, k)/4^k are the coefficients of (1−x)^{−1/2}, whose square is 1/(1−x): the matrix that sums leaves up is the
square of the one that has r_{t−s} in row t, column s. `treering.theory.series` says what that is good for.

*Cost.* The release of leaf t is Σ_{s≤t} w_{t−s}·(rows of leaf s), so a row of leaf s is in the releases of the leaves
s, s+1, …, T of its segment with the weights w_0, w_1, …, w_{T−s}. Replaced by a row of another group, it moves two
groups by these: the squared L2 distance of all releases together is 2·Σ_{k≤T−s} w_k² ≤ 2·`squares`(T). What a release
costs is derived from its integer weights, so no promise rests on how near they are to the reals they stand for.

*Every machine has the same weights.* A quotient and a product are rounded once each, as IEEE 754 prescribes, and
products are taken in the order of k: w_k does not depend on the machine or on how many are asked for. The product has
an error of at most 2k·2^−53 ≤ 2^−32 relative, and for no k < 2^20 is it that near to the middle between two integers
(a test looks at all of them): w_k is the integer nearest to 2^12·r_k.

>>> root_weights(6), squares(2) == 4096**2 + 2048**2
(array([4096, 2048, 1536, 1280, 1120, 1008]), True)
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from treering.arrays import Ints
from treering.errors import ParameterError
from treering.params import whole

UNIT: Final = 2**12
"""The weight that stands for 1: releases are in units of 1/UNIT rows."""

LONGEST: Final = 2**20
"""The most weights there are, and so the most leaves that a segment has. None of them is 0: the last is 2."""


def root_weights(length: int) -> Ints:
    """The weights w_k for k < ``length``, positive and never rising; read-only."""
    if whole(length, "length") > LONGEST:
        raise ParameterError("length", f"must be at most 2^20, not {length}")
    return _weights(1 << (length - 1).bit_length())[:length]


def squares(length: int) -> int:
    """Σ w_k² over k < ``length``, exactly: at most 2^24·2^20, it is within 64 bits."""
    weights = root_weights(length)
    return int(np.sum(weights * weights))


@cache
def _weights(length: int) -> Ints:
    """The weights, for each of the 21 powers of two computed once."""
    doubles = np.arange(2.0, 2.0 * length, 2.0)
    roots = np.cumprod(np.concatenate(([1.0], (doubles - 1) / doubles)))
    weights: Ints = np.rint(UNIT * roots).astype(np.int64)
    weights.setflags(write=False)
    return weights
