"""The sealed store of points with real-valued features: what the estimators keep their rows in."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from treering.arrays import Floats
from treering.domain.attribute import categories
from treering.domain.loss import Labels
from treering.domain.problem import FEATURE_UNIT, MOST_DIMENSIONS, label_grid, on_grid
from treering.domain.schema import Schema
from treering.errors import DataError, ParameterError
from treering.params import whole
from treering.trusted.counts import Counts
from treering.trusted.entries import Entries, Moments
from treering.trusted.learning.rows import Bounds, Rows

POINTS: Final = Schema({"entry": categories("point")})
"""Points have no finite universe: to the kernel they all lie in one cell, and only their number can be counted."""

_FIRST: Final = 1024
_UNIT: Final = {"signs": Bounds(classes=(-1, 1)), "numbers": Bounds(label=1.0), "none": Bounds()}
"""What is declared of points: they lie in the unit ball."""


class Points(Counts):
    """Points of the unit L2 ball with labels, growing by append. Only their number is public.

    Features are kept as integers in units of 1/2^16 of norm at most 1, exactly; a longer row is scaled down to the
    ball, which is a function of that row alone. Scale features by *public* bounds before.
    """

    __slots__ = ("_grid", "_kind", "_labels", "_moments")

    def __init__(self, dimension: int, labels: Labels) -> None:
        super().__init__(POINTS)
        if whole(dimension, "dimension") > MOST_DIMENSIONS:
            raise ParameterError("dimension", f"must be at most {MOST_DIMENSIONS:,}, not {dimension:,}")
        if labels not in ("signs", "numbers", "none"):
            raise ParameterError("labels", f"must be 'signs', 'numbers' or 'none', not {labels!r}")
        self._kind: Labels = labels
        self._grid: Floats = np.empty((_FIRST, dimension))
        self._labels: Floats = np.zeros(_FIRST)
        self._moments = Moments(dimension)

    @property
    def dimension(self) -> int:
        """How many features a point has: public."""
        return int(self._grid.shape[1])

    @property
    def label_kind(self) -> Labels:
        """What the labels are: public."""
        return self._kind

    def add_points(self, features: Any, labels: Any = None) -> None:
        """Take in points, all or none. NaN, infinities and labels outside the declared kind are refused by position."""
        if self._kind == "none" and labels is not None:
            raise DataError("these points have no labels")
        self.add_rows(Rows(features, labels, _UNIT[self._kind], least=0))

    def add_rows(self, rows: Rows) -> None:
        """Take in rows that passed their checks."""
        if rows.dimension != self.dimension:
            raise DataError(f"features must be rows of {self.dimension} numbers, not {rows.dimension}")
        grid = on_grid(rows.entries).astype(np.float64)
        marks = self._marks(rows)
        with self.lock:
            begin, end = self.size, self.size + len(grid)
            if end > len(self._grid):
                self._grid = _longer(self._grid, end)
                self._labels = _longer(self._labels, end)
            self._grid[begin:end] = grid
            self._labels[begin:end] = marks
            self._moments.add(grid, marks)
            self.add(np.zeros(len(grid), dtype=np.int64))

    def entries(self) -> Entries:
        """PRIVATE: all points of this moment."""
        return Entries(self._grid[: self.size], self._labels[: self.size], None, self.size, self._moments)

    def _marks(self, rows: Rows) -> Floats:
        """Labels on their grid; zeros where there are none."""
        if rows.label_kind != self._kind:
            raise DataError(f"the labels of these points are {self._kind}, not {rows.label_kind}")
        return np.zeros(rows.size) if rows.labels is None else np.asarray(label_grid(rows.labels) / FEATURE_UNIT)


def _longer(array: Floats, needed: int) -> Floats:
    """A copy with room for at least ``needed`` rows, and twice as many as before."""
    longer = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]))
    longer[: len(array)] = array
    return longer
