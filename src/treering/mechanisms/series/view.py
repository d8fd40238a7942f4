"""The estimate of one period of a series, as something that answers queries for free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from treering.answer import Answer
from treering.arrays import Floats
from treering.domain.query import Attributes, Marginal, Query, evaluate_many
from treering.domain.schema import Schema
from treering.mechanisms.histogram.blocks import Tabulated
from treering.mechanisms.series.base import Window
from treering.theory.continual import StructuredBound
from treering.theory.rings import margin, spectrum

ROUNDING: Final = 1 + 2.0**-20
_SHARE_ROUNDING: Final = 2.0**-30
"""Bounds on all rounding errors: of the noise's part in an answer (relative), and of the share itself (absolute). A sum
of 2^22 floats, in whatever order, is off by at most 2^-31 of the sum of their sizes; combining releases and marginals
adds far less."""


class Reading(NamedTuple):
    """What an estimate says about one query: shares of the rows, of which ``value`` is not clipped."""

    value: float
    margin: float
    error: float


class View:
    """The estimate of the rows of one period, over all cells of a schema (of joint classes, say).

    ``errors`` are the bounds that all queries to this estimate keep together.
    """

    def __init__(self, schema: Schema, window: Window, errors: StructuredBound) -> None:
        self.size = window.end - window.start
        """The number of rows of the period."""
        self.law = window.law
        self._schema = schema
        self._errors = errors
        # Axes are the attributes with more than one value.
        positions = [position for position, values in enumerate(schema.shape) if values > 1]
        self._axes = {position: axis for axis, position in enumerate(positions)}
        shape = tuple(schema.shape[position] for position in positions)
        self._table = Tabulated(_centred(window.counts, self.size), shape)

    def readings(self, queries: Sequence[Query]) -> list[Reading]:
        """What the estimate says about each query."""
        counts = evaluate_many(queries, self._marginal, np.float64)
        radii = self._errors.radius(queries)
        return [
            Reading(
                count / (query.scale * self.size), self.share(margin(self.law, spectrum(query))), self.share(radius)
            )
            for query, count, radius in zip(queries, counts.tolist(), radii.tolist(), strict=True)
        ]

    def answers(self, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query, about the same rows."""
        told = zip(queries, self.readings(queries), strict=True)
        return [constant(query, self.size) if query.constant else answer(each, self.size) for query, each in told]

    @property
    def counts(self) -> Floats:
        """The estimate of each cell's rows."""
        return self._table.cells.copy()

    def share(self, rows: float) -> float:
        """A number of rows as a share, rounded up."""
        return share(rows, self.size)

    def _marginal(self, attributes: Attributes) -> Marginal[np.float64]:
        sums = self._table.sums(tuple(self._axes[position] for position in attributes))
        return sums.reshape([self._schema.shape[position] for position in attributes])


def answer(reading: Reading, size: int) -> Answer:
    """An answer about a period of ``size`` rows."""
    value = min(1.0, max(0.0, reading.value))
    return Answer(value, min(1.0, reading.error), size, "measured", min(1.0, reading.margin))


def constant(query: Query, size: int) -> Answer:
    """The answer to a query that every row weighs the same: public."""
    return Answer(int(query.weights()) / query.scale, 0.0, size, "measured")


def share(rows: float, size: int) -> float:
    """A bound in rows as a share, with all rounding errors."""
    return rows * ROUNDING / size + _SHARE_ROUNDING


def _centred(counts: Floats, size: int) -> Floats:
    """The estimates of all cells, with an equal part of the noise of their total taken off each: the total is public,
    and so it is exact."""
    centred: Floats = counts - (float(counts.sum()) - size) / len(counts)
    return centred
