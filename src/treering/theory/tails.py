"""Tails of integer noise: how far discrete Laplace and discrete Gaussian draws stray; and what they leave of a count.

Discrete Laplace of scale s: P(X = j) = (1−p)/(1+p)·p^|j|, p = e^{−1/s}. Its tails are closed forms.
Discrete Gaussian of scale σ: P(X = j) = e^{−j²/(2σ²)}/Z. Its tails are bounded from above, almost without loss.

A *radius* is the smallest integer that a draw exceeds with probability at most ``beta``. Values are floats, right to
about 1e-12 relative; below the range of floats they are 0. ``scale`` and ``sigma`` are in the unit of the draw (rows,
for a count).

**Proportions**: bounds, from a noisy count of rows that were drawn at random.
Of n rows, drawn independently, R have a property that a row has with probability p: R is binomial. What is known is
S = R + η, with noise η of a known, symmetric law. For each p let

    T(p) = P(S ≥ s) = Σ_k P(R = k)·P(η ≥ s − k),

which grows with p. *If L is the least p with T(p) ≥ b/2 for the s that was seen, then L ≤ p with 1 − b/2*, for every n
and p: if L > p then T(p) < b/2, and S is so large with less than b/2. (This is the bound of Clopper and Pearson, 1934,
with noise.) The same of n − S bounds p from above. No normal law is taken for R: the bounds hold for p near 0 or 1.

Noise is whole, so its law is that of the discrete sampler, summed up exactly, up to a scale of `EXACT`. Above it the
law of the continuous noise is taken, at a step of the grid less: that is no smaller, as a test shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.noise import Laplace, Noise
from treering.params import exact_scale, probability
from treering.theory.search import first_whole

_DIGITS: Final = 45
_SUMMED_SIGMA: Final = 10.0
_NEGLIGIBLE: Final = 2.0**-60
_ROUNDING: Final = 1 + 2.0**-40
EXACT: Final = 64.0
"""Up to this scale the law of a difference of two noises is summed up."""
_HALVINGS: Final = 40


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


# -- proportions -------------------------------------------------------------------------------------------------------


def halved_difference(noise: Noise) -> Callable[[Floats], Floats]:
    """P(η ≥ x) for η half the difference of the noises of two counts, which has a grid of ½."""
    return _discrete(noise) if noise.scale <= EXACT else _continuous(noise)


def _discrete(noise: Noise) -> Callable[[Floats], Floats]:
    reach = math.ceil(noise.scale * (40 if isinstance(noise, Laplace) else 9)) + 1
    sizes = np.abs(np.arange(-reach, reach + 1)) / noise.scale
    law = np.exp(-sizes if isinstance(noise, Laplace) else -(sizes**2) / 2)
    differences = np.convolve(law, law) / law.sum() ** 2  # Twice η, from −2·reach to 2·reach.
    tails = np.minimum(1.0, np.concatenate([np.cumsum(differences[::-1])[::-1], [0.0]]))

    def above(x: Floats) -> Floats:
        place = np.ceil(2 * x - 1e-9) + 2 * reach
        return np.asarray(tails[np.clip(place, 0, len(tails) - 1).astype(np.int64)])

    return above


def _continuous(noise: Noise) -> Callable[[Floats], Floats]:
    """Normal noise: normal, with deviation σ/√2. Laplace: P(D ≥ t) = ½·(1 + t/2s)·e^(−t/s) for the difference D."""

    def above(x: Floats) -> Floats:
        least = x - 0.5
        ratio = np.abs(least) / noise.scale
        if isinstance(noise, Laplace):
            tail = 0.5 * (1 + ratio) * np.exp(-2 * ratio)
        else:
            tail = 0.5 * np.array([math.erfc(value) if value < 28 else 0.0 for value in ratio.tolist()])
        return np.where(least > 0, tail, 1 - tail)

    return above


def bounds(count: float, rows: int, above: Callable[[Floats], Floats], failing: float) -> tuple[float, float]:
    """Bounds on a proportion, from a noisy ``count`` among ``rows``, that fail with ``failing`` (b) at most together.

    A count below 0 or above ``rows`` is taken for that: the bounds are wider then, and hold all the more.

    >>> low, high = bounds(10, 10, lambda x: np.where(x > 0, 0.0, 1.0), 0.05)  # without noise
    >>> round(low, 4), high  # of ten, all: 0.025^(1/10)
    (0.6915, 1.0)
    """
    count, numbers = min(float(rows), max(0.0, count)), np.arange(rows + 1, dtype=np.float64)
    ways = np.concatenate(([0.0], np.cumsum(np.log((rows + 1 - numbers[1:]) / numbers[1:]))))
    low = _least(ways, above(count - numbers), failing / 2)
    return low, 1 - _least(ways, above(rows - count - numbers), failing / 2)


def _least(ways: Floats, reached: Floats, chance: float) -> float:
    """The least p, within 2^-40, with Σ_k P(R = k)·reached_k ≥ ``chance``; ``ways`` are the logarithms of n over k."""
    rows = len(ways) - 1
    numbers = np.arange(rows + 1, dtype=np.float64)
    low, high = 0.0, 1.0
    if reached[0] >= chance:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        weights = np.exp(ways + numbers * math.log(middle) + (rows - numbers) * math.log1p(-middle))
        low, high = (low, middle) if float(weights @ reached) >= chance else (middle, high)
    return low
