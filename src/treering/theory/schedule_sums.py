"""Sums over all epochs, the infinite tail included, from above; and the search for the best growth.

Privacy hangs on these sums, so they are upper bounds by proof, and tight enough that nothing worth mentioning is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from treering.arrays import Floats

_FIRST: Final = {False: 64, True: 4096}
_PER_DOUBLING: Final = {False: 24, True: 5000}
_LEAST_PER_DOUBLING: Final = 8
_REACH: Final = 50.0
_MARGIN: Final = 1 + 2.0**-36
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def geometric(decay: float) -> float:
    """Σ_{i≥0} e^{−si}, s = decay."""
    return -1 / math.expm1(-decay)


@lru_cache(maxsize=4096)
def log_sums(decay: float, fine: bool) -> tuple[float, float]:
    """Upper bounds of Σ_{i≥0} log(i+1)·e^{−si} and Σ_{i≥0} log²(i+1)·e^{−si}, s = decay.

    With ``fine`` they are within 10^-9 of the sums in proportion, otherwise within 10^-3.

    Proof. The first terms are summed one by one. The rest is cut into blocks a ≤ i < b. Within a block the weights
    e^{−si} fall, so the weighted mean of i is at most the middle, (a+b−1)/2; log and log² rise, and from i = 2 on they
    are concave, so by Jensen's inequality their weighted mean is at most their value there. The last block is infinite,
    with mean a + 1/(e^s−1). Rounding is covered by the factor 1 + 2^-36.
    """
    first = _FIRST[fine]
    index = np.arange(first, dtype=np.float64)
    singles = np.exp(-decay * index)
    logs = np.log1p(index)
    edges = _edges(first, decay, _PER_DOUBLING[fine])
    begin, width = edges[:-1], np.diff(edges)
    weights = np.exp(-decay * begin) * np.expm1(-decay * width) / math.expm1(-decay)
    middles = np.log1p(begin + (width - 1) / 2)
    last = float(edges[-1])
    tail = math.exp(-decay * last) * geometric(decay)
    beyond = math.log1p(last + 1 / math.expm1(decay))
    plain = float(singles @ logs + weights @ middles) + tail * beyond
    squares = float(singles @ logs**2 + weights @ middles**2) + tail * beyond**2
    return plain * _MARGIN, squares * _MARGIN


def _edges(first: int, decay: float, per_doubling: int) -> Floats:
    """Whole numbers from ``first`` to where the weights vanish: about so many to a doubling, fewer where i ≪ 1/s.

    A doubling at i has the share si of the sum, and blocks of a k-th of a doubling an error of the order of 1/k²: for a
    given error the blocks are fewest when k is in proportion to the cube root of the share.
    """
    begin, pieces = float(first), []
    while True:
        steps = max(_LEAST_PER_DOUBLING, math.ceil(per_doubling * min(1.0, decay * begin) ** (1 / 3)))
        pieces.append(np.ceil(begin * np.exp2(np.arange(steps) / steps)))
        begin *= 2
        if begin * decay > _REACH:
            break
    edges: Floats = np.unique(np.concatenate([*pieces, [begin]]))
    return edges


def ramp_sums(decay: float) -> tuple[float, float]:
    """Σ_{i≥0} (i+1)·e^{−si} = 1/(1−q)² and Σ_{i≥0} (i+1)²·e^{−si} = (1+q)/(1−q)³, q = e^{−s}; from above."""
    total = geometric(decay)
    return total**2 * _MARGIN, (1 + math.exp(-decay)) * total**3 * _MARGIN


def minimise(value: Callable[[float], float], points: Iterable[float], steps: int) -> float:
    """Where a function is least: the best of the points, then golden sections on the logarithmic scale around it.

    Only quality hangs on this: the result is never worse than the best of the points.
    """
    grid = sorted(points)
    values = [value(point) for point in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    low, high = math.log(grid[max(0, best - 1)]), math.log(grid[min(len(grid) - 1, best + 1)])
    found, least = grid[best], values[best]
    for _ in range(steps):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = value(math.exp(left)), value(math.exp(right))
        for point, reached in ((left, at_left), (right, at_right)):
            if reached < least:
                found, least = math.exp(point), reached
        low, high = (low, right) if at_left <= at_right else (left, high)
    return found
