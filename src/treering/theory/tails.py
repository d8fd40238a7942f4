"""Tails of integer noise: how far discrete Laplace and discrete Gaussian draws stray.

Discrete Laplace of scale s: P(X = j) = (1−p)/(1+p)·p^|j|, p = e^{−1/s}. Its tails are closed forms.
Discrete Gaussian of scale σ: P(X = j) = e^{−j²/(2σ²)}/Z. Its tails are bounded from above, almost without loss.

A *radius* is the smallest integer that a draw exceeds with probability at most ``beta``. Values are floats, right to
about 1e-12 relative; below the range of floats they are 0. ``scale`` and ``sigma`` are in the unit of the draw (rows,
for a count).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Final

from treering.params import exact_scale, probability
from treering.theory.search import first_whole

_DIGITS: Final = 45
_SUMMED_SIGMA: Final = 10.0
_NEGLIGIBLE: Final = 2.0**-60
_ROUNDING: Final = 1 + 2.0**-40


def laplace_tail(scale: float, k: int) -> float:
    """P(|X| ≥ k) = 2p^k/(1+p) for k ≥ 1, and 1 below."""
    exact_scale(scale, "scale")
    return 1.0 if k <= 0 else 2 * _laplace_upper(scale, k)


def laplace_upper(scale: float, k: int) -> float:
    """P(X ≥ k) = p^k/(1+p) for k ≥ 1; by symmetry 1 − P(X ≥ 1−k) below."""
    exact_scale(scale, "scale")
    return _laplace_upper(scale, k) if k >= 1 else 1 - _laplace_upper(scale, 1 - k)


def _laplace_upper(scale: float, k: int) -> float:
    return math.exp(-k / scale - math.log1p(math.exp(-1 / scale)))


def laplace_radius(scale: float, beta: float) -> int:
    """The smallest integer r with P(|X| > r) ≤ beta.

    2p^{r+1}/(1+p) ≤ β means r + 1 ≥ s·(log(2/β) − log(1+p)); with 45 digits the ceiling of that is exact.

    >>> laplace_radius(10.0, 0.05), laplace_tail(10.0, 30) > 0.05 >= laplace_tail(10.0, 31)
    (30, True)
    """
    return _ceiling(scale, probability(beta, "beta") / 2) - 1


def laplace_one_sided_radius(scale: float, beta: float) -> int:
    """The smallest integer r with P(X > r) ≤ beta; negative when ``beta`` is far enough above a half.

    r ≥ 0: p^{r+1}/(1+p) ≤ β. r = −j < 0: P(X > −j) = 1 − p^j/(1+p) ≤ β, so j is the largest with p^j/(1+p) ≥ 1−β.
    """
    chance = probability(beta, "beta")
    below = _steps(scale, 1 - chance, ROUND_FLOOR)
    return -below if below >= 1 else _ceiling(scale, chance) - 1


def _ceiling(scale: float, chance: Fraction) -> int:
    """The smallest k ≥ 1 with p^k/(1+p) ≤ chance."""
    return max(1, _steps(scale, chance, ROUND_CEILING))


def _steps(scale: float, chance: Fraction, rounding: str) -> int:
    """The k with p^k/(1+p) = chance, rounded to an integer."""
    with localcontext() as context:
        context.prec = _DIGITS
        exact_scale(scale, "scale")
        width = Decimal(float(scale))
        odds = Decimal(chance.denominator) / Decimal(chance.numerator)
        return int((width * (odds.ln() - (1 + (-1 / width).exp()).ln())).to_integral_value(rounding))


def gaussian_tail(sigma: float, k: int) -> float:
    """An upper bound on P(|X| ≥ k), k an integer.

    σ ≤ 10: the sum of the terms from k on, its remainder bounded by a geometric series (the ratio of successive terms
    falls), over a partial sum of Z. Larger σ: Z ≥ σ√(2π) by Poisson summation. For k ≥ σ + ½ the density is convex
    from k − ½ on, so each term is at most its integral over an interval of length 1 around it: P(|X| ≥ k) ≤ P(|N(0,
    σ²)| ≥ k − ½). Nearer the centre the density still falls: each term but the first is at most the integral over the
    unit interval before it.
    """
    exact_scale(sigma, "sigma")
    if k <= 0:
        return 1.0
    if sigma <= _SUMMED_SIGMA:
        bound = _summed_gaussian_tail(sigma, k)
    elif k >= sigma + 0.5:
        bound = math.erfc((k - 0.5) / sigma / math.sqrt(2))
    else:
        first = 2 * math.exp(-((k / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        bound = first + math.erfc(k / sigma / math.sqrt(2))
    return min(1.0, bound * _ROUNDING)


def _summed_gaussian_tail(sigma: float, k: int) -> float:
    # All terms are divided by the term at k, so that none underflows.
    terms = [1.0]
    ratio = _relative_term(sigma, k, 1)
    while ratio > 0 and terms[-1] > _NEGLIGIBLE * (1 - ratio):
        terms.append(_relative_term(sigma, k, len(terms)))
        ratio = _relative_term(sigma, k + len(terms) - 1, 1)
    remainder = terms[-1] * ratio / (1 - ratio)
    whole = 1 + 2 * math.fsum(_relative_term(sigma, 0, i) for i in range(1, math.ceil(10 * sigma) + 1))
    return 2 * (math.fsum(terms) + remainder) / whole * _relative_term(sigma, 0, k)


def _relative_term(sigma: float, k: int, i: int) -> float:
    """P(X = k+i)/P(X = k)."""
    return math.exp(-((i / sigma) * ((2 * k + i) / sigma)) / 2)


def gaussian_radius(sigma: float, beta: float) -> int:
    """The smallest integer r for which `gaussian_tail` proves P(|X| > r) ≤ beta."""
    chance = float(probability(beta, "beta"))
    return first_whole(lambda radius: gaussian_tail(sigma, radius + 1) <= chance, -1)
