"""Rings: the margin of one answer, the error of all answers together, and what a new series costs.

A *series* keeps the counts of m groups current (`treering.theory.series`, `treering.theory.continual`); here all cells
are in some group. A question is a union of groups, or weighs them. The number of rows is public, so the total of the
noise is known and an m-th of it is taken off each group: a question with the weights a_1, …, a_m then errs by
Σ (a_i − ā)·X_i, X_i the noise of group i, independent and of variance at most v. Its *spread* is S = Σ (a_i − ā)²: for
k of the m groups k(1 − k/m), and 0 for all of them, which are the whole table. Its variance is at most v·S.

**Margin**: for one answer alone, with 95%. Let the question, the moment and any refinement be chosen without looking at
the noise X (noise that is drawn after the question always qualifies). Then Σ (a_i − ā)·X_i has a known law. Under zCDP
the X_i are combinations of discrete Gaussian noise on a grid of 1/4096 rows, of a scale σ above 40 steps in any case
that a budget below ρ = 10^4 allows: its characteristic function is that of the normal law but for e^{−2π²σ²}, so
quantiles are those of the normal law within a step of the grid, and the margin is 1.96·√(v·S). (With so many groups
that trees are used, more than 32,768, a step is a row.) Under a pure promise it is the bound by exponential moments,
for 5% (`treering.theory.cells.subset_radius`).

**Error**: for all answers together, with 1 − β, however questions are chosen. β is shared over series, leaves and
periods: series i, leaf j and a period of w get β·r_i·r_j/w, where Σ r_i = 1 (`treering.theory.search.rarity`). Within
one estimate half of it is for the *registered* questions, those that were named before the series' first noise: a union
bound over them, of which there are n, at share/2n each. The other half is for whatever is asked later, by someone who
has seen the noise: the bound for all conjunctions, tables and weights at once over the series' classes
(`treering.theory.continual.StructuredBound`). The order of questions plays no part: weights by the order would be wrong
for questions to noise that is out already.

Several series about one question are combined with the weights of inverse variance; the error is then at most the sum
of weight × error, and under zCDP the variance is 1/Σ(1/variance).

**Prices.** The first answer of a series of price c has v = 1/c under zCDP (for two groups or more), so a margin of M
rows costs c = 1.96²·S/M². Without a wish, the first ``pace`` series get equal parts of four fifths of the budget, and
the j-th one after them 1/(pace + j) of the least that any row has left: a sequence that never reaches 0. A series that
tells all cells apart answers every count there will ever be, so it may have the parts of all early series to come.

A question by itself can be one of two groups, it and all other rows. That gives the smallest spread that a count can
have: k of m groups, 1 ≤ k < m, have k(1 − k/m) ≥ 1 − 1/m ≥ ½ (it is concave in k, so least at k = 1 or m − 1), with
equality for m = 2. It is a variance of 1/(2c), that of a single count with Gaussian noise for c: no series can do
better for one question alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query
from treering.params import at_least
from treering.theory.cells import subset_radius
from treering.theory.continual import Law, by_roots, prefix_law
from treering.theory.search import rarity

CONFIDENCE: Final = 0.95
"""The probability with which one answer is within its margin."""

NORMAL: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""1.96."""

WIDE: Final = (1 + CONFIDENCE) / 2
"""The probability of a margin of which two hold together with 95%."""

EARLY_SHARE: Final = Fraction(4, 5)
"""The part of the budget that the first ``pace`` series share."""

Spectrum = tuple[tuple[float, int], ...]
"""How many groups have each weight |a_i − ā|."""


