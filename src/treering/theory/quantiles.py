"""Quantiles: read off the counts of an ordered attribute's cells, with intervals that are proven.

The cells of a column are ordered, j = 0 … J−1. Let F_j be how many rows of a group lie in the cells up to j, let
D = F_{J−1} be how many have a value, and 0 < q < 1. The q-quantile lies in the cell j* = min{j : T_j ≥ 0}, where
T_j = F_j − q·D never falls with j. (PERCENTILE_DISC is the ⌈qD⌉-th value in order. PERCENTILE_CONT lies between those
of rank ⌊1 + q(D−1)⌋ and ⌈1 + q(D−1)⌉; let a and b be their cells. Then T_a ≥ −q and T_{b−1} < 1 − q: with one row of
tolerance the interval below holds a and b as well as j*.)

**Interval.** Let T̂_j be an estimate of T_j with symmetric noise, within m_j of it with 95% (so beyond it on one side
with 2.5% at most). Let

    L = min{j : T̂_j + m_j ≥ −1},        U = max{j : j = 0 or T̂_{j−1} − m_{j−1} < 1}.

*With 95% L ≤ j* ≤ U, and the same holds for a and b.* Proof. If L > a then T̂_a + m_a < −1 while T_a ≥ −1: the noise of
T̂_a, of this one cell, is below −m_a, which happens with 2.5% at most. If U < b then, as b is not in the set, T̂_{b−1} −
m_{b−1} ≥ 1 while T_{b−1} < 1: 2.5% again. The cells a and b are fixed by the data, not chosen by the noise, so no union
over the cells is needed. As a ≤ j* ≤ b, nothing else is to be shown. ∎ If noise makes U < L, the hull of both is taken.

**All answers together.** Let |T̂_j − T_j| ≤ e_j hold for all j at once. Then L and U with e_j for m_j hold a and b
for certain: if L > a then T̂_a + e_a < −1 ≤ T_a contradicts it, and so for U. T_j = (1 − q)·F_j − q·(D − F_j), where F_j
and D − F_j count rows: if their estimates are within r_j and s_j, e_j = (1 − q)·r_j + q·s_j. The bounds r_j and s_j are
those that all questions to an estimate keep together, but with its share of beta (``theory/rings.py``), so the ends are
an *error*: it holds for all answers of a mechanism at once, however the quantile was chosen. ∎

T_j weighs the cells of the group up to j with 1 − q, those after it with −q and all other rows with 0: a weighted
question to one estimate, whose margin ``theory/rings.py`` states.

**Averages over bins.** Let bin j lie between a_j and b_j. The average of the rows lies between μ = Σ a_j·n_j/D and
ν = Σ b_j·n_j/D, wherever values lie in their bins. H(t) = Σ (a_j − t)·n_j is 0 at μ, so with 97.5% its estimate is at
most the margin there: the least t with Ĥ(t) ≤ m(t) is a lower bound on μ with 97.5%; and likewise an upper one on ν:
together 95%. Under zCDP m(t)² is a quadratic polynomial in t, and so is what must be solved (`ratio_end`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.theory.continual import Law
from treering.theory.rings import NORMAL, Spectrum, margin

TOLERANCE: Final = 1.0
"""Rows of tolerance: PERCENTILE_CONT lies between two neighbouring values."""


def cells_between(estimates: Sequence[float], margins: Sequence[float]) -> tuple[int, int]:
    """The first and the last cell of the interval, from T̂_j and m_j.

    >>> cells_between([-90.0, -40.0, 5.0, 60.0, 100.0], [20.0] * 5)
    (2, 3)
    """
    last = len(estimates) - 1
    first = next((j for j in range(last) if estimates[j] + margins[j] >= -TOLERANCE), last)
    final = max((j for j in range(1, last + 1) if estimates[j - 1] - margins[j - 1] < TOLERANCE), default=0)
    return min(first, final), max(first, final)


def point(estimates: Sequence[float]) -> tuple[int, float]:
    """The cell in which T̂ crosses 0, and how far within it, from 0 to 1.

    >>> point([-90.0, -40.0, 60.0, 100.0])
    (2, 0.4)
    """
    rising = np.maximum.accumulate(np.asarray(estimates, dtype=np.float64))
    cell = min(int(np.searchsorted(rising, 0.0)), len(rising) - 1)
    before = float(rising[cell - 1]) if cell else math.nan
    step = float(rising[cell]) - before
    return cell, min(1.0, max(0.0, -before / step)) if cell and step > 0 else 0.5


def linear_spectrum(weights: Sequence[float], numbers: Sequence[int], groups: int) -> Spectrum:
    """The centred weights of a question that weighs some groups: ``numbers`` says how many have each of the weights; of
    ``groups`` in all, the others have weight 0.

    >>> linear_spectrum([1.0], [3], 12)
    ((0.75, 3), (0.25, 9))
    """
    mean = math.fsum(weight * number for weight, number in zip(weights, numbers, strict=True)) / groups
    rest = groups - sum(numbers)
    listed = [(abs(weight - mean), number) for weight, number in zip(weights, numbers, strict=True)]
    return (*listed, (abs(mean), rest)) if rest else tuple(listed)


def level_margins(law: Law, numbers: Sequence[int], groups: int, level: float) -> list[float]:
    """m_j for each j: ``numbers`` says how many groups of an estimate make up each cell."""
    found = []
    below, whole = 0, sum(numbers)
    for number in numbers:
        below += number
        found.append(margin(law, linear_spectrum((1 - level, -level), (below, whole - below), groups)))
    return found


def ratio_end(values: Floats, counts: Floats, numbers: Sequence[int], groups: int, law: Law, *, upper: bool) -> float:
    """A bound, with 97.5%, on Σ values·n / Σ n: the lower end, or the upper one. Infinite if nothing can be said.

    Normal noise: (P − tQ)² = z²·v·S(t), where S(t) is the spread of the weights values − t, quadratic in t.
    """
    if law.parts:
        return _wide_end(values, counts, numbers, groups, law, upper=upper)
    number = np.asarray(numbers, dtype=np.float64)
    total, plain = float(number @ values), float(number.sum())
    first = float(number @ values**2) - total**2 / groups
    mixed, last = total - total * plain / groups, plain - plain**2 / groups
    noise = NORMAL**2 * law.variance
    top, rows = float(values @ counts), float(counts.sum())
    leading, middle, constant = rows**2 - noise * last, top * rows - noise * mixed, top**2 - noise * first
    if rows <= 0 or leading <= 0:
        return math.inf if upper else -math.inf
    root = math.sqrt(max(0.0, middle**2 - leading * constant))
    return (middle + root if upper else middle - root) / leading


def _wide_end(values: Floats, counts: Floats, numbers: Sequence[int], groups: int, law: Law, *, upper: bool) -> float:
    """The same for noise that is not normal: numerator and denominator each keep a margin that fails with 1.25%."""
    centre = float(values.max() + values.min()) / 2
    share = 1 - 0.0125
    over = margin(law, linear_spectrum((values - centre).tolist(), numbers, groups), share)
    under = margin(law, linear_spectrum([1.0] * len(numbers), numbers, groups), share)
    rows, top = float(counts.sum()), float((values - centre) @ counts)
    if rows - under <= 0:
        return math.inf if upper else -math.inf
    end = top + over if upper else top - over
    return centre + end / (rows - under if (end > 0) == upper else rows + under)
