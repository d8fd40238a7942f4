"""Sums, averages and quantiles of groups, from series: the part of `Rings` that answers a `Request`.

``theory/sums.py`` and ``theory/quantiles.py`` have the intervals and their proofs.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from treering.answer import Estimate, Tail, whole
from treering.arrays import Floats
from treering.domain.attribute import Attribute, Bins, Integers
from treering.domain.calendar import DatePart, Dates, midnight
from treering.domain.language.items import QUANTIFIED, Item, under_one_lens
from treering.domain.language.measures import Codes, Count, Mean, Measure, Quantile, Release, Request, Sum, needs_cells
from treering.domain.language.parse import Question
from treering.domain.numeric import Numbers
from treering.domain.query import Query
from treering.domain.sums import Grid
from treering.errors import QueryError
from treering.mechanisms.series.drawing import Drawing, Source
from treering.mechanisms.series.policy import Asked, Planned, Planning
from treering.mechanisms.series.view import Reading
from treering.theory.continual import Law
from treering.theory.quantiles import cells_between, level_margins, point, ratio_end
from treering.theory.rings import chosen_groups
from treering.theory.sums import fieller, quotient

_EXACT = Reading(0.0, 0.0, 0.0, 0.0)


Needs: TypeAlias = dict[tuple[Codes, Measure], list[Query]]
"""For each group and measure, the queries whose rows it needs to know."""


Interval: TypeAlias = tuple[float, float]


class Known(NamedTuple):
    """What is known of a batch: counts as shares of the rows, sums in rows at the bound."""

    size: int
    counts: dict[Query, Reading]
    sums: dict[tuple[int, Query], Reading]

    def rows(self, query: Query) -> Reading:
        """How many rows match a query."""
        if query.constant:
            return _EXACT._replace(value=self.size * int(query.weights()) / query.scale)
        return self.counts[query].times(self.size)

    def total(self, position: int, query: Query) -> Reading:
        """The sum of an attribute over the rows that match a query, in rows at the bound."""
        return _EXACT if _nothing(query) else self.sums[position, query]


class Measuring(Planning):
    """The part of `Rings` that answers requests."""

    def release(self, request: Request, within: float | None = None) -> Release:
        """The measures of a request for each of its groups, paid for together.

        ``within`` is as in `Rings.ask`; of a sum, it is the number of rows of which each adds half of the range.
        """
        if request.schema != self._gate.schema:
            raise QueryError("the request is about another schema than this database")
        request.check()
        needs = self._needs(request)
        size = self._rows_to_share()
        known = self._measured(self._asked(request, needs), self._wished(within))
        rows = tuple(
            tuple(self._estimate(request, measure, needs[codes, measure], known) for measure in request.measures)
            for codes in request.groups()
        )
        return Release(request, size, rows)

    def release_price(self, request: Request, within: float | None = None) -> Fraction:
        """What `release` costs those rows that pay most, in the budget's unit, but for rounding: free to ask."""
        request.check()
        return self._planned(self._asked(request, self._needs(request)), self._wished(within)).price

    def tell(self, items: Sequence[Item], within: float | None = None) -> list[Estimate]:
        """Single numbers about some rows, paid for together. ``within`` is as in `release`."""
        items = under_one_lens(items)
        known = self._measured(self._asked_items(items), self._wished(within))
        return [self._told(item, known) for item in items]

    def quote_items(self, items: Sequence[Item], within: float | None = None) -> Fraction:
        """What `tell` costs those rows that pay most, in the budget's unit, but for rounding: free to ask."""
        return self._planned(self._asked_items(under_one_lens(items)), self._wished(within)).price

    def draw(self, items: Sequence[Item], told: Sequence[Estimate], draws: int) -> Floats:
        """The noise of what `tell` has told, drawn anew from its law by public random numbers: a row for each draw, a
        column for each item. Of quantiles it is taken for normal, with their margins."""
        return self.drawing(items).draw(told, draws)

    @abstractmethod
    def drawing(self, items: Sequence[Item], sources: Sequence[Source] | None = None) -> Drawing:
        """The noise of what `tell` has just told, to be drawn at any time; with the ``sources`` of an earlier drawing
        of the same items, the noise of what was told then."""

    def _asked_items(self, items: Sequence[Item]) -> Asked:
        counts = [item.query for item in items if item.kind == "count" and not item.query.constant]
        sums: dict[int, dict[Query, None]] = {}
        cells: dict[tuple[Query, ...], None] = {}
        for item in items:
            if item.kind == "sum" and not _nothing(item.query):
                sums.setdefault(item.position, {})[item.query] = None
            elif item.kind in ("quantile", "mean"):
                cells[tuple(query for query in item.cells() if not query.constant)] = None
        listed = {position: list(queries) for position, queries in sums.items()}
        return Asked(list(dict.fromkeys(counts)), listed, [each for each in cells if each])

    def _told(self, item: Item, known: Known) -> Estimate:
        """An item, with its reading and what is known of the reading's noise."""
        tail: Tail = "log-concave" if self._pure else "normal"
        if item.kind in ("count", "sum"):
            read = known.rows(item.query) if item.kind == "count" else known.total(item.position, item.query)
            shown = count(read, known.size) if item.kind == "count" and item.query.counting else _plain(read)
            return replace(shown, reading=read.value, tail=tail)
        attribute = item.query.schema.attributes[item.query.schema.names[item.position]]
        cells = self._cells(item.cells(), known)
        if item.kind == "mean":
            return replace(average(attribute, cells), tail=tail)
        return replace(quantile(attribute, item.level, cells), tail="together")  # An interval of cells has no scale.

    def sum(self, column: str, where: Question | None = None, within: float | None = None) -> Estimate:
        """The sum of a column of `integers` or `numbers`, over the rows that match ``where``."""
        return self._one(Sum(column), where, within)

    def mean(self, column: str, where: Question | None = None, within: float | None = None) -> Estimate:
        """The average of a column, over the rows that match ``where`` and have a value."""
        return self._one(Mean(column), where, within)

    def quantile(
        self, column: str, level: float = 0.5, where: Question | None = None, within: float | None = None
    ) -> Estimate:
        """The value of a column below which a share ``level`` of the rows lies, of those that match ``where``."""
        return self._one(Quantile(column, level), where, within)

    def _one(self, measure: Measure, where: Question | None, within: float | None) -> Estimate:
        return self.release(Request.of(self._gate.schema, [measure], (), where), within).rows[0][0]

    @abstractmethod
    def _measured(self, asked: Asked, wanted: float | None) -> Known:
        """Measure what is missing, and tell what is known."""

    @abstractmethod
    def _planned(self, asked: Asked, wanted: float | None) -> Planned:
        """What would be measured."""

    # -- what to ask --------------------------------------------------------------------------------------------------

    def _needs(self, request: Request) -> Needs:
        """The queries whose rows each measure of each group needs to know; measures of one column share them."""
        found: Needs = {}
        for codes in request.groups():
            known: dict[tuple[str | None, int], list[Query]] = {}
            for measure in request.measures:
                column = measure.column
                cells = column is not None and needs_cells(measure, request.attribute(column))
                kind = column, 0 if isinstance(measure, Count) else 1 + cells
                if kind not in known:
                    known[kind] = _queries(request, codes, column, kind[1])
                found[codes, measure] = known[kind]
        return found

    def _asked(self, request: Request, needs: Needs) -> Asked:
        counts, cells = dict[Query, None](), dict[tuple[Query, ...], None]()
        sums: dict[int, dict[Query, None]] = {}
        for (_, measure), found in needs.items():
            asked = dict.fromkeys(each for each in found if not each.constant)
            if isinstance(measure, Count):
                counts |= asked
            elif needs_cells(measure, request.attribute(measure.column)):
                cells[tuple(asked)] = None
            else:
                summed = sums.setdefault(self._gate.schema.index(measure.column), {})
                summed |= dict.fromkeys(query for query in found if not _nothing(query))
                if self._pure:  # Otherwise the rows that are summed are counted with their sum.
                    counts |= asked
        listed = {position: list(queries) for position, queries in sums.items()}
        return Asked(list(counts), listed, [each for each in cells if each])

    # -- estimates ----------------------------------------------------------------------------------------------------

    def _estimate(self, request: Request, measure: Measure, queries: list[Query], known: Known) -> Estimate:
        if isinstance(measure, Count):
            return count(known.rows(queries[0]), known.size)
        attribute = request.attribute(measure.column)
        if needs_cells(measure, attribute):
            assert isinstance(attribute, Integers | Bins)
            cells = self._cells(queries, known)
            if isinstance(measure, Quantile):
                return quantile(attribute, measure.level, cells)
            return average(attribute, cells)
        grid = Grid.of(attribute)
        assert grid is not None
        total, rows = known.total(self._gate.schema.index(measure.column), queries[0]), known.rows(queries[0])
        normal = not self._pure
        if isinstance(measure, Mean):
            return mean(grid, total, rows, normal)
        return summed(grid, total, rows, normal, known.size)

    def _cells(self, queries: Sequence[Query], known: Known) -> Cells:
        """What the sharpest series that knows them all says about the cells of a group."""
        real = [query for query in queries if not query.constant]
        able = [ring for ring in self._rings if ring.series.size == known.size and all(map(ring.covers, real))]
        if not real:  # No row can match, or all lie in one cell: everything is public.
            counts = [known.rows(query).value for query in queries]
            nothing = np.zeros(len(queries))
            return Cells(np.array(counts), [0] * len(queries), 1, Law(0.0), nothing, nothing)
        ring = min(able, key=lambda each: each.next_variance(real[0], known.size))
        view, reduced = ring.view(0), [ring.reduced(query) for query in queries]
        numbers = [chosen_groups(query) for query in reduced]
        below = list(itertools.accumulate(reduced, operator.or_))
        above = [
            *reversed(list(itertools.accumulate(reversed(reduced[1:]), operator.or_))),
            Query.none(below[0].schema),
        ]
        radii = (view.radii(below), view.radii(above))
        return Cells(np.array(view.sums(reduced)), numbers, ring.series.groups.number, view.law, *radii)


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


def _plain(reading: Reading) -> Estimate:
    """A number as it was read."""
    value, margin = reading.value, reading.margin
    return Estimate(value, value - margin, value + margin, max(reading.error, margin))


def _queries(request: Request, codes: Codes, column: str | None, kind: int) -> list[Query]:
    """The queries for the rows of a group; for those that have a value, for those that are summed, or for each cell."""
    if column is None:
        return [request.matching(codes)]
    if kind == 2:
        return request.cells(codes, column)
    return [request.valued(codes, column) if kind else request.present(codes, column)]


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


def quantile(attribute: Attribute, level: float, cells: Cells) -> Estimate:
    """A quantile: `treering.theory.quantiles`."""
    limits = bounds(attribute)
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


def _nothing(query: Query) -> bool:
    """Whether no row can match."""
    return query.constant and int(query.weights()) == 0
