"""Boxes for tests of the schedulers: an honest one that answers everything, and ones that misbehave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Box, Progress, Rate, Release, silent
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Query, evaluate
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.protocols import Gate


def radius_of(noise: Noise, beta: float) -> float:
    """A distance that noise exceeds with probability at most beta, and which is proportional to its scale.

    P(|X| ≥ r) ≤ 2e^{−r/s} for discrete Laplace noise, and ≤ 2e^{−r²/(2σ²)} for discrete Gaussian, on any grid.
    """
    tail = math.log(2 / beta)
    return noise.scale * (tail if isinstance(noise, Laplace) else math.sqrt(2 * tail))


class CellsRelease(Release):
    """Noisy counts of all cells: a share is off by no more than the cells' errors together."""

    def __init__(self, schema: Schema, size: int, counts: Any, radius: float) -> None:
        super().__init__(schema, size)
        self.counts = counts
        self.error = schema.cells * radius / size

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        values = [self._count(query) / query.scale / self.size for query in queries]
        return np.array(values), np.full(len(queries), self.error)

    def _count(self, query: Query) -> float:
        others = tuple(axis for axis in range(self.counts.ndim) if axis not in query.attributes)
        return float(evaluate(query, self.counts.sum(axis=others)))


class CellsBox(Box):
    """A noisy histogram with the plainest of bounds: each of N cells within the radius for beta/N."""

    def __init__(self, kind: BudgetKind = "pure") -> None:
        self._kind = kind
        self._schema: Schema | None = None

    @property
    def schema(self) -> Schema:
        assert self._schema is not None, "bind it first"
        return self._schema

    def bind(self, schema: Schema) -> CellsBox:
        self._schema = schema
        return self

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return self.schema.cells * self.radius(budget, beta) / whole(size, "size")

    def radius(self, budget: Budget, beta: float) -> float:
        return radius_of(self.noise(budget), float(probability(beta, "beta")) / self.schema.cells)

    def noise(self, budget: Budget) -> Noise:
        if budget.kind == "pure":
            return Laplace(at_least(2 / budget.total))
        return Gaussian(root_at_least(1 / budget.total))

    @property
    def rate(self) -> Rate | None:
        """r ≤ (2/ε)·log(2N/β) ≤ (2/ε)·log(1/β)·(1 + log(2N)/log 2) for β ≤ ½."""
        cells = self.schema.cells
        return Rate(1.0, 2 * cells * (1 + math.log2(2 * cells)), 1.0)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        progress(0.5, "counting")
        released = gate.histogram(self.noise(budget))
        return CellsRelease(gate.schema, gate.size, released.counts, self.radius(budget, beta))


class ZcdpBox(CellsBox):
    """One that takes zCDP budgets only, and has no rate."""

    kind = "zcdp"

    @property
    def rate(self) -> Rate | None:
        return None


class Oblivious(Release):
    """Knows one query only."""

    def __init__(self, schema: Schema, size: int, query: Query, share: float, error: float) -> None:
        super().__init__(schema, size)
        self.query, self.share, self.error = query, share, error

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        if any(query != self.query for query in queries):
            raise QueryError(f"only {self.query} is answered")
        return np.full(len(queries), self.share), np.full(len(queries), self.error)


class OneQueryBox(Box):
    """A count with Laplace or Gaussian noise: p = 1. Narrow queries, whose weights hardly differ, have a tiny g."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def bind(self, schema: Schema) -> OneQueryBox:
        return self

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        return self.radius(budget, beta) / whole(size, "size")

    @property
    def spread(self) -> Fraction:
        """By how much of a row the answer moves when a row is replaced."""
        return Fraction(self.query.spread, self.query.scale)

    def radius(self, budget: Budget, beta: float) -> float:
        """In rows."""
        return radius_of(self.noise(budget), float(probability(beta, "beta")))

    def noise(self, budget: Budget) -> Noise:
        if budget.kind == "pure":
            return Laplace(at_least(self.spread / budget.total))
        return Gaussian(root_at_least(self.spread**2 / (2 * budget.total)))

    @property
    def rate(self) -> Rate | None:
        """r ≤ (d/ε)·log(2/β) ≤ (2d/ε)·log(1/β) for a spread d and β ≤ ½."""
        return Rate(1.0, 2.0 * float(self.spread), 1.0)

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Release:
        (count,) = gate.measure([self.query], self.noise(budget)).values
        share = count / self.query.scale / gate.size
        return Oblivious(gate.schema, gate.size, self.query, share, self.radius(budget, beta) / gate.size)


class Spoilt(CellsBox):
    """Honest but for the runs whose number ``spoil`` knows: there it does as it is told, after the honest run."""

    def __init__(self, spoil: dict[int, Callable[[Gate, Release], Any]]) -> None:
        super().__init__()
        self.spoil = spoil
        self.runs = 0

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Any:
        release = super().run(gate, budget, alpha, beta, progress)
        number, self.runs = self.runs, self.runs + 1
        return self.spoil[number](gate, release) if number in self.spoil else release


class Garbage(Release):
    """Gives back whatever it was made with; a callable is called with the queries."""

    def __init__(self, honest: Release, gives: Any) -> None:
        super().__init__(honest.schema, honest.size)
        self.gives = gives

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        given: tuple[Floats, Floats] = self.gives(queries) if callable(self.gives) else self.gives
        return given