@lru_cache(maxsize=2**16)
def spectrum(query: Query) -> Spectrum:
    """The centred weights of a question over the groups of its schema: each with how many groups have it.

    >>> from treering.domain.schema import Schema
    >>> from treering.domain.attribute import integers
    >>> spectrum(Query.where(Schema({"month": integers(1, 12)}), month=[1, 2, 3]))
    ((0.75, 3), (0.25, 9))
    """
    groups = query.schema.cells
    if query.masks is not None:
        chosen = math.prod(int(mask.sum()) for mask in query.masks) * (groups // query.joint)
        share = chosen / groups
        return ((1 - share, chosen), (share, groups - chosen))
    values, numbers = np.unique(query.weights(), return_counts=True)
    weights = values / query.scale
    mean = float(weights @ numbers) / query.joint
    others = groups // query.joint
    listed = zip(np.abs(weights - mean).tolist(), (numbers * others).tolist(), strict=True)
    return tuple((weight, number) for weight, number in listed)


def plain_spectrum(query: Query) -> Spectrum:
    """The weights of a question over the groups, not centred: those of a sum, whose total is private.

    >>> from treering.domain.schema import Schema
    >>> from treering.domain.attribute import integers
    >>> plain_spectrum(Query.where(Schema({"month": integers(1, 12)}), month=[1, 2, 3]))
    ((1.0, 3),)
    """
    return ((1.0, chosen_groups(query)),)


def chosen_groups(query: Query) -> int:
    """How many groups a counting question is the union of."""
    others = query.schema.cells // query.joint
    if query.masks is None:
        return others * int(query.weights().sum())
    return others * math.prod(int(mask.sum()) for mask in query.masks)


def spread(centred: Spectrum) -> float:
    """S = Σ (a_i − ā)²."""
    return math.fsum(number * weight**2 for weight, number in centred)


@lru_cache(maxsize=2**14)
def margin(law: Law, centred: Spectrum, confidence: float = CONFIDENCE) -> float:
    """The margin, in rows, of an answer whose groups have noise of this law.

    *On a grid.* Noise that is drawn in whole rows jumps: with a deviation of half a row, 79% of all draws are 0, and
    the next ones are two deviations away. So half a step of the largest weight is added. *Proof for one group.* Let X
    be the discrete Gaussian of scale σ, Z the normal one, and k ≥ σ + ½ whole. The density of Z is convex beyond σ, so
    that e^{−k²/2σ²} is at most its integral over k ± ½; and Σ e^{−k²/2σ²} ≥ √(2π)·σ (Poisson's summation formula).
    Hence P(|X| ≥ k) ≤ P(|Z| ≥ k − ½). With M = qσ + ½ and k = ⌊M⌋ + 1 > M, k − ½ > qσ. ∎ (Several groups have finer
    grids; a test adds up the exact law of centred and plain questions about up to five.)

    >>> round(margin(Law(100.0), ((0.5, 2),)), 2), round(margin(Law(100.0, step=1.0), ((0.5, 2),)), 2)
    (13.86, 14.11)
    """
    if not law.parts:
        quantile = NORMAL if confidence == CONFIDENCE else NormalDist().inv_cdf((1 + confidence) / 2)
        half = law.step / 2 * max((weight for weight, number in centred if number), default=0.0)
        return quantile * math.sqrt(law.variance * spread(centred)) * (1 + 1e-9) + half
    weights, numbers = zip(*centred, strict=True)
    return subset_radius(law.cell, weights, numbers, 1 - confidence)


def joint(groups: int, *, normal: bool = True) -> float:
    """By how much margins that hold for all of some groups together are wider than that for one: 0.05/m for each of m,
    a union bound.

    Normal noise: the ratio of its quantiles. Any other symmetric noise whose law is log-concave (Laplace noise and its
    sums, discrete or not, are): λ = ln(m/0.05)/ln(1/0.05) is enough. *Proof.* With X also |X| has a log-concave law on
    [0, ∞), so its tail S(t) = P(|X| > t) is log-concave (Prékopa), and S(0) ≤ 1. The convex function −ln S is at least
    0 at 0, so λ·(−ln S(t)) ≤ −ln S(λt) for λ ≥ 1: S(λt) ≤ S(t)^λ. With S(t) ≤ 0.05 it is at most 0.05^λ = 0.05/m. ∎
    (On a grid the same holds for P(|X| ≥ t) at its points: t + a step takes the place of t. The bound by exponential
    moments, of which pure margins are made, is above the quantile by more.)

    >>> [round(joint(groups), 2) for groups in (1, 12, 200)], [round(joint(each, normal=False), 2) for each in (1, 200)]
    ([1.0, 1.46, 1.87], [1.0, 2.77])
    """
    several = max(1, groups)
    if not normal:
        return 1 + math.log(several) / -math.log(1 - CONFIDENCE)
    return NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * several)) / NORMAL


