"""Sums and products over parts of a vector of N cells, at the speed of memory; and `Tabulated`, its cached marginals.

A histogram is a flat array of cells, the last axis running fastest. Its leading axes are taken together as *rows*, its
trailing axes as the cells of a row, at least `ROW` of them: loops run along rows, and what a row needs is looked up
once a row. So an operation is described by a few arrays much shorter than N, whatever the axes. Every operation is
one pass over the cells it touches, in a fixed order: equal inputs give equal bits.

Axes have at least two values each, so there are never more than 26 of them.

`Tabulated` computes a marginal of the vector when it is asked for, and from then on changes it along with the vector.
The compiled loops are in ``kernels.py``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np

from treering.arrays import Flags, Floats, Ints
from treering.mechanisms.histogram import kernels
from treering.mechanisms.histogram.kernels import compiled

Shape: TypeAlias = tuple[int, ...]
Sets: TypeAlias = Mapping[int, Flags]
"""For each axis named, which of its codes match. The *block* is the product of these sets."""
AxisRuns: TypeAlias = list[tuple[int, bool]]
"""The size of each axis, and whether it is kept or summed out."""

ROW: Final = 2**8
"""The least number of cells in a row (unless there are fewer in all)."""

_LONG_ROW: Final = 2**12
"""The least number of cells in a row for sums, and where a row needs no array of its own length."""

_LONG_RUN: Final = 16
"""Trailing axes with at least this many joint values are summed out before the others."""

_FEW: Final = 64
"""Up to this many terms are summed without compensation."""

_CONSTANT: Final = 64
"""Runs of at least this many cells that share one factor get a loop of their own."""

_LINE: Final = 64
"""The bytes of a cache line."""


def zeros(cells: int) -> Floats:
    """A vector that begins with a cache line. NumPy's own may begin at any 16 bytes, and then every wide load and store
    touches two lines: while the vector fits the cache, a pass takes half as long again."""
    padded = np.zeros(cells + _LINE // 8)
    first = -padded.ctypes.data % _LINE // 8
    return padded[first : first + cells]


# -- sums --------------------------------------------------------------------------------------------------------------


def marginal(cells: Floats, shape: Shape, kept: Sequence[int]) -> Floats:
    """The sums over all axes but those kept, flat: a new array, unless all are kept.

    The relative error is below 10^-13 however many cells there are.
    """
    axes = [(size, axis in kept) for axis, size in enumerate(shape)]
    while not all(keep for _, keep in axes):
        cells, axes = _sum_some(cells, axes)
    return cells


def block_sums(cells: Floats, shape: Shape, sets: Sets) -> tuple[float, float]:
    """The sum over the block, and the sum over all other cells."""
    before, row = _split(shape)
    sizes, flags, _ = _flags(shape, sets)
    inside, outside = compiled(kernels.sum_block)(cells, sizes, flags, before, row)
    return inside, outside


def _sum_some(cells: Floats, axes: AxisRuns) -> tuple[Floats, AxisRuns]:
    """Sum out some of the axes, those first that shrink the array at the least cost."""
    merged = _merge(axes)
    size, keep = merged[-1]
    if not keep and size >= _LONG_RUN:
        sums = np.empty(len(cells) // size)
        compiled(kernels.sum_runs)(cells, size, sums)
        return sums, merged[:-1]
    before, row = _split(tuple(size for size, _ in axes), _LONG_ROW)
    if not all(keep for _, keep in axes[:before]):
        return _sum_rows(cells, axes, before, row)
    # The axes left to sum out lie within rows. Merged axes alternate, so the last to sum out is one of the last two.
    few = merged[-2][0] if keep else size
    if few > _FEW:
        return _sum_rows(cells, merged, len(merged) - 1, size)
    sums = np.empty(len(cells) // few)
    compiled(kernels.sum_few)(cells, few, size if keep else 1, sums)
    return sums, merged[:-2] + merged[-1:] if keep else merged[:-1]


def _sum_rows(cells: Floats, axes: AxisRuns, before: int, row: int) -> tuple[Floats, AxisRuns]:
    """Sum out those of the first ``before`` axes that are not kept; the axes after them form a row."""
    rows = axes[:before]
    sums = np.empty((math.prod(size for size, keep in rows if keep), row))
    compiled(kernels.sum_rows)(cells, _starts(rows, row, kept=True), _starts(rows, row, kept=False), sums)
    return sums.reshape(-1), [axis for axis in rows if axis[1]] + axes[before:]


def _merge(axes: AxisRuns) -> AxisRuns:
    """Merge neighbouring axes that are all kept, or all summed out, into one axis."""
    merged: AxisRuns = []
    for size, keep in axes:
        if merged and merged[-1][1] == keep:
            merged[-1] = (merged[-1][0] * size, keep)
        else:
            merged.append((size, keep))
    return merged


def _starts(rows: AxisRuns, row: int, *, kept: bool) -> Ints:
    """Where those rows start that differ from the first row only in kept axes (or only in axes summed out)."""
    starts = np.zeros(1, dtype=np.int64)
    stride = math.prod(size for size, _ in rows) * row
    for size, keep in rows:
        stride //= size
        if keep == kept:
            starts = np.add.outer(starts, np.arange(size) * stride).reshape(-1)
    return starts


# -- products ----------------------------------------------------------------------------------------------------------


def scale_block(cells: Floats, shape: Shape, sets: Sets, ratio: float) -> None:
    """Multiply the cells of the block by ``ratio``; no other cell is touched."""
    last = max(sets)
    before, tail = min(_split(shape, _LONG_ROW)[0], last), math.prod(shape[last + 1 :])
    sizes, flags, ends = _flags(shape, sets)
    rows = compiled(kernels.places)(sizes[:before], flags[: ends[before]], math.prod(shape[before:]))
    picks = compiled(kernels.places)(sizes[before : last + 1], flags[ends[before] :], 1)
    compiled(kernels.scale)(cells, rows, picks, tail, ratio)


def reweigh_block(
    cells: Floats, shape: Shape, sets: Sets, *, inside: float, outside: float, slope: float, level: float
) -> None:
    """Each cell becomes (slope·cell + level)·inside in the block, (slope·cell + level)·outside elsewhere."""
    rows, columns = _block(shape, sets)
    compiled(kernels.reweigh_block)(cells, rows, columns, inside, outside, slope, level)


def reweigh_table(
    cells: Floats, shape: Shape, axes: Sequence[int], table: Floats, *, slope: float, level: float
) -> None:
    """Each cell becomes (slope·cell + level)·factor, with one factor for each joint value of ``axes`` (increasing)."""
    before, row = axes[-1] + 1, math.prod(shape[axes[-1] + 1 :])
    constant = row >= _CONSTANT
    if not constant:
        before, row = _split(shape)
    # Rows that differ only in other axes are of one kind. A kind has a factor for each cell of a row, or a single one.
    sizes = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    kinds = math.prod(sizes[:before])
    index = np.broadcast_to(np.arange(kinds).reshape(sizes[:before]), shape[:before]).reshape(-1)
    factors = table.reshape(kinds, *sizes[before:])
    if not constant:
        factors = np.broadcast_to(factors, (kinds, *shape[before:]))
    # A broadcast that changes no shape returns a read-only view, which numba treats as another type.
    index = np.require(index, requirements=["C", "W"])
    factors = np.require(factors.reshape(kinds, -1), requirements=["C", "W"])
    compiled(kernels.reweigh_table)(cells, index, row, factors, slope, level)


# -- rows and blocks of a shape ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _split(shape: Shape, least: int = ROW) -> tuple[int, int]:
    """How many leading axes index rows, and how many cells a row has."""
    row = 1
    for axis in reversed(range(len(shape))):
        row *= shape[axis]
        if row >= least:
            return axis, row
    return 0, row


def _block(shape: Shape, sets: Sets) -> tuple[Flags, Flags]:
    """Which rows have matching cells, and which cells of such a row match."""
    before, row = _split(shape)
    sizes, flags, ends = _flags(shape, sets)
    rows, columns = np.empty(math.prod(shape[:before]), dtype=np.bool_), np.empty(row, dtype=np.bool_)
    compiled(kernels.mark)(sizes[:before], flags[: ends[before]], rows)
    compiled(kernels.mark)(sizes[before:], flags[ends[before] :], columns)
    return rows, columns


def _flags(shape: Shape, sets: Sets) -> tuple[Ints, Flags, list[int]]:
    """The sizes of the axes, the flags of all codes of all axes, and where each axis begins in the flags."""
    sizes, starts = _frame(shape)
    if len(sets) == len(shape):
        return sizes, np.concatenate([sets[axis] for axis in range(len(shape))]), starts
    flags = np.full(starts[-1], True)
    for axis, matching in sets.items():
        flags[starts[axis] : starts[axis + 1]] = matching
    return sizes, flags, starts


@lru_cache(maxsize=256)
def _frame(shape: Shape) -> tuple[Ints, list[int]]:
    return np.array(shape, dtype=np.int64), list(accumulate(shape, initial=0))


# -- cached marginals --------------------------------------------------------------------------------------------------


Axes: TypeAlias = tuple[int, ...]

MARGINAL_CELLS: Final = 2**22
"""The most entries of a marginal that is cached."""

CACHED_CELLS: Final = 2**25
"""The most entries of all cached marginals together; the least recently used are dropped first."""


class Tabulated:
    """A vector z of positive numbers, one for each cell, and its marginals.

    A change by factors that depend on some axes is made to z and to the cached marginals over all these axes, each in
    time of the order of its size. The other marginals are dropped: when one is asked for again, it takes one pass
    over z, or over the smallest cached marginal that it can be computed from.
    """

    def __init__(self, cells: Floats, shape: Shape) -> None:
        self.cells: Final = cells
        self.shape: Final = shape
        self._marginals: OrderedDict[Axes, Floats] = OrderedDict()

    def total(self) -> float:
        """The sum of all cells, computed anew."""
        return float(marginal(self.cells, self.shape, ())[0])

    def sums(self, axes: Axes) -> Floats:
        """The marginal over some axes, as a flat array that callers must not change."""
        if len(axes) == len(self.shape):
            return self.cells
        if axes in self._marginals:
            self._marginals.move_to_end(axes)
            return self._marginals[axes]
        wider, cells = min(self._wider(axes), key=lambda each: len(each[1]))
        sums = marginal(cells, self._sizes(wider), [wider.index(axis) for axis in axes])
        if len(sums) <= MARGINAL_CELLS:
            self._keep(axes, sums)
        return sums

    def block_sums(self, sets: Sets) -> tuple[float, float]:
        """The sum over a block, and over all other cells: one pass over the marginal, or over z if it is too large."""
        axes = tuple(sets)
        sizes = self._sizes(axes)
        if math.prod(sizes) > MARGINAL_CELLS:
            return block_sums(self.cells, self.shape, sets)
        return block_sums(self.sums(axes), sizes, dict(enumerate(sets.values())))

    def scale_block(self, sets: Sets, ratio: float) -> None:
        """Multiply the cells of a block by ``ratio``."""
        for axes, cells in self._changing(tuple(sets)):
            within = {axes.index(axis): flags for axis, flags in sets.items()}
            scale_block(cells, self._sizes(axes), within, ratio)

    def reweigh_block(self, sets: Sets, *, inside: float, outside: float, slope: float, even: float) -> None:
        """z becomes (slope·z + even/N)·inside in a block, (slope·z + even/N)·outside elsewhere."""
        for axes, cells in self._changing(tuple(sets)):
            within = {axes.index(axis): flags for axis, flags in sets.items()}
            level = even / len(cells)
            reweigh_block(cells, self._sizes(axes), within, inside=inside, outside=outside, slope=slope, level=level)

    def reweigh_table(self, axes: Axes, factors: Floats, *, slope: float, even: float) -> None:
        """z becomes (slope·z + even/N)·factor, with one factor for each joint value of ``axes``."""
        for wider, cells in self._changing(axes):
            within = [wider.index(axis) for axis in axes]
            reweigh_table(cells, self._sizes(wider), within, factors, slope=slope, level=even / len(cells))

    def forget(self) -> None:
        """Drop all cached marginals, which collect rounding errors as they change: they are then computed anew."""
        self._marginals.clear()

    def _sizes(self, axes: Axes) -> Shape:
        return tuple(self.shape[axis] for axis in axes)

    def _wider(self, axes: Axes) -> Iterator[tuple[Axes, Floats]]:
        """What the marginal over these axes can be computed from: z, and cached marginals over all these axes."""
        yield tuple(range(len(self.shape))), self.cells
        yield from ((kept, cells) for kept, cells in self._marginals.items() if set(axes) <= set(kept))

    def _changing(self, axes: Axes) -> Iterator[tuple[Axes, Floats]]:
        """What factors that depend on these axes change: z and marginals over all these axes. Drops the others."""
        for kept in [kept for kept in self._marginals if not set(axes) <= set(kept)]:
            del self._marginals[kept]
        return self._wider(axes)

    def _keep(self, axes: Axes, sums: Floats) -> None:
        self._marginals[axes] = sums
        while sum(len(each) for each in self._marginals.values()) > CACHED_CELLS:
            self._marginals.popitem(last=False)
