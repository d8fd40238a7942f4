"""Goodness of fit with stated rates of error: `fits` is the test, `miss_rate` its power. Neither is an approximation.

The statistic is x = n·KL(p̂‖p) for the frequencies p̂ of n draws over k outcomes (half of the G-test's).

- *False alarms.* Draws from p reach x with probability at most e^{−x}·(e·x/(k−1))^{k−1}, whatever n, k and p (Agrawal,
  "Finite-sample concentration of the multinomial in relative entropy", 2020, arXiv 1904.02291).
- *Misses.* The accepted frequencies, those with n·KL(p̂‖p) < x, form a convex set, so draws from q are accepted with
  probability at most e^{−n·m}, where m is the smallest KL(r‖q) over its closure (Sanov's theorem, Csiszár 1984).

Every test alarms falsely with probability at most `FALSE_ALARM`. A run of the whole suite makes fewer than a thousand
of them, so a false alarm in a run has probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr

FALSE_ALARM: Final = 1e-9

Masses: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

# -- the test ----------------------------------------------------------------------------------------------------------


def fits(counts: npt.ArrayLike, masses: npt.ArrayLike, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether counts of outcomes may come from these probabilities; if they do, False is as rare as ``false_alarm``."""
    seen, expected = np.asarray(counts, dtype=np.float64), np.asarray(masses, dtype=np.float64)
    assert seen.shape == expected.shape
    assert math.isclose(expected.sum(), 1, rel_tol=1e-9)
    draws = seen.sum()
    return bool(draws * divergence(seen / draws, expected) < critical(len(seen), false_alarm))


def miss_rate(right: npt.ArrayLike, wrong: npt.ArrayLike, draws: int, false_alarm: float = FALSE_ALARM) -> float:
    """An upper bound on the chance that draws from ``wrong`` fit ``right``, both of full support."""
    p, q = np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    radius = critical(len(p), false_alarm) / draws
    if divergence(q, p) <= radius:
        return 1.0

    def between(share: float) -> Masses:
        """The nearest point to q at some distance of p lies on the geometric path from p to q."""
        mixed: Masses = np.exp((1 - share) * np.log(p) + share * np.log(q))
        return np.asarray(mixed / mixed.sum())

    share = brentq(lambda share: divergence(between(share), p) - radius, 0.0, 1.0)
    return math.exp(-draws * divergence(between(share), q))


def critical(outcomes: int, false_alarm: float) -> float:
    """The x at which the bound on false alarms is ``false_alarm``."""
    free = outcomes - 1
    level = -math.log(false_alarm)
    return float(brentq(lambda x: x - free * (1 + math.log(x / free)) - level, free, 10 * free + 4 * level))


def divergence(left: Masses, right: Masses) -> float:
    """KL(left‖right) in nats."""
    held = left > 0
    if np.any(right[held] <= 0):
        return math.inf
    return float(np.sum(left[held] * np.log(left[held] / right[held])))


# -- integer noise, in bins --------------------------------------------------------------------------------------------


def edges_for(scale: float) -> Integers:
    """Edges of bins for noise of this scale: {0} is a bin of its own, and the bins of −k and k mirror each other."""
    heads = {1, *(math.ceil(scale * multiple) for multiple in (0.25, 0.5, 1, 1.5, 2, 3, 4))}
    return np.array(sorted({*heads, *(1 - head for head in heads)}), dtype=np.int64)


def tally(draws: Integers, edges: Integers) -> Integers:
    """How many draws lie below the first edge, from each edge to the next, and from the last one on."""
    return np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1).astype(np.int64)


def laplace_masses(scale: float, edges: Integers) -> Masses:
    """The bins' probabilities under discrete Laplace noise: P(X < e) = p^{1−e}/(1+p) for e ≤ 0, mirrored above."""
    p = math.exp(-1 / scale)
    below = np.where(edges <= 0, p ** np.maximum(1 - edges, 1) / (1 + p), 1 - p ** np.maximum(edges, 0) / (1 + p))
    return np.diff(below, prepend=0.0, append=1.0)


def gaussian_masses(scale: float, edges: Integers) -> Masses:
    """The bins' probabilities under discrete Gaussian noise, summed to fourteen deviations.

    From a scale of 10^5 on the sum is an integral: by Euler and Maclaurin they differ by less than scale^−2.
    """
    if scale >= 1e5:
        return np.diff(ndtr((edges - 0.5) / scale), prepend=0.0, append=1.0)
    reach = max(math.ceil(14 * scale), int(np.abs(edges).max())) + 1
    values = np.arange(-reach, reach + 1)
    terms = np.exp(-((values / scale) ** 2) / 2)
    masses = np.bincount(np.searchsorted(edges, values, side="right"), weights=terms, minlength=len(edges) + 1)
    return np.asarray(masses / terms.sum())


# -- the exponential mechanism -----------------------------------------------------------------------------------------


def exponential_masses(scores: Sequence[int], scale: float, multiplicities: Sequence[int] | None = None) -> Masses:
    """Probabilities ∝ multiplicity·e^{score/scale}; what is out of reach gets 1e-300, so that the support is full."""
    top = max(scores)
    weights = np.exp([-float(top - score) / scale for score in scores])
    if multiplicities is not None:
        weights = weights * np.array(multiplicities, dtype=np.float64)
    weights = np.maximum(weights, 1e-300)
    return np.asarray(weights / weights.sum())
