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
from treering.theory.continual import Law, StructuredBound
from treering.theory.rings import WIDE, Spectrum, margin, plain_spectrum, spectrum

ROUNDING: Final = 1 + 2.0**-20
_SHARE_ROUNDING: Final = 2.0**-30
"""Bounds on all rounding errors: of the noise's part in an answer (relative), and of the share itself (absolute). A sum
of 2^22 floats, in whatever order, is off by at most 2^-31 of the sum of their sizes; combining releases and marginals
adds far less."""


class Reading(NamedTuple):
    """What an estimate says about one query: shares of the rows, of which ``value`` is not clipped. (Of sums: numbers
    of rows at the bound.)"""

    value: float
    margin: float
    error: float
    wide: float
    """A margin of which two hold together with 95%: each fails with 2.5%."""

    def times(self, factor: float) -> Reading:
        """The reading of so many times the number."""
        return Reading(*(each * factor for each in self))


class _Cells:
    """A number for each cell of a schema, and the sums that queries ask for."""

    def __init__(self, schema: Schema, numbers: Floats) -> None:
        self._schema = schema
        # Axes are the attributes with more than one value.
        positions = [position for position, values in enumerate(schema.shape) if values > 1]
        self._axes = {position: axis for axis, position in enumerate(positions)}
        self._table = Tabulated(numbers, tuple(schema.shape[position] for position in positions))

    def sums(self, queries: Sequence[Query]) -> list[float]:
        """The weighted sum of the numbers, for each query."""
        found = evaluate_many(queries, self._marginal, np.float64).tolist()
        return [each / query.scale for each, query in zip(found, queries, strict=True)]

    def _marginal(self, attributes: Attributes) -> Marginal[np.float64]:
        sums = self._table.sums(tuple(self._axes[position] for position in attributes))
        return sums.reshape([self._schema.shape[position] for position in attributes])


class Totals(_Cells):
    """The estimate of the sums of one period, for each joint class. They are not centred: their total is private."""

    def __init__(self, schema: Schema, sums: Floats, law: Law) -> None:
        super().__init__(schema, sums)
        self.law = law

    def readings(self, queries: Sequence[Query], errors: Sequence[float]) -> list[Reading]:
        """What the estimate says about each query, a union of classes, with the error that it has."""
        spectra = [plain_spectrum(query) for query in queries]
        return [
            Reading(
                value, *(each * ROUNDING for each in (margin(self.law, plain), error, wide_margin(self.law, plain)))
            )
            for value, plain, error in zip(self.sums(queries), spectra, errors, strict=True)
        ]


class View(_Cells):
    """The estimate of the rows of one period, over all cells of a schema (of joint classes, say).

    ``errors`` are the bounds that all queries to this estimate keep together.
    """

    def __init__(self, schema: Schema, window: Window, errors: StructuredBound, rows: int | None = None) -> None:
        self.size = window.end - window.start if rows is None else rows
        """The number of rows of the period: all that came, or those ``rows`` that were not erased."""
        self.law = window.law
        self._errors = errors
        super().__init__(schema, _centred(window.counts, self.size))

    def readings(self, queries: Sequence[Query]) -> list[Reading]:
        """What the estimate says about each query."""
        radii = self._errors.radius(queries)
        return [
            Reading(
                count / self.size,
                self.share(margin(self.law, spectrum(query))),
                self.share(radius),
                self.share(wide_margin(self.law, spectrum(query))),
            )
            for query, count, radius in zip(queries, self.sums(queries), radii.tolist(), strict=True)
        ]

    def radii(self, queries: Sequence[Query]) -> Floats:
        """Bounds on the noise of queries, in rows, that all of them keep together."""
        found = np.zeros(len(queries))
        noisy = [place for place, query in enumerate(queries) if not query.constant]
        if noisy:
            found[noisy] = self._errors.radius([queries[place] for place in noisy]) * ROUNDING
        return found

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


def answer(reading: Reading, size: int) -> Answer:
    """An answer about a period of ``size`` rows."""
    value = min(1.0, max(0.0, reading.value))
    return Answer(value, min(1.0, reading.error), size, "measured", min(1.0, reading.margin))


def constant(query: Query, size: int) -> Answer:
    """The answer to a query that every row weighs the same: public."""
    return Answer(int(query.weights()) / query.scale, 0.0, size, "measured")


def wide_margin(law: Law, weights: Spectrum) -> float:
    """A margin that fails with 2.5%."""
    return margin(law, weights, WIDE)


def share(rows: float, size: int) -> float:
    """A bound in rows as a share, with all rounding errors."""
    return rows * ROUNDING / size + _SHARE_ROUNDING


def _centred(counts: Floats, size: int) -> Floats:
    """The estimates of all cells, with an equal part of the noise of their total taken off each: the total is public,
    and so it is exact."""
    centred: Floats = counts - (float(counts.sum()) - size) / len(counts)
    return centred
