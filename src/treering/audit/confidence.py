"""Exact binomial confidence bounds (Clopper and Pearson 1934), always rounded to the safe side.

``k`` hits in ``n`` independent trials of unknown probability p. The lower bound is the p at which "k hits or more" has
probability α, so it exceeds the true p with probability at most α, for every p and n. The upper bound mirrors it.

The root is found by Newton's method on u = log p. With B = P(exactly k) and S = P(k or more)/B,

    d log P(k or more) / du = k / S,

and S increases with p: the function is concave in u, so every step after the first climbs towards the root from below.
"""

from __future__ import annotations

import math
from typing import Final

from treering.errors import ParameterError

_NUDGE: Final = 1e-11
"""Far above the rounding of the solver (about 1e-14, relative), far below anything a confidence bound resolves."""

_SMALLEST: Final = 1e-200
"""The smallest α: below it the bounds themselves could leave the range of floats."""

_STEPS: Final = 200
"""Newton takes about ten steps."""


def clopper_pearson_lower(hits: int, trials: int, alpha: float) -> float:
    """A bound that exceeds the true probability with chance at most ``alpha``.

    >>> round(clopper_pearson_lower(7, 10, 0.025), 6)
    0.347547
    """
    _check(hits, trials, alpha)
    if hits == 0:
        return 0.0
    return math.exp(_log_root(hits, trials, alpha)) * (1 - _NUDGE)


def clopper_pearson_upper(hits: int, trials: int, alpha: float) -> float:
    """A bound that falls short of the true probability with chance at most ``alpha``.

    >>> round(clopper_pearson_upper(0, 100, 0.05), 6)
    0.029513
    """
    _check(hits, trials, alpha)
    if hits == trials:
        return 1.0
    return min(1.0, -math.expm1(_log_root(trials - hits, trials, alpha)) * (1 + _NUDGE))


def _check(hits: int, trials: int, alpha: float) -> None:
    if not _SMALLEST <= alpha <= 0.5:
        raise ParameterError("alpha", f"must lie between {_SMALLEST} and 0.5, not {alpha}")
    if trials < 1:
        raise ParameterError("trials", f"must be at least 1, not {trials}")
    if not 0 <= hits <= trials:
        raise ParameterError("hits", f"must lie between 0 and trials = {trials}, not {hits}")


def _log_root(k: int, n: int, alpha: float) -> float:
    """The u = log p at which P(k or more of n) = α, for k ≥ 1."""
    target = math.log(alpha)
    if k == n:
        return target / n
    u = math.log1p((k - n) / n)
    # P(k or more) ≤ (n choose k)·p^k ≤ (enp/k)^k, so the root lies above this; the first step may fall far below.
    floor = u - 1 + target / k
    for _ in range(_STEPS):
        ratio = _tail_ratio(k, n, u)
        step = (target - _log_mass(k, n, u) - math.log(ratio)) * ratio / k
        u, before = max(u + step, floor), u
        if abs(u - before) <= 1e-15 * abs(u):
            break
    return u


def _tail_ratio(k: int, n: int, u: float) -> float:
    """S = P(k or more)/P(exactly k): the series of successive ratios, cut where it no longer counts."""
    odds = math.exp(u) / -math.expm1(u)
    term = total = 1.0
    for i in range(k + 1, n + 1):
        term *= (n - i + 1) / i * odds
        total += term
        if term < 1e-17 * total:
            break
    return total


def _log_mass(k: int, n: int, u: float) -> float:
    """log P(exactly k of n), 0 < k < n, by Loader's saddle-point expansion (2000): no cancellation for large n."""
    p, q = math.exp(u), -math.expm1(u)
    correction = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    return correction - _deviance(k, n * p) - _deviance(n - k, n * q) + 0.5 * math.log(n / (math.tau * k * (n - k)))


def _stirling_error(n: int) -> float:
    """log n! less Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(math.tau)
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(x: int, mean: float) -> float:
    """x·log(x/mean) + mean − x, by a series where that cancels."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - difference
    v = difference / (x + mean)
    total, power = difference * v, 2 * x * v
    for j in range(3, 1000, 2):
        power *= v * v
        before, total = total, total + power / j
        if total == before:
            break
    return total
