"""Counts, sums, averages and quantiles, each with its interval, from what series say of the rows behind them.

``theory/sums.py`` and ``theory/quantiles.py`` have the intervals and their proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from treering.answer import Estimate, whole
from treering.arrays import Floats
from treering.domain.attribute import Attribute, Bins, Integers
from treering.domain.calendar import DatePart, Dates, midnight
from treering.domain.language.items import QUANTIFIED
from treering.domain.numeric import Numbers
from treering.domain.sums import Grid
from treering.mechanisms.series.view import Reading
from treering.theory.continual import Law
from treering.theory.quantiles import cells_between, level_margins, point, ratio_end
from treering.theory.sums import fieller, quotient

Interval: TypeAlias = tuple[float, float]


class Cells(NamedTuple):
    """The rows of a group in each cell of a column, in the order of its values, as one estimate tells them."""

    counts: Floats
    numbers: Sequence[int]
    """How many groups of the estimate make up each cell."""
    groups: int
    """How many groups the estimate has."""
    law: Law
    below: Floats
    above: Floats
    """Bounds on the noise of the rows up to each cell, and of those after it, that all answers keep together."""


def plain(reading: Reading) -> Estimate:
    """A number as it was read."""
    value, margin = reading.value, reading.margin
    return Estimate(value, value - margin, value + margin, max(reading.error, margin))


def count(rows: Reading, size: int) -> Estimate:
    """A number of rows: whole, and from 0 to ``size``. (What is nearest there is no further from the truth.)"""
    near = min(float(size), max(0.0, rows.value))
    value, low, high = whole(near, rows.margin)
    _, least, most = whole(near, rows.error)
    return Estimate(value, max(0, low), min(size, high), max(value - least, most - value))


def summed(grid: Grid, total: Reading, rows: Reading, normal: bool, size: int) -> Estimate:
    """The sum of values of at most ``size`` rows: `treering.theory.sums`."""
    middle, half = float(grid.middle), (grid.high - grid.low) / 2
    value = half * total.value + middle * rows.value
    if normal:
        margin = math.hypot(half * total.margin, middle * rows.margin)
    else:
        margin = half * total.wide + abs(middle) * rows.wide
    error = half * total.error + abs(middle) * rows.error
    found = Estimate(value, value - margin, value + margin, max(error, margin))
    return found.within(size * min(0.0, float(grid.low)), size * max(0.0, float(grid.high)))


def mean(grid: Grid, total: Reading, rows: Reading, normal: bool) -> Estimate:
    """The average of values: `treering.theory.sums`."""
    middle, half = float(grid.middle), (grid.high - grid.low) / 2
    if normal:
        low, high = fieller(total.value, rows.value, total.margin, rows.margin, 1.0)
    else:
        low, high = quotient(total.value, rows.value, total.wide, rows.wide, 1.0)
    ends = middle + half * low, middle + half * high
    narrow = rows.margin if normal else rows.wide
    if rows.value <= narrow or rows.value <= 0:
        return Estimate(None, *ends)
    value = middle + half * min(high, max(low, total.value / rows.value))
    worst = quotient(total.value, rows.value, total.error, rows.error, 1.0)
    outer = min(ends[0], middle + half * worst[0]), max(ends[1], middle + half * worst[1])
    return Estimate(value, *ends, max(value - outer[0], outer[1] - value))


def bounds(attribute: Attribute) -> list[Interval]:
    """The least and the greatest value of each cell of a column, in the order of its values; of dates, as days since
    1970."""
    assert isinstance(attribute, QUANTIFIED)
    found: list[Interval] = []
    for code in attribute.line:
        if code >= attribute.regular:
            found.append(_outside(attribute, below=code == attribute.below_code))
        elif isinstance(attribute, Integers | DatePart):
            found.append((float(attribute.low + code),) * 2)
        elif isinstance(attribute, Dates):
            found.append((_days(attribute.edges[code]), _days(attribute.edges[code + 1]) - 1))
        else:
            found.append((attribute.edges[code], attribute.edges[code + 1]))
    return found


def _outside(attribute: Attribute, *, below: bool) -> Interval:
    """The values of a cell outside: those of integers and numbers are clipped to their bounds."""
    if isinstance(attribute, Integers):
        return (float(attribute.low if below else attribute.high),) * 2
    if isinstance(attribute, Dates):
        return (-math.inf, _days(attribute.edges[0]) - 1) if below else (_days(attribute.edges[-1]), math.inf)
    assert isinstance(attribute, Bins)
    first, last = attribute.edges[0], attribute.edges[-1]
    if isinstance(attribute, Numbers):
        return (min(attribute.low, first), first) if below else (last, max(attribute.high, last))
    return (-math.inf, first) if below else (last, math.inf)


def _days(day: date) -> float:
    return float((midnight(day) - datetime(1970, 1, 1)).days)


def limits_of(attribute: Attribute, cuts: Sequence[float]) -> list[Interval]:
    """The least and the greatest value of each cell of a quantile: the column's own cells, or those that cuts make."""
    found = bounds(attribute)
    if not cuts:
        return found
    return [(found[0][0], cuts[0]), *pairwise(cuts), (cuts[-1], found[-1][1])]


def quantile(limits: Sequence[Interval], level: float, cells: Cells) -> Estimate:
    """A quantile over cells of these limits: `treering.theory.quantiles`."""
    levels = (np.cumsum(cells.counts) - level * cells.counts.sum()).tolist()
    low, high = _span(limits, levels, level_margins(cells.law, cells.numbers, cells.groups, level))
    if cells.counts.sum() <= 0:
        return Estimate(None, low, high)
    cell, part = point(levels)
    start, end = limits[cell]
    value = start + part * (end - start) if math.isfinite(end - start) else end if math.isinf(start) else start
    value = min(high, max(low, value))
    wide = _span(limits, levels, ((1 - level) * cells.below + level * cells.above).tolist())
    error = max(value - min(low, wide[0]), max(high, wide[1]) - value)
    return Estimate(value, low, high, error if math.isfinite(error) else None)


def _span(limits: Sequence[tuple[float, float]], levels: Sequence[float], margins: Sequence[float]) -> Interval:
    """The least and the greatest value of the cells that a quantile lies in, if the levels are within their margins."""
    first, last = cells_between(levels, margins)
    return limits[first][0], limits[last][1]


def average(attribute: Attribute, cells: Cells) -> Estimate:
    """The average of a column of bins, as far as they tell: `treering.theory.quantiles`. Rows outside are left out."""
    listed = [(place, each) for place, each in enumerate(bounds(attribute)) if all(map(math.isfinite, each))]
    chosen = [place for place, _ in listed]
    ends = np.array([each for _, each in listed])
    counts, numbers = cells.counts[chosen], [cells.numbers[place] for place in chosen]
    least, most = float(ends.min()), float(ends.max())
    low = max(least, ratio_end(ends[:, 0], counts, numbers, cells.groups, cells.law, upper=False))
    high = min(most, ratio_end(ends[:, 1], counts, numbers, cells.groups, cells.law, upper=True))
    rows = float(counts.sum())
    if rows <= 0 or low >= high:
        return Estimate(None, least, most)
    value = float(ends.mean(axis=1) @ counts) / rows
    return Estimate(min(high, max(low, value)), low, high)
