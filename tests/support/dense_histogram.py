"""A slow twin of the public histogram: all cells in extended precision, everything computed from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.histogram.hypothesis import Hypothesis

Floats: TypeAlias = npt.NDArray[np.float64]


def values_per_cell(query: Query) -> Floats:
    """The query's value in every cell, in the schema's shape."""
    schema = query.schema
    spread = [size if position in query.attributes else 1 for position, size in enumerate(schema.shape)]
    return np.broadcast_to(query.weights().reshape(spread) / query.scale, schema.shape)


def cells_of(hypothesis: Hypothesis) -> Floats:
    """The public histogram's own cells, in the schema's shape."""
    return hypothesis.marginal(hypothesis.schema.names)


def relative_entropy(data: Any, histogram: Any) -> float:
    """RE(x‖y) in nats."""
    data, histogram = np.asarray(data, dtype=np.longdouble), np.asarray(histogram, dtype=np.longdouble)
    some = data > 0
    return float((data[some] * np.log(data[some] / histogram[some])).sum())


class DenseHistogram:
    """The same operations as `Hypothesis`, on an array of long doubles in the schema's shape."""

    def __init__(self, schema: Schema, start: npt.ArrayLike | None = None) -> None:
        self.schema = schema
        given = np.ones(schema.shape) if start is None else np.asarray(start).reshape(schema.shape)
        self.shares: Any = given.astype(np.longdouble)
        self.shares /= self.shares.sum()

    def grow(self, share: float) -> None:
        self.shares = (1 - np.longdouble(share)) * self.shares + np.longdouble(share) / self.schema.cells

    def answer(self, query: Query) -> float:
        return float((self.shares * values_per_cell(query)).sum())

    def marginal(self, names: Sequence[str]) -> Floats:
        dropped = tuple(axis for axis, name in enumerate(self.schema.names) if name not in names)
        return np.asarray(self.shares.sum(axis=dropped), dtype=np.float64)

    def project(self, query: Query, target: float) -> None:
        values, goal = values_per_cell(query), np.longdouble(target)
        if query.counting:
            inside, outside = self.shares[values == 1].sum(), self.shares[values == 0].sum()
            self.shares = self.shares * np.where(values == 1, goal / inside, (1 - goal) / outside)
            self.shares /= self.shares.sum()
        else:
            self.tilt(query, self._rate(values, goal))

    def tilt(self, query: Query, rate: Any) -> None:
        """y ∝ y·e^{−rate·f}."""
        self.shares = self._tilted(values_per_cell(query), rate)

    def _tilted(self, values: Floats, rate: Any) -> Any:
        logs = np.log(self.shares) - rate * values
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def _rate(self, values: Floats, goal: Any) -> Any:
        """By bisection alone."""
        low, high = np.longdouble(-1e9), np.longdouble(1e9)
        for _ in range(200):
            middle = (low + high) / 2
            mean = (self._tilted(values, middle) * values).sum()
            low, high = (middle, high) if mean > goal else (low, middle)
        return (low + high) / 2
