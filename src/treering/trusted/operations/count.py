"""Answers: each query's count plus noise, in grid units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from treering.arrays import Ints
from treering.budget.cost import FREE, Cost
from treering.domain.query import Query
from treering.gate import Measured
from treering.noise import Gaussian, Laplace, Noise
from treering.trusted import pricing
from treering.trusted.noise import Answering, check_noise
from treering.trusted.operations.base import Desk, Operation


class Batch(NamedTuple):
    """A checked request."""

    queries: tuple[Query, ...]
    noise: Noise
    scales: Ints


class Counting(Operation[Batch, Measured]):
    """Each query's count plus noise. Cost: see `measuring`."""

    __slots__ = ()
    event = Measured
    cells = True

    def check(self, desk: Desk, *request: Any) -> Batch:
        """Refuse queries of another schema, and noise that could overflow."""
        queries, noise = request
        asked, scales, largest = desk.check_queries(queries)
        check_noise(noise, largest)
        return Batch(asked, noise, scales)

    def price(self, checked: Batch, desk: Desk) -> Cost:
        """By the queries' sensitivities."""
        return measuring(checked.queries, checked.noise)

    def perform(self, checked: Batch, cost: Cost, desk: Desk) -> Measured:
        """The noisy counts."""
        queries, noise, scales = checked
        noisy = desk.cells.count_many(queries) + desk.own(Answering).take(noise, scales)
        return Measured(desk.size, cost, queries, noise, tuple(noisy.tolist()))


def measuring(queries: Sequence[Query], noise: Noise) -> Cost:
    """Answers to a batch compose: Σ r/s pure, Σ (r/s)²/2 zCDP for Laplace noise; Σ r²/(2σ²) zCDP for Gaussian."""
    if len(queries) == 1:
        return _one(queries[0].spread, queries[0].scale, isinstance(noise, Laplace), noise.scale)
    total = FREE
    for (spread, unit), number in Counter((query.spread, query.scale) for query in queries).items():
        one = _one(spread, unit, isinstance(noise, Laplace), noise.scale)
        total += Cost(None if one.epsilon is None else number * one.epsilon, number * one.rho)
    return total


@lru_cache(maxsize=256, typed=True)
def _one(spread: int, unit: int, exponential_tail: bool, scale: float) -> Cost:
    """The cost of one answer, cached: rationals are slow, and consecutive questions mostly have the same noise."""
    return pricing.noisy(Fraction(spread, unit), Laplace(scale) if exponential_tail else Gaussian(scale))
