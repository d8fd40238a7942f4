"""The inverse questions: the least epsilon, or the fewest rows, with which a mechanism guarantees a wanted alpha.

More epsilon and more rows never make a guarantee worse, so the answers lie where `Candidate.meets` turns true. What is
returned was checked with it. It is found by bisection, in logarithms; where a mechanism has a fast `shortfall`, by
secants on that, which is nearly a power law, and then checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from treering.theory.plan_case import Candidate, Case

LEAST_EPSILON: Final = 1e-9
MOST_EPSILON: Final = 1e6
MOST_ROWS: Final = 2**60

_CLOSE: Final = 0.002
_HIGHEST: Final = 50.0
_NEAR: Final = 3e-4
_FLAT: Final = -0.15
"""Where the shortfall falls no faster than this, a little of it is a lot of epsilon."""


def least_epsilon(candidate: Candidate, case: Case, alpha: float) -> float:
    """The least epsilon for alpha, within one per cent; infinite where a million would not do."""
    goal = alpha * (1 - candidate.coarseness)
    return _least(
        lambda epsilon: candidate.meets(case.at(epsilon=epsilon), goal),
        lambda epsilon: candidate.shortfall(case.at(epsilon=epsilon), goal),
        1.0,
        LEAST_EPSILON,
        MOST_EPSILON,
    )


def least_size(candidate: Candidate, case: Case, alpha: float) -> float:
    """The fewest rows to start with for alpha, within one per cent or a row; infinite where 2^60, or the horizon,
    would not do."""
    goal = alpha * (1 - candidate.coarseness)
    most = min(float(MOST_ROWS), case.horizon) if case.grows else float(MOST_ROWS)
    found = _least(
        lambda size: candidate.meets(case.at(size=math.ceil(size)), goal),
        lambda size: candidate.shortfall(case.at(size=math.ceil(size)), goal),
        min(most, 1e6),
        1.0,
        most,
    )
    return found if found == math.inf else float(math.ceil(found))


def _least(
    meets: Callable[[float], bool],
    shortfall: Callable[[float], float | None],
    guess: float,
    least: float,
    most: float,
) -> float:
    """Where ``meets``, which turns true once, begins to hold."""
    if shortfall(guess) is None:
        return _bisected(meets, guess, least, most, 4.0)
    found, flat = _root(lambda place: _height(shortfall(place)), guess, least, most)
    near = min(most, max(least, found))  # logarithms round
    for step in range(1, 1 if flat else 9):
        trial = min(most, near * (1 + 0.0015 * step))
        if meets(trial):
            return trial
    return _bisected(meets, near, least, most, 1.05, 0.01)


def _height(value: float | None) -> float:
    return _HIGHEST if value is None or value == math.inf else min(_HIGHEST, math.log(value))


def _root(height: Callable[[float], float], guess: float, least: float, most: float) -> tuple[float, bool]:
    """Where a falling function changes its sign, nearly, and whether it is flat there (or the place is an end)."""
    low, high = math.log(least), math.log(most)
    place = other = math.log(guess)
    value = beyond = height(guess)
    while value * beyond > 0:  # outwards
        if other == (high if beyond > 0 else low):
            return math.exp(other), True
        place, value = other, beyond
        step = math.copysign(min(4.0, max(0.3, 1.3 * abs(value))), value)
        other = min(high, max(low, place + step))
        beyond = height(math.exp(other))
    (left, above), (right, below) = sorted([(place, value), (other, beyond)])
    halve = above >= _HIGHEST
    while right - left > _NEAR and min(above, -below) > _NEAR:  # inwards: secants, halving where they do not halve
        width = right - left
        place = (left + right) / 2 if halve else left + width * above / (above - below)
        value = height(math.exp(place))
        left, above, right, below = (place, value, right, below) if value > 0 else (left, above, place, value)
        halve = right - left > width / 2 and not halve
    slope = (below - above) / max(right - left, _NEAR)
    return math.exp(left if above < -below else right), slope > _FLAT


def _bisected(
    meets: Callable[[float], bool], guess: float, least: float, most: float, step: float, close: float = _CLOSE
) -> float:
    """From a guess by growing factors, then by bisection."""
    low, high = least, most
    if meets(guess):
        high = guess
        while high > least and meets(trial := max(least, high / step)):
            high, step = trial, step**2
        if high <= least:
            return least
        low = trial
    else:
        low = guess
        while low < most and not meets(trial := min(most, low * step)):
            low, step = trial, step**2
        if low >= most:
            return math.inf
        high = trial
    while high > low * (1 + close):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high
