"""Searching for a number: bisection, golden section, and chances that are shared out over an endless list.

What is found here is only as good as it is; that a bound holds never rests on how well it was searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

GOLDEN: Final = (math.sqrt(5) - 1) / 2
_SMALLEST: Final = 2.0**-1022

# -- bisection ---------------------------------------------------------------------------------------------------------


def least_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer above ``low``, up to ``high``, for which a condition holds: it does for ``high``, and for
    everything above the first for which it does.

    >>> least_whole(lambda number: number * number >= 200, 0, 100)
    15
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def doubled_whole(holds: Callable[[int], bool], low: int, high: int, most: float = math.inf) -> tuple[int, int] | None:
    """Neighbours of the kind that `least_whole` takes: ``high`` is doubled until the condition holds for it. None if it
    does not up to ``most``."""
    while not holds(high):
        if high > most:
            return None
        low, high = high, 2 * high
    return low, high


def first_whole(holds: Callable[[int], bool], low: int = 0, high: int = 1) -> int:
    """The least integer above ``low`` for which a condition holds, first looked for at ``high``.

    >>> first_whole(lambda number: number * number >= 200)
    15
    """
    found = doubled_whole(holds, low, high)
    assert found is not None  # without a limit it goes on until there is one
    return least_whole(holds, *found)


def roughly_whole(holds: Callable[[int], bool], start: int, most: float) -> int | None:
    """An integer above ``start`` for which a condition holds, at most about a tenth above the least such. None if it
    does not hold up to about ``most``."""
    found = doubled_whole(holds, start, 2 * start, most)
    if found is None:
        return None
    low, high = found
    while high > 1.1 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def least_positive(holds: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """The least positive number for which a condition holds, at most a part ``close`` too large.

    It holds for ``high``; ``low`` is halved for as long as it holds for it too.

    >>> round(least_positive(lambda number: number >= 0.3, 0.5, 1.0, 1e-6), 5)
    0.3
    """
    while holds(low):
        low, high = low / 2, low
    return narrowed(holds, low, high, close)


def narrowed(holds: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """The same between two positive numbers, for the upper one of which it holds."""
    while high > low * (1 + close):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# -- golden section ----------------------------------------------------------------------------------------------------


def golden(function: Callable[[float], float], low: float, high: float, width: float = 0.01) -> float:
    """Where a function with one valley is nearly least, to within ``width``.

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
    """Where a function is least: the best of the points, then golden sections on the logarithmic scale around it.

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


# -- chances -----------------------------------------------------------------------------------------------------------


def rarity(log_index: float) -> float:
    """−log w_j at log j = log_index ≥ 0, j real and perhaps beyond the floats.

    In proportion it grows no faster than u = log j: its derivative is at most 1 + 2/(1+u), its value at least u +
    2·log(1+u), and u/(1+u) ≤ log(1+u). So, with any constant c ≥ 0, (c + rarity(log J(t)))/t^s does not rise if
    log J(t)/t^s does not.
    """
    inverse = math.exp(-log_index)
    following = log_index + math.log1p(inverse)
    ratio = math.log1p(inverse) / inverse if inverse > 0 else 1.0
    return log_index - math.log(ratio) + math.log1p(log_index) + math.log1p(following)


def chance_of(log_beta: float) -> float:
    """β as a float; never 0. Clamping it there adds less than 2^-1021 to what may fail."""
    return max(_SMALLEST, math.exp(max(-745.0, log_beta)))
