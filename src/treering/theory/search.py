"""Numerical searches: bisection, golden section; and the weights that share a failure probability over endless events.

No proof depends on how well a search did: a bound holds at whatever point was found, and a better point only makes it
tighter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

GOLDEN: Final = (math.sqrt(5) - 1) / 2
_SMALLEST: Final = 2.0**-1022

# -- bisection for the least number at which a condition holds ---------------------------------------------------------


def least_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer above ``low`` for which ``holds`` is true, by bisection.

    ``holds`` must be true at ``high``, and once true it must stay true for all larger integers.

    >>> least_whole(lambda number: number * number >= 200, 0, 100)
    15
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def doubled_whole(holds: Callable[[int], bool], low: int, high: int, most: float = math.inf) -> tuple[int, int] | None:
    """A pair (low, high) to call `least_whole` with: ``high`` is doubled until ``holds`` is true for it.

    None if ``holds`` is still false at the first ``high`` above ``most``.
    """
    while not holds(high):
        if high > most:
            return None
        low, high = high, 2 * high
    return low, high


def first_whole(holds: Callable[[int], bool], low: int = 0, high: int = 1) -> int:
    """The least integer above ``low`` for which ``holds`` is true; the search starts at ``high``, without a limit.

    >>> first_whole(lambda number: number * number >= 200)
    15
    """
    found = doubled_whole(holds, low, high)
    assert found is not None  # None is returned only where there is a limit
    return least_whole(holds, *found)


def roughly_whole(holds: Callable[[int], bool], start: int, most: float) -> int | None:
    """An integer above ``start`` for which ``holds`` is true, at most about a tenth above the least such integer.

    None if ``holds`` is false up to about ``most``.
    """
    found = doubled_whole(holds, start, 2 * start, most)
    if found is None:
        return None
    low, high = found
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def least_positive(holds: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """The least positive number for which ``holds`` is true, too large by at most the relative error ``close``.

    ``holds`` must be true at ``high``; ``low`` is halved for as long as ``holds`` is true at it, too.

    >>> round(least_positive(lambda number: number >= 0.3, 0.5, 1.0, 1e-6), 5)
    0.3
    """
    while holds(low):
        low, high = low / 2, low
    return narrowed(holds, low, high, close)


def narrowed(holds: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """`least_positive` between two positive numbers: ``holds`` is true at ``high`` and false at ``low``."""
    while high > low * (1 + close):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# -- golden section for the minimum of a function ----------------------------------------------------------------------


def golden(function: Callable[[float], float], low: float, high: float, width: float = 0.01) -> float:
    """The x in [low, high] at which a unimodal function has its minimum, to within ``width``.

    >>> abs(golden(lambda x: (x - 0.3) ** 2, 0.0, 1.0) - 0.3) < 0.01
    True
    """
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > width:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right


def least_near(value: Callable[[float], float], points: Iterable[float], steps: int) -> float:
    """The x at which ``value`` is least: the best of ``points``, then ``steps`` golden sections of log x around it.

    The result is never worse than the best of the points.
    """
    grid = sorted(points)
    values = [value(point) for point in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    low, high = math.log(grid[max(0, best - 1)]), math.log(grid[min(len(grid) - 1, best + 1)])
    found, least = grid[best], values[best]
    for _ in range(steps):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        at_left, at_right = value(math.exp(left)), value(math.exp(right))
        for point, reached in ((left, at_left), (right, at_right)):
            if reached < least:
                found, least = math.exp(point), reached
        low, high = (low, right) if at_left <= at_right else (left, high)
    return found


# -- failure probabilities: w_j = 1/(1+log j) − 1/(1+log(j+1)), which sum to 1 -----------------------------------------


def rarity(log_index: float) -> float:
    """−log w_j at u = log j = log_index ≥ 0; j is real and may be too large for a float.

    Relative to its value it grows no faster than u: its derivative is at most 1 + 2/(1+u), its value at least u +
    2·log(1+u), and u/(1+u) ≤ log(1+u). So, with any constant c ≥ 0, (c + rarity(log J(t)))/t^s does not rise if
    log J(t)/t^s does not.
    """
    inverse = math.exp(-log_index)
    following = log_index + math.log1p(inverse)
    ratio = math.log1p(inverse) / inverse if inverse > 0 else 1.0
    return log_index - math.log(ratio) + math.log1p(log_index) + math.log1p(following)


def chance_of(log_beta: float) -> float:
    """e^log_beta, but at least the smallest normal float: that adds less than 2^-1021 to a failure probability."""
    return max(_SMALLEST, math.exp(max(-745.0, log_beta)))
