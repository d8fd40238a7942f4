"""Noisy counts of all cells, as a release made of them: queries in exact integer arithmetic, and rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.evaluate import evaluate_many
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.synthetic import cells_at, rows_of
from treering.params import whole

CACHED_CELLS: Final = 2**24
"""Marginals are kept while they have at most so many entries together; the least recently used go first."""


class NoisyCounts:
    """Counts over all cells with noise in them, for a database of a public size."""

    def __init__(self, schema: Schema, size: int, counts: Ints) -> None:
        self.schema: Final = schema
        self.size: Final = size
        # An attribute of one value is no axis: numpy has room for 64.
        self._axes = {p: axis for axis, p in enumerate(p for p, length in enumerate(schema.shape) if length > 1)}
        self._counts = counts.reshape([schema.shape[position] for position in self._axes])
        self._marginals: OrderedDict[tuple[int, ...], Ints] = OrderedDict()
        self._distribution: Floats | None = None
        self.excess: Final = int(counts.sum()) - size
        """By how much the noise makes the total too large: public, as the size is."""

    def rows(self, queries: Sequence[Query], centres: Floats) -> Floats:
        """Each query's weighted count, in rows: Σ w·count − centre·excess.

        The total is known, so any centre will do: the error is Σ (w − centre)·noise.
        """
        raw = evaluate_many(queries, self._marginal, np.int64)
        scales = np.array([query.scale for query in queries], dtype=np.float64)
        rows: Floats = raw / scales - centres * self.excess
        return rows

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """Independent rows from the distribution that is nearest to the counts in L2."""
        whole(rows, "rows", least=0)
        if self._distribution is None:
            self._distribution = on_simplex(self._counts.reshape(-1), self.size)
        places = np.sort(generator.random(rows))
        cells = cells_at(places, self.schema.cells, self._distribution, 1.0, 0.0)
        generator.shuffle(cells)
        return rows_of(self.schema, cells)

    def _marginal(self, positions: tuple[int, ...]) -> Ints:
        shape = [self.schema.shape[position] for position in positions]
        if positions not in self._marginals:
            kept = {self._axes[position] for position in positions if position in self._axes}
            others = tuple(axis for axis in range(self._counts.ndim) if axis not in kept)
            self._marginals[positions] = np.asarray(self._counts.sum(axis=others, dtype=np.int64))
            while sum(each.size for each in self._marginals.values()) > CACHED_CELLS and len(self._marginals) > 1:
                self._marginals.popitem(last=False)
        self._marginals.move_to_end(positions)
        return self._marginals[positions].reshape(shape)


def on_simplex(counts: npt.ArrayLike, total: float) -> Floats:
    """The distribution nearest in L2 to counts over their true total: max(count − level, 0) for the one level that
    leaves the total, divided by it.

    The level takes the noise off again: cutting at zero alone would leave half of it, as rows in empty cells.
    """
    given = np.asarray(counts, dtype=np.float64)
    falling = np.sort(given)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = int(np.flatnonzero(falling > levels)[-1])
    kept = np.maximum(given - levels[last], 0.0)
    distribution: Floats = kept / kept.sum()
    return distribution