@lru_cache(maxsize=2**14)
def registered_radius(law: Law, centred: Spectrum, questions: int, share: float) -> float:
    """The error, in rows, that all of so many registered questions keep together with probability 1 − share."""
    weights, numbers = zip(*centred, strict=True)
    return subset_radius(law.cell, weights, numbers, share / questions)


def estimate_share(beta: float, series: int, leaf: int, windows: int) -> float:
    """The share of beta for one estimate: of a series, at a leaf, about one of so many periods. Both number from 1."""
    return beta * math.exp(-rarity(math.log(series)) - rarity(math.log(leaf))) / windows


def first_law(budget: Budget, groups: int) -> Law:
    """The law of a group's noise in the first answer of a series at this price."""
    return prefix_law(budget, groups, 1)


def missing(rows: float, variances: Sequence[float], kind: BudgetKind) -> float:
    """The margin that one more answer needs, so that it and others, combined, have a margin of ``rows``.

    ``variances`` are those of the others, which together are not sharp enough. Precisions, the inverses of variances,
    add up under zCDP. Under a pure promise answers are not combined.
    """
    if kind == "pure" or not variances:
        return rows
    known = math.fsum(1 / variance for variance in variances) * (rows / NORMAL) ** 2
    return rows / math.sqrt(1 - min(known, 1 - 1e-6))


def price_of(rows: float, centred: Spectrum, groups: int, kind: BudgetKind) -> Fraction:
    """The least price, within 1/1000, at which the first answer of a series has a margin of at most ``rows``.

    >>> float(price_of(196.0, ((0.5, 2),), 2, "zcdp")) < 5.1e-5
    True
    """
    if kind == "zcdp" and by_roots(Budget("zcdp", Fraction(1)), groups):
        return Fraction(at_least(Fraction((NORMAL * (1 + 1e-8) / rows) ** 2 * spread(centred))))
    guess = 10 * math.sqrt(spread(centred)) / rows
    price = guess if kind == "pure" else guess**2
    while margin(first_law(_budget(kind, price), groups), centred) > rows:
        price *= 2
    low = price / 2
    while margin(first_law(_budget(kind, low), groups), centred) <= rows:
        low, price = low / 2, low
    while price > low * 1.001:
        middle = math.sqrt(low * price)
        if margin(first_law(_budget(kind, middle), groups), centred) <= rows:
            price = middle
        else:
            low = middle
    return Fraction(price)


def _budget(kind: BudgetKind, price: float) -> Budget:
    return Budget(kind, Fraction(price))


def whole_price(total: Fraction, left: Fraction, opened: int, pace: int) -> Fraction:
    """The price of a series that tells all cells apart, after so many were opened: the parts of all of the first
    ``pace`` series that are not opened yet, and that nobody needs any more. At most four fifths of what is left.

    >>> whole_price(Fraction(1), Fraction(1), 0, 25), whole_price(Fraction(1), Fraction(1, 5), 25, 25)
    (Fraction(4, 5), Fraction(1, 130))
    """
    parts = max(1, pace - opened)
    return min(parts * usual_price(total, left, opened, pace), EARLY_SHARE * left)


def usual_price(total: Fraction, left: Fraction, opened: int, pace: int) -> Fraction:
    """The price of the next series when nothing is wished for, after so many were opened.

    Never more than what is left, and never all of it.

    >>> usual_price(Fraction(1), Fraction(1), 0, 25), usual_price(Fraction(1), Fraction(1, 5), 25, 25)
    (Fraction(4, 125), Fraction(1, 130))
    """
    early = EARLY_SHARE * total / pace
    if opened < pace and early < left:
        return early
    return left / (pace + max(1, opened - pace + 1))
