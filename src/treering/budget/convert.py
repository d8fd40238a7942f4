"""Conversions between ρ-zCDP and (ε, δ)-DP, as tight as is known; ``theory/conversion.py`` has the paper's.

Tight (Canonne, Kamath and Steinke 2020, Corollary 13): ρ-zCDP implies (ε, δ)-DP whenever, for some α > 1,
δ ≥ e^{(α−1)(αρ−ε)}·(1−1/α)^α/(α−1). With x = α − 1 and L = log(1/δ) this reads, solved for each of the three,

    ε(x) = (1+x)ρ − log(1+1/x) + (L − log(1+x))/x
    ρ(x) = (ε + log(1+1/x) − (L − log(1+x))/x) / (1+x)
    log δ(x) = x((1+x)ρ − ε − log(1+1/x)) − log(1+x)

*Every* x > 0 gives a true guarantee, so the search for x decides only how tight a result is, never whether it holds.
Each search is for the root of a monotone function:

    ε: ∂ε/∂x = (ρx² + log(1+x) − L)/x², and its numerator increases in x
    δ: ∂(log δ)/∂x = (1+2x)ρ − ε − log(1+1/x), which increases in x
    ρ: where the numerator above is 0, ρ = (L − log(1+x))/x² and ε = (1+2x)ρ − log(1+1/x);
       ρ decreases in x, and the least ε increases in ρ, so along that curve ε decreases in x

Rounding. Results are floats on the safe side. A value is a sum of a few terms, each a handful of operations and
library logarithms with relative errors of some 2^-52; widening the value by 2^-44 of the sum of the terms' magnitudes
covers them with room.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from treering.errors import ParameterError
from treering.params import Number, at_least, exact, probability

MARGIN: Final = 2.0**-44
_LARGEST_LOG_X: Final = 690.0

_TINY: Final = 1e-100
HUGE: Final = 1e100
"""Parameters beyond these limits are moved to them, on the safe side, so that no product overflows."""


def epsilon_of(rho: Number, delta: Number) -> float:
    """The ε for which ρ-zCDP implies (ε, δ)-DP: the least that Corollary 13 gives, rounded up.

    >>> round(epsilon_of(0.5, 1e-5), 4)
    4.7284
    """
    tail = log_inverse(delta)
    if is_zero(rho):
        return 0.0
    if exact(rho, "rho") > HUGE:
        return math.inf
    cost = upper(rho, "rho")
    # At the right end ρx² alone reaches L; at the left end each of the two terms is at most L/2.
    right = math.log(tail / cost) / 2
    left = min(right - 0.5, math.log(tail / 2))
    log_x = _root(lambda u: cost * math.exp(2 * u) + math.log1p(math.exp(u)) - tail, left, right)
    return max(0.0, _epsilon_at(math.exp(log_x), cost, tail))


def rho_of(epsilon: Number, delta: Number) -> Fraction:
    """The most ρ for which ρ-zCDP implies (ε, δ)-DP by Corollary 13, rounded down: epsilon_of(rho_of(ε, δ), δ) ≤ ε."""
    goal = lower(epsilon, "epsilon")
    tail = log_inverse(delta)

    def excess(log_x: float) -> float:
        x = math.exp(log_x)
        return goal + math.log1p(1 / x) - (1 + 2 * x) * ((tail - math.log1p(x)) / x / x)

    # At x = 1/δ − 1 the curve has ρ = 0 and ε < 0.
    right = min(_LARGEST_LOG_X, math.log(math.expm1(min(tail, _LARGEST_LOG_X))))
    width = 1.0
    while excess(right - width) > 0:
        width *= 2
    x = math.exp(_root(excess, right - width, right))
    best = (goal + math.log1p(1 / x) - (tail - math.log1p(x)) / x) / (1 + x)
    return largest(best, lambda rho: epsilon_of(rho, delta) <= goal)


def delta_of(rho: Number, epsilon: Number) -> float:
    """The δ for which ρ-zCDP implies (ε, δ)-DP: the least that Corollary 13 gives, rounded up; 0 only if ρ is 0."""
    goal = 0.0 if is_zero(epsilon) else lower(epsilon, "epsilon")
    if is_zero(rho):
        return 0.0
    if exact(rho, "rho") > HUGE:
        return 1.0
    cost = upper(rho, "rho")

    def slope(log_x: float) -> float:
        # log(1+1/x) = log(1+x) − log x, which does not overflow.
        return (1 + 2 * math.exp(log_x)) * cost - goal - math.log1p(math.exp(log_x)) + log_x

    right = math.log(max(1.0, (goal + 1) / (2 * cost)))
    x = math.exp(_root(slope, -3 * cost - 1, right))
    if x < _TINY:
        return 1.0
    terms = (x * (1 + x) * cost, -x * goal, -x * math.log1p(1 / x), -math.log1p(x))
    exponent = min(0.0, math.fsum(terms) + MARGIN * math.fsum(map(abs, terms)))
    return min(1.0, max(sys.float_info.min, math.exp(exponent) * (1 + MARGIN)))


def _epsilon_at(x: float, rho: float, tail: float) -> float:
    terms = ((1 + x) * rho, -math.log1p(1 / x), tail / x, -math.log1p(x) / x)
    return math.fsum(terms) + MARGIN * math.fsum(map(abs, terms))


def _root(increasing: Callable[[float], float], left: float, right: float) -> float:
    """Where an increasing function changes sign, by bisection to the last bit."""
    while left < (middle := (left + right) / 2) < right:
        if increasing(middle) < 0:
            left = middle
        else:
            right = middle
    return right


def largest(value: float, fits: Callable[[Fraction], bool]) -> Fraction:
    """The first candidate that fits, of candidates ever further below ``value``: ``fits`` itself rounds up."""
    step = MARGIN
    while step < 1:
        candidate = value * (1 - step)
        if candidate > _TINY and fits(Fraction(candidate)):
            return Fraction(candidate)
        step *= 2
    raise ParameterError("epsilon", "is too small for this delta: the rho between them vanishes in floating point")


def log_inverse(delta: Number) -> float:
    """log(1/δ), rounded up."""
    chance = probability(delta, "delta")
    nearest = float(chance)
    if nearest >= sys.float_info.min:
        value = -math.log(nearest)
    else:
        value = math.log(chance.denominator) - math.log(chance.numerator)
    return value + MARGIN * (1 + value)


def is_zero(value: Number) -> bool:
    """Whether a parameter is 0."""
    return not isinstance(value, bool) and value == 0


def upper(value: Number, name: str) -> float:
    """A parameter as a float that is not below it."""
    return max(_TINY, at_least(exact(value, name)))


def lower(value: Number, name: str) -> float:
    """A parameter as a float that is not above it."""
    wanted = min(exact(value, name), Fraction(HUGE))
    nearest = float(wanted)
    return nearest if Fraction(nearest) <= wanted else math.nextafter(nearest, 0.0)
