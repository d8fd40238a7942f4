"""The privacy cost of each kernel operation.

A cost is derived here, from the request's noise scales and the queries' sensitivity, and nowhere else. Neighbours
replace one row. A query of weight scale W and spread d (largest weight less smallest) moves by at most d grid units and
gets noise of W times the stated scale: relative to its noise it moves by r = d/W rows, 1 for a counting query and 0 for
a constant one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.budget.cost import FREE, Cost, exponential, gaussian, laplace, pure, silent_run, sparse_run
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.sums import Sums
from treering.gate import RunRequest
from treering.noise import Gaussian, Laplace, Noise
from treering.params import exact_scale, positive

_ONE: Final = Fraction(1)


def measuring(queries: Sequence[Query], noise: Noise) -> Cost:
    """Answers to a batch compose: Σ r/s pure, Σ (r/s)²/2 zCDP for Laplace noise; Σ r²/(2σ²) zCDP for Gaussian."""
    if len(queries) == 1:
        return _one(queries[0].spread, queries[0].scale, isinstance(noise, Laplace), noise.scale)
    total = FREE
    for (spread, unit), number in Counter((query.spread, query.scale) for query in queries).items():
        one = _one(spread, unit, isinstance(noise, Laplace), noise.scale)
        total += Cost(None if one.epsilon is None else number * one.epsilon, number * one.rho)
    return total


def histogram(noise: Noise) -> Cost:
    """A replaced row changes two cells by one each: the cost of two answers, whatever the number of cells."""
    return _noisy(_ONE, noise) + _noisy(_ONE, noise)


def combining(groups: int, weight: int, noise: Noise, sums: Sums | None = None) -> Cost:
    """Groups whose rows are counted ``weight`` times: a replaced row moves that from one group to another.

    So two numbers move by |w| each: 2|w|/s pure, w²/s² zCDP for Laplace noise; w²/σ² zCDP for Gaussian. If there is a
    single group, one number moves: half of it. With ``sums`` see `summing`.
    """
    if sums is not None:
        return summing(sums, weight, noise)
    one = _noisy(Fraction(abs(weight)), noise)
    return one if groups == 1 else one + one


def summing(sums: Sums, weight: int, noise: Noise) -> Cost:
    """Sums of u, |u| ≤ R, and R times the rows if the counts come too, each ``weight`` times.

    A row replaced within its group moves that group's sum by at most 2R. One that leaves a group for another moves the
    sums of both by at most R each, and R times their rows by R each: L1 distance at most 2R without the counts and 4R
    with them, squared L2 distance at most 4R² in every case, and never less for a single group. So it is 2R|w|/s or
    4R|w|/s pure, and 4R²w²/(2σ²) = 2R²w²/σ² zCDP for Gaussian noise.
    """
    moved = Fraction(2 * sums.reach * abs(weight))
    return _noisy(2 * moved if sums.counts and isinstance(noise, Laplace) else moved, noise)


def leaf(groups: int, room: int, noise: Noise, budget: Budget, sums: Sums | None = None) -> Cost:
    """What each row of a leaf may cost over all releases of its segment, whatever their weights w, with the ``room``
    that they have: Σ|w| in a pure budget, Σw² in a zCDP one. Either cost is proportional to that sum."""
    amount = room * budget.amount(combining(groups, 1, noise, sums))
    return pure(amount) if budget.kind == "pure" else Cost(None, amount)


def selecting(queries: Sequence[Query], scale: float) -> Cost:
    """The exponential mechanism, over scores that move by at most the largest r of the queries."""
    return exponential(max(_ratio(query) for query in queries), exact_scale(scale, "scale"))


def reserving(part: Budget) -> Cost:
    """All that a filter over the part admits: (part.total)-DP if the part is pure, (part.total)-zCDP if it is zCDP."""
    return pure(part.total) if part.kind == "pure" else Cost(None, part.total)


@lru_cache(maxsize=16)
def running(request: RunRequest) -> Cost:
    """A run, with its numeric answer. (Cached: a run is usually priced before it is begun.)"""
    return _comparing(request) + _answering(request)


def refund(request: RunRequest, budget: Budget) -> Fraction:
    """The refund of an abandoned run: the answer that it never gave and, in a pure budget, 2/s2 of its comparisons.

    A transcript of nothing but "below" loses at most 1/s1. That holds for each transcript, which is enough for pure
    differential privacy; for zCDP there is no such statement about part of a run.
    """
    kept = _comparing(request)
    if budget.kind == "pure":
        kept = pure(silent_run(exact_scale(request.threshold_scale, "threshold_scale")))
    return budget.amount(running(request)) - budget.amount(kept)


@lru_cache(maxsize=256, typed=True)
def _one(spread: int, unit: int, exponential_tail: bool, scale: float) -> Cost:
    """The cost of one answer, cached: rationals are slow, and consecutive questions mostly have the same noise."""
    return _noisy(Fraction(spread, unit), Laplace(scale) if exponential_tail else Gaussian(scale))


def _ratio(query: Query) -> Fraction:
    return Fraction(query.spread, query.scale)


def _noisy(ratio: Fraction, noise: Noise) -> Cost:
    if isinstance(noise, Laplace):
        return laplace(ratio, exact_scale(noise.scale, "scale"))
    # A constant query reveals nothing, so it is free under either kind of promise.
    return gaussian(ratio**2, positive(noise.scale, "scale")) if ratio else FREE


def _comparing(request: RunRequest) -> Cost:
    return sparse_run(
        positive(request.threshold_scale, "threshold_scale"), positive(request.query_scale, "query_scale")
    )


def _answering(request: RunRequest) -> Cost:
    return FREE if request.answer is None else _noisy(_ONE, request.answer)
