"""Sums and products over parts of an N-vector, at the speed of memory.

A histogram is a flat array of cells, the last axis running fastest. Its leading axes are taken together as *rows*, its
trailing axes as the cells of a row, at least `ROW` of them: loops run along rows, and what a row needs is looked up
once a row. So the geometry of an operation is a few arrays much shorter than N, whatever the axes. Every operation is
one pass over the cells it touches, in a fixed order: equal inputs give equal bits.

Axes have at least two values each, so there are never more than 26 of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Cells: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Offsets: TypeAlias = npt.NDArray[np.int64]
Shape: TypeAlias = tuple[int, ...]
Sets: TypeAlias = Mapping[int, Flags]
"""For each axis named, which of its codes match. The *block* is the product of these sets."""
Axes: TypeAlias = list[tuple[int, bool]]
"""The size of each axis, and whether it is kept or summed out."""

FLOOR: Final = 1e-250
"""No cell is made smaller than this: products neither vanish nor lose their relative precision."""

ROW: Final = 2**8
"""A row has at least so many cells (unless there are fewer in all)."""

_LONG_ROW: Final = 2**12
"""The same where a row needs no array of its own length."""

_LONG_RUN: Final = 16
"""Trailing axes with so many joint values are summed out before the others."""

_SHORT_RUN: Final = 8
"""Below this mean length of runs, matching cells are visited one by one."""

_FEW: Final = 64
"""So many terms are summed plainly."""

_CONSTANT: Final = 64
"""Runs of so many cells that share one factor are worth a loop of their own."""

_CHUNK: Final = 2**12
"""So many cells are summed plainly before their sum is added with compensation."""


# -- sums --------------------------------------------------------------------------------------------------------------


def marginal(cells: Cells, shape: Shape, kept: Sequence[int]) -> Cells:
    """The sums over all axes but those kept, flat: a new array, unless all are kept.

    The relative error is below 10^-13 however many cells there are.
    """
    axes = [(size, axis in kept) for axis, size in enumerate(shape)]
    while not all(keep for _, keep in axes):
        cells, axes = _sum_some(cells, axes)
    return cells


def block_sums(cells: Cells, shape: Shape, sets: Sets) -> tuple[float, float]:
    """The sum over the block, and the sum over all other cells."""
    rows, columns = _block(shape, sets)
    matching, others = np.empty((1, len(columns))), np.empty((1, len(columns)))
    start = np.zeros(1, dtype=np.int64)
    for sums, flags in ((matching, rows), (others, ~rows)):
        _compiled(_sum_rows)(cells, start, np.flatnonzero(flags) * len(columns), sums)
    return float(matching[0, columns].sum()), float(matching[0, ~columns].sum() + others.sum())


def _sum_some(cells: Cells, axes: Axes) -> tuple[Cells, Axes]:
    """Sum out some of the axes: first those that shrink the array at the least cost."""
    *leading, (size, keep) = _merge(axes)
    if not keep and size >= _LONG_RUN:
        sums = np.empty(len(cells) // size)
        _compiled(_sum_runs)(cells, size, sums)
        return sums, leading
    before, row = _split(tuple(size for size, _ in axes))
    if all(keep for _, keep in axes[:before]):
        # What is left lies within rows: neighbours differ once merged, so the last one dropped is one of the last two.
        axes, dropped, width = ([*leading, (size, keep)], leading[-1][0], size) if keep else (leading, size, 1)
        if dropped <= _FEW:
            sums = np.empty(len(cells) // dropped)
            _compiled(_sum_few)(cells, dropped, width, sums)
            return sums, [*leading[:-1], (size, keep)] if keep else leading
        before, row = len(axes) - 1, size
    rows = axes[:before]
    table = np.empty((math.prod(size for size, keep in rows if keep), row))
    _compiled(_sum_rows)(cells, _starts(rows, row, kept=True), _starts(rows, row, kept=False), table)
    return table.reshape(-1), [axis for axis in rows if axis[1]] + axes[before:]


def _merge(axes: Axes) -> Axes:
    """Neighbours of the same kind as one axis."""
    merged: Axes = []
    for size, keep in axes:
        if merged and merged[-1][1] == keep:
            merged[-1] = (merged[-1][0] * size, keep)
        else:
            merged.append((size, keep))
    return merged


def _starts(rows: Axes, row: int, *, kept: bool) -> Offsets:
    """Where the rows start that differ from the first only in the axes kept (or only in those summed out)."""
    starts = np.zeros(1, dtype=np.int64)
    stride = math.prod(size for size, _ in rows) * row
    for size, keep in rows:
        stride //= size
        if keep == kept:
            starts = np.add.outer(starts, np.arange(size) * stride).reshape(-1)
    return starts


# -- products ----------------------------------------------------------------------------------------------------------


def scale_block(cells: Cells, shape: Shape, sets: Sets, ratio: float) -> None:
    """Multiply the block; no other cell is touched."""
    last = max(sets)
    before, tail = min(_split(shape, _LONG_ROW)[0], last), math.prod(shape[last + 1 :])
    sizes, flags, ends = _flags(shape, sets)
    rows = _compiled(_places)(sizes[:before], flags[: ends[before]], math.prod(shape[before:]))
    picks = _compiled(_places)(sizes[before : last + 1], flags[ends[before] :], 1)
    _compiled(_scale)(cells, rows, picks, tail, ratio)


def reweigh_block(
    cells: Cells, shape: Shape, sets: Sets, *, inside: float, outside: float, slope: float, level: float
) -> None:
    """(slope·cell + level)·inside in the block, (slope·cell + level)·outside everywhere else."""
    rows, columns = _block(shape, sets)
    _compiled(_reweigh_block)(cells, rows, columns, inside, outside, slope, level)


def reweigh_table(cells: Cells, shape: Shape, axes: Sequence[int], table: Cells, *, slope: float, level: float) -> None:
    """(slope·cell + level)·factor, with one factor for each joint value of some axes (increasing)."""
    before, row = axes[-1] + 1, math.prod(shape[axes[-1] + 1 :])
    if row < _CONSTANT:
        before, row = _split(shape)
    spread = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    kinds = math.prod(spread[:before])
    # Rows of one kind share their factors: one for each cell of a row, or one in all.
    width = (1,) if axes[-1] < before else shape[before:]
    factors = np.broadcast_to(table.reshape(kinds, *spread[before:] if width != (1,) else width), (kinds, *width))
    index = np.broadcast_to(np.arange(kinds).reshape(spread[:before]), shape[:before])
    _compiled(_reweigh_table)(
        cells, index.reshape(-1), row, np.ascontiguousarray(factors).reshape(kinds, -1), slope, level
    )


# -- geometry ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _split(shape: Shape, least: int = ROW) -> tuple[int, int]:
    """How many leading axes are rows, and how long a row is."""
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
    _compiled(_mark)(sizes[:before], flags[: ends[before]], rows)
    _compiled(_mark)(sizes[before:], flags[ends[before] :], columns)
    return rows, columns


def _flags(shape: Shape, sets: Sets) -> tuple[Offsets, Flags, list[int]]:
    """The axes' sizes, the flags of all codes of all axes, and where each axis begins."""
    sizes, starts = _frame(shape)
    flags = np.full(starts[-1], True)
    for axis, matching in sets.items():
        flags[starts[axis] : starts[axis + 1]] = matching
    return sizes, flags, starts


