"""The loops over the N cells of a histogram, compiled by numba at their first use. ``blocks.py`` explains the terms.

Without numba (extra ``fast``) Python runs them as they are: the same operations in the same order give the same
numbers, some fifty times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

FLOOR: Final = 1e-250
"""No cell is made smaller than this: products neither vanish nor lose their relative precision."""

_SHORT_RUN: Final = 8
"""Below this mean length of runs, matching cells are visited one by one."""

_CHUNK: Final = 2**12
"""How many cells are summed without compensation, before their sum is added with it."""


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel, compiled if numba is installed, which is imported here, not above, because that takes a second."""
    if find_spec("numba") is None:
        return kernel
    from numba import njit

    fast: Callable[..., Any] = njit(nogil=True, cache=True)(kernel)
    return fast


def sum_runs(cells: Any, length: Any, sums: Any) -> None:
    """Sums of ``length`` consecutive cells: eight partial sums at once, chunks added with compensation (TwoSum)."""
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


def sum_rows(cells: Any, keeps: Any, drops: Any, sums: Any) -> None:
    """Row i of ``sums`` is the sum of the rows that start at keeps[i] + drop, for all drops: eight rows are added at a
    time, and these sums with compensation."""
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


def sum_block(cells: Any, sizes: Any, flags: Any, before: Any, width: Any) -> Any:
    """The sum over a product of sets, and over all other cells: chunks of rows, added with compensation.

    ``flags`` is as in `mark`; the first ``before`` axes index rows of ``width`` cells.
    """
    ends = np.cumsum(sizes)
    members = np.ones(width)
    for column in range(width):
        rest = column
        for axis in range(len(sizes) - 1, before - 1, -1):
            if not flags[ends[axis] - sizes[axis] + rest % sizes[axis]]:
                members[column] = 0.0
            rest //= sizes[axis]
    inside, outside, lost_inside, lost_outside = 0.0, 0.0, 0.0, 0.0
    for index in range(len(cells) // width):
        matching, rest = True, index
        for axis in range(before - 1, -1, -1):
            matching = matching and flags[ends[axis] - sizes[axis] + rest % sizes[axis]]
            rest //= sizes[axis]
        for start in range(0, width, _CHUNK):
            length = min(_CHUNK, width - start)
            run = cells[index * width + start :][:length]
            own = members[start:][:length]
            a = b = c = d = e = f = g = h = 0.0
            even = length // 4 * 4
            if matching:
                for k in range(0, even, 4):
                    a += run[k] * own[k]
                    b += run[k + 1] * own[k + 1]
                    c += run[k + 2] * own[k + 2]
                    d += run[k + 3] * own[k + 3]
                    e += run[k] * (1.0 - own[k])
                    f += run[k + 1] * (1.0 - own[k + 1])
                    g += run[k + 2] * (1.0 - own[k + 2])
                    h += run[k + 3] * (1.0 - own[k + 3])
                for k in range(even, length):
                    a += run[k] * own[k]
                    e += run[k] * (1.0 - own[k])
            else:
                for k in range(0, even, 4):
                    e += run[k]
                    f += run[k + 1]
                    g += run[k + 2]
                    h += run[k + 3]
                for k in range(even, length):
                    e += run[k]
            new, old = (a + b) + (c + d), inside
            inside = old + new
            back = inside - old
            lost_inside += (old - (inside - back)) + (new - back)
            new, old = (e + f) + (g + h), outside
            outside = old + new
            back = outside - old
            lost_outside += (old - (outside - back)) + (new - back)
    return inside + lost_inside, outside + lost_outside


def sum_few(cells: Any, dropped: Any, width: Any, sums: Any) -> None:
    """The sums over the middle one of three axes, which has few values (``dropped``)."""
    for index in range(len(sums) // width):
        first = index * dropped * width
        for k in range(width):
            result = 0.0
            for drop in range(dropped):
                result += cells[first + drop * width + k]
            sums[index * width + k] = result


def mark(sizes: Any, flags: Any, marks: Any) -> None:
    """Mark the cells of a product of sets: ``flags`` has one flag for each code of each axis."""
    marks[0] = True
    done, first = 1, 0
    for size in sizes:
        for index in range(done - 1, -1, -1):
            mark = marks[index]
            own = marks[index * size : (index + 1) * size]
            if mark:
                for code in range(size):
                    own[code] = flags[first + code]
            else:
                for code in range(size):
                    own[code] = False
        done *= size
        first += size


def places(sizes: Any, flags: Any, unit: Any) -> Any:
    """The positions of the members of a product of sets, increasing, times ``unit``; ``flags`` is as in `mark`."""
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


def scale(cells: Any, rows: Any, picks: Any, tail: Any, ratio: Any) -> None:
    """Multiply by ``ratio``, in each row, the picked groups of ``tail`` cells.

    Neighbouring groups are one run; if runs are short, cells are visited one by one.
    """
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


def reweigh_block(cells: Any, rows: Any, columns: Any, inside: Any, outside: Any, slope: Any, level: Any) -> None:
    """Multiply slope·cell + level by ``inside`` in flagged columns of flagged rows, and by ``outside`` elsewhere."""
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


def reweigh_table(cells: Any, index: Any, width: Any, factors: Any, slope: Any, level: Any) -> None:
    """Multiply slope·cell + level by the factors of the row's kind: one for each cell, or a single one."""
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
