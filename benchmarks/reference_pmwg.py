"""PMWG as one would write it down with numpy: dense vectors over all cells, a dense mask for each query.

The yardstick for speed, and for nothing else: its noise is numpy's, so it protects nobody.
"""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from treering.domain.query import Query
from treering.domain.schema import Schema

Vector: TypeAlias = npt.NDArray[np.float64]


class DensePMWG:
    """The paper's PMWG: threshold 2α/3, rate α/6, growth towards uniform. Scales of noise are in rows."""

    def __init__(
        self,
        schema: Schema,
        cells: npt.NDArray[np.int64],
        *,
        alpha: float,
        scale: float,
        generator: np.random.Generator,
    ) -> None:
        """``cells`` are the rows, by cell; the threshold's noise has this scale, that of a query twice as much."""
        self.schema = schema
        self.alpha = alpha
        self.counts: Vector = np.bincount(cells, minlength=schema.cells).astype(np.float64)
        self.size = len(cells)
        self.histogram: Vector = np.full(schema.cells, 1 / schema.cells)
        self.hard = 0
        self._scale = scale
        self._generator = generator
        self.threshold = generator.laplace(0, scale)

    def ask(self, query: Query) -> float:
        """The share of the rows that match: a mask and two products."""
        mask = dense(query)
        truth, guess = float(mask @ self.counts), float(mask @ self.histogram)
        gap = abs(truth - guess * self.size)
        if gap + self._generator.laplace(0, 2 * self._scale) < 2 / 3 * self.alpha * self.size + self.threshold:
            return guess
        answer = (truth + float(self._generator.laplace(0, self._scale))) / self.size
        # The cells that the histogram has too much of lose.
        self.histogram *= np.exp(-self.alpha / 6 * (mask if answer < guess else 1 - mask))
        self.histogram /= self.histogram.sum()
        self.hard += 1
        self.threshold = self._generator.laplace(0, self._scale)
        return answer

    def append(self, cells: npt.NDArray[np.int64]) -> None:
        """Take in rows, and mix the histogram with as much of the uniform distribution."""
        self.counts += np.bincount(cells, minlength=self.schema.cells)
        kept = self.size / (self.size + len(cells))
        self.histogram = kept * self.histogram + (1 - kept) / self.schema.cells
        self.size += len(cells)


def dense(query: Query) -> Vector:
    """A conjunction's weight in each cell of the universe."""
    if query.masks is None:
        raise ValueError("the reference answers conjunctions only")
    sets = [np.ones(size) for size in query.schema.shape]
    for position, mask in zip(query.attributes, query.masks, strict=True):
        sets[position] = mask.astype(np.float64)
    return reduce(np.multiply.outer, sets).reshape(-1)