@lru_cache(maxsize=256)
def _frame(shape: Shape) -> tuple[Offsets, list[int]]:
    return np.array(shape, dtype=np.int64), list(accumulate(shape, initial=0))


# -- kernels -----------------------------------------------------------------------------------------------------------


@cache
def _compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel, compiled. numba is loaded here because that takes a second."""
    from numba import njit

    compiled: Callable[..., Any] = njit(nogil=True, cache=True)(kernel)
    return compiled


def _sum_runs(cells: Any, length: Any, sums: Any) -> None:
    """Each sum is that of consecutive cells: eight sums side by side, chunks added with compensation (TwoSum)."""
    for index in range(len(sums)):
        result, lost = 0.0, 0.0
        for start in range(index * length, (index + 1) * length, _CHUNK):
            run = cells[start : min(start + _CHUNK, (index + 1) * length)]
            a = b = c = d = e = f = g = h = 0.0
            even = len(run) // 8 * 8
            for k in range(0, even, 8):
                a += run[k]
                b += run[k + 1]
                c += run[k + 2]
                d += run[k + 3]
                e += run[k + 4]
                f += run[k + 5]
                g += run[k + 6]
                h += run[k + 7]
            for k in range(even, len(run)):
                a += run[k]
            new = ((a + e) + (b + f)) + ((c + g) + (d + h))
            old = result
            result = old + new
            back = result - old
            lost += (old - (result - back)) + (new - back)
        sums[index] = result + lost


def _sum_rows(cells: Any, keeps: Any, drops: Any, sums: Any) -> None:
    """Each row of sums is that of the rows at keep + drop, for all drops: eight at a time, then with compensation."""
    width = sums.shape[1]
    lost = np.empty(width)
    even = len(drops) // 8 * 8
    for index in range(len(keeps)):
        result = sums[index]
        result[:] = 0.0
        lost[:] = 0.0
        for drop in range(0, even, 8):
            a = cells[keeps[index] + drops[drop] :][:width]
            b = cells[keeps[index] + drops[drop + 1] :][:width]
            c = cells[keeps[index] + drops[drop + 2] :][:width]
            d = cells[keeps[index] + drops[drop + 3] :][:width]
            e = cells[keeps[index] + drops[drop + 4] :][:width]
            f = cells[keeps[index] + drops[drop + 5] :][:width]
            g = cells[keeps[index] + drops[drop + 6] :][:width]
            h = cells[keeps[index] + drops[drop + 7] :][:width]
            for k in range(width):
                new = ((a[k] + b[k]) + (c[k] + d[k])) + ((e[k] + f[k]) + (g[k] + h[k]))
                old = result[k]
                result[k] = old + new
                back = result[k] - old
                lost[k] += (old - (result[k] - back)) + (new - back)
        for drop in range(even, len(drops)):
            a = cells[keeps[index] + drops[drop] :][:width]
            for k in range(width):
                old = result[k]
                result[k] = old + a[k]
                back = result[k] - old
                lost[k] += (old - (result[k] - back)) + (a[k] - back)
        for k in range(width):
            result[k] += lost[k]


def _sum_few(cells: Any, dropped: Any, width: Any, sums: Any) -> None:
    """The sums over the middle one of three axes, which is short."""
    for index in range(len(sums) // width):
        first = index * dropped * width
        for k in range(width):
            result = 0.0
            for drop in range(dropped):
                result += cells[first + drop * width + k]
            sums[index * width + k] = result


def _mark(sizes: Any, flags: Any, marks: Any) -> None:
    """The product of sets: `flags` has one flag for each code of each axis."""
    marks[0] = True
    done, first = 1, 0
    for size in sizes:
        for index in range(done - 1, -1, -1):
            mark = marks[index]
            for code in range(size - 1, -1, -1):
                marks[index * size + code] = mark and flags[first + code]
        done *= size
        first += size


def _places(sizes: Any, flags: Any, unit: Any) -> Any:
    """Where the members of a product of sets are, in increasing order; `flags` as in `_mark`."""
    count, first = 1, 0
    for size in sizes:
        count *= np.sum(flags[first : first + size])
        first += size
    places = np.zeros(count, dtype=np.int64)
    done, first = 1, 0
    for size in sizes:
        codes = np.flatnonzero(flags[first : first + size])
        for index in range(done - 1, -1, -1):
            place = places[index] * size
            for each in range(len(codes) - 1, -1, -1):
                places[index * len(codes) + each] = place + codes[each]
        done *= len(codes)
        first += size
    return places * unit


def _scale(cells: Any, rows: Any, picks: Any, tail: Any, ratio: Any) -> None:
    """In each row, the picks of `tail` cells each: neighbours as one run, or cell by cell if runs are short."""
    starts, ends = np.empty(len(picks), dtype=np.int64), np.empty(len(picks), dtype=np.int64)
    runs = 0
    for index in range(len(picks)):
        if index == 0 or picks[index] != picks[index - 1] + 1:
            starts[runs] = picks[index] * tail
            runs += 1
        ends[runs - 1] = (picks[index] + 1) * tail
    if len(picks) * tail >= _SHORT_RUN * runs:
        for row in rows:
            for index in range(runs):
                first = np.uint64(row + starts[index])
                for k in range(np.uint64(ends[index] - starts[index])):
                    cells[first + k] = max(cells[first + k] * ratio, FLOOR)
        return
    single = np.empty(len(picks) * tail, dtype=np.int64)
    for index in range(len(single)):
        single[index] = picks[index // tail] * tail + index % tail
    for row in rows:
        for place in single:
            cells[row + place] = max(cells[row + place] * ratio, FLOOR)


def _reweigh_block(cells: Any, rows: Any, columns: Any, inside: Any, outside: Any, slope: Any, level: Any) -> None:
    width = len(columns)
    factors = np.where(columns, inside, outside)
    other_slope, other_level = slope * outside, level * outside
    for index in range(len(rows)):
        run = cells[index * width : (index + 1) * width]
        if rows[index]:
            for k in range(width):
                run[k] = max((run[k] * slope + level) * factors[k], FLOOR)
        else:
            for k in range(width):
                run[k] = max(run[k] * other_slope + other_level, FLOOR)


def _reweigh_table(cells: Any, index: Any, width: Any, factors: Any, slope: Any, level: Any) -> None:
    """Each row by the factors of its kind: one for each cell, or one in all."""
    for row in range(len(index)):
        run = cells[row * width : (row + 1) * width]
        own = factors[index[row]]
        if len(own) > 1:
            for k in range(width):
                run[k] = max((run[k] * slope + level) * own[k], FLOOR)
        else:
            own_slope, own_level = slope * own[0], level * own[0]
            for k in range(width):
                run[k] = max(run[k] * own_slope + own_level, FLOOR)
