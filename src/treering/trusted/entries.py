"""PRIVATE: what a minimiser reads, weighted entries, whether they come from points or from the counts of cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from treering.arrays import Floats, Ints
from treering.budget.minimising import SUMMED
from treering.domain.problem import FEATURE_UNIT, CellFeatures
from treering.trusted.counts import Counts
from treering.trusted.sealed import Sealed

HELD: Final = 2**23
"""Features of cells up to this many numbers (64 MB) are made once; beyond, block by block in every pass."""

_EXACT_ROWS: Final = 2**20
"""Products of two features summed over this many rows are below 2^53: a float product of matrices is exact."""


class Moments(Sealed):
    """Exact sums over entries: of features times features, and of features times labels, in units of 1/2^32.

    Below 2^62 for fewer than 2^30 entries. They are all that a squared loss needs, and maintained as entries arrive.
    """

    __slots__ = ("cross", "square")

    def __init__(self, dimension: int) -> None:
        self.square: Ints = np.zeros((dimension, dimension), dtype=np.int64)
        self.cross: Ints = np.zeros(dimension, dtype=np.int64)

    def add(self, grid: Floats, labels: Floats) -> None:
        """Take in entries: integer features, labels as they are."""
        for start in range(0, len(grid), _EXACT_ROWS):
            part = grid[start : start + _EXACT_ROWS]
            marks = labels[start : start + _EXACT_ROWS] * FEATURE_UNIT
            self.square += (part.T @ part).astype(np.int64)
            self.cross += (marks @ part).astype(np.int64)

    def add_weighted(self, grid: Floats, labels: Floats, weights: Ints) -> None:
        """Take in entries that stand for several each."""
        whole = grid.astype(np.int64)
        self.square += (whole * weights[:, None]).T @ whole
        self.cross += ((labels * FEATURE_UNIT).astype(np.int64) * weights) @ whole


class Entries(Sealed):
    """Entries of one moment: features as integers (held in floats, for speed), labels, and how often each occurs.

    Features of cells may be the public map itself: then each block is made when it is needed.
    """

    __slots__ = ("_moments", "_source", "labels", "size", "weights")

    def __init__(
        self,
        source: Floats | CellFeatures,
        labels: Floats,
        weights: Ints | None,
        size: int,
        moments: Moments | None,
    ) -> None:
        self._source = source
        self.labels = labels
        self.weights = weights
        self.size = size
        self._moments = moments

    @property
    def moments(self) -> Moments:
        """PRIVATE: their exact second moments."""
        if self._moments is None:
            source = self._source
            self._moments = Moments(source.dimension if isinstance(source, CellFeatures) else source.shape[1])
            for grid, labels, weights in self.blocks():
                assert weights is not None
                self._moments.add_weighted(grid, labels, weights)
        return self._moments

    @property
    def grid(self) -> Floats:
        """PRIVATE: all features."""
        return self._part(slice(0, len(self.labels)))

    def blocks(self, rows: int = SUMMED) -> Iterator[tuple[Floats, Floats, Ints | None]]:
        """Features, labels and weights, some rows at a time."""
        for start in range(0, len(self.labels), rows):
            part = slice(start, start + rows)
            yield self._part(part), self.labels[part], None if self.weights is None else self.weights[part]

    def _part(self, part: slice) -> Floats:
        if isinstance(self._source, CellFeatures):
            return self._source.part(part.start, part.stop).astype(np.float64)
        return self._source[part]


def entries_of_cells(counts: Counts, features: CellFeatures) -> Entries:
    """PRIVATE: each joint value of the attributes that matter is an entry, weighted by its count."""
    weights = np.array(counts.marginal(features.joint)).reshape(-1)
    held = features.entries * features.dimension <= HELD
    source = features.grid.astype(np.float64) if held else features
    return Entries(source, features.labels, weights, counts.size, None)
