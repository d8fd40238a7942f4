"""SQL statements over a growing database: counts, sums, averages and quantiles, in groups, answered as one batch.

    statement = read_sql("SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month", schema)
    result = statement.released(rings.release(statement.request))

The result is a table: rows of labels, and of numbers with their margins. It is arithmetic on released answers: nothing
private is needed to make it.

Mechanisms other than `Rings` answer queries only: counts, and averages of integers and bins.

    result = statement.table(mechanism.ask_many(statement.queries))

**AVG** is then one weighted query, or a ratio of two, with an interval that is proven. The values that a matching row
can have are scaled to weights in [0, 1]: the least is 0, the greatest 1. With N the sum of the weights of the matching
rows as a share of all rows, and D the share of the rows that match, the average of the matching rows is

    low + (high − low)·N/D.

*Interval.* Let n and d be answers with |n − N| ≤ e and |d − D| ≤ f. As 0 ≤ N ≤ D ≤ 1,

    max(0, n − e) / min(1, d + f)  ≤  N/D  ≤  min(1, (n + e) / (d − f)),

the right side only where d − f > 0. Otherwise D may be 0, nothing can be said, and the interval is the whole range.
Weights that are not multiples of 1/W for a W up to 2^20 are rounded to multiples of 2^-16: each row's weight moves by
at most 2^-17, so N/D, a mean of weights, does too, and the interval is widened by that. All of this is computed in
exact rationals; only its ends are rounded to floats, outwards.

*Bins.* A value may lie anywhere in its bin: one weighted query takes each bin's lower edge for its values, another the
upper edge, and the interval reaches from the lower end of the first average to the upper end of the second.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from treering.answer import Answer, Estimate
from treering.arrays import Flags, Floats
from treering.domain.attribute import Attribute, Bins, Integers, Label
from treering.domain.language.clauses import SUPPORTED, Chosen, Key, Measured, Select, select
from treering.domain.language.measures import Count, Mean, Release, Request
from treering.domain.numeric import Numbers
from treering.domain.query import MAX_TABLE, RESOLUTION, Query, too_large
from treering.domain.schema import Schema
from treering.errors import QueryError

__all__ = ["MAX_ENTRIES", "MAX_GROUPS", "SUPPORTED", "ResultTable", "Statement", "read_sql"]

MAX_GROUPS: Final = 10_000
"""The most groups of one statement."""
MAX_ENTRIES: Final = 2**24
"""The most weights and flags of all queries of one statement together: 128 MB at worst."""

Places: TypeAlias = tuple[tuple[int, ...], ...]
Codes: TypeAlias = tuple[int, ...]
"""One group: a code for each attribute grouped by."""


def read_sql(text: str, schema: Schema) -> Statement:
    """The statement of an SQL text about the attributes of ``schema``: see `Statement` for its meaning.

    >>> from treering.domain.attribute import bins, integers
    >>> schema = Schema({"month": integers(1, 12), "delay": bins([-1440, 0, 15, 60, 1440])})
    >>> found = read_sql("SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month", schema)
    >>> len(found.queries), str(found.queries[0]), found.columns
    (12, 'month = 1 AND delay >= 60', ('month', 'COUNT(*)'))
    """
    clauses = select(text, schema)
    statement = Statement(text, schema, clauses)
    statement._check_size()
    return statement


@dataclass(frozen=True)
class Statement:
    """A SELECT of counts, sums, averages and quantiles.

    Formal guarantee: each `Estimate` of the table holds the true number with 95%, as SQL has it, except that AVG and
    SUM leave out rows whose value is outside the range of integers or bins, and clip those of numbers to their bounds;
    rows without a value are left out, as SQL leaves out nulls. Unlike in SQL every group of the schema has a row, an
    empty one as well: which groups are empty is private.
    """

    text: str
    schema: Schema
    clauses: Select

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the table."""
        return tuple(item.name for item in self.clauses.selected)

    @cached_property
    def request(self) -> Request:
        """What `Rings.release` answers: the measures that are selected, each once."""
        measures = dict.fromkeys(item.measure for item in self.clauses.selected if isinstance(item, Measured))
        return Request(self.schema, tuple(measures), self.clauses.groups, self.clauses.where)

    def released(self, release: Release) -> ResultTable:
        """The table, from the release that answers `request`."""
        places = {measure: place for place, measure in enumerate(release.request.measures)}
        rows = tuple(
            tuple(
                self._label(codes, item) if isinstance(item, Key) else estimates[places[item.measure]]
                for item in self.clauses.selected
            )
            for codes, estimates in zip(release.request.groups(), release.rows, strict=True)
        )
        return ResultTable(self.columns, rows, release.size, release.request.notes)

    @property
    def plain(self) -> bool:
        """Whether mechanisms that answer queries only can answer it: counts, and averages of integers and bins."""
        return all(
            isinstance(measure, Count)
            or (isinstance(measure, Mean) and not isinstance(self.request.attribute(measure.column), Numbers))
            for measure in self.request.measures
        )

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries to ask, as one batch: each query once. Only a `plain` statement has them."""
        if not self.plain:
            raise QueryError(
                "sums, quantiles and averages of numbers() are answered by a mechanism of kind 'rings' only"
            )
        return self._batch[0]

    def table(self, answers: Iterable[Answer]) -> ResultTable:
        """The table, from the answers to `queries`, in their order."""
        given = list(answers)
        if len(given) != len(self.queries):
            raise QueryError(f"{len(self.queries):,} answers are needed, {len(given):,} were given")
        if len({answer.size for answer in given}) != 1:
            raise QueryError("the answers speak about different sizes of the database: ask them as one batch")
        rows = tuple(
            self._row(codes, given, places) for codes, places in zip(self._groups(), self._batch[1], strict=True)
        )
        return ResultTable(self.columns, rows, given[0].size, self.notes)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader of the table needs, in plain words."""
        return self.request.notes

    # -- queries ------------------------------------------------------------------------------------------------------

    @cached_property
    def _batch(self) -> tuple[tuple[Query, ...], tuple[Places, ...]]:
        """The queries; and for each group, and each selected item, the indices of its queries among them."""
        known: dict[Query, int] = {}
        places = tuple(
            tuple(
                tuple(known.setdefault(query, len(known)) for query in self._asked(codes, item))
                for item in self.clauses.selected
            )
            for codes in self._groups()
        )
        return tuple(known), places

    def _asked(self, codes: Codes, item: Chosen) -> Iterator[Query]:
        """The queries of one selected item: none for a label, the matching rows for COUNT; for AVG the weighted rows,
        of bins by their lower and by their upper edges, and the rows that have a value, unless all have."""
        if isinstance(item, Key):
            return
        measure = item.measure
        if isinstance(measure, Count):
            column = measure.column
            yield self._matching(codes) if column is None else self.request.present(codes, column)
        elif isinstance(measure, Mean):
            position = self.schema.index(measure.column)
            for upper in self._ends(position):
                yield self._weighed(codes, position, upper)
            denominator = self._valued(codes, position)
            if not _everything(denominator):
                yield denominator

    def _ends(self, position: int) -> tuple[bool, ...]:
        """The ends of its cells that an average takes: both of bins, and one of integers, which have no others."""
        return (False, True) if isinstance(self._attribute(position), Bins) else (False,)

    def _groups(self) -> Iterator[Codes]:
        sizes = (self.schema.shape[position] for position in self.clauses.groups)
        return itertools.product(*(range(size) for size in sizes))

    def _sets(self, codes: Codes) -> dict[int, Flags]:
        """A group as one set of codes for each attribute grouped by."""
        sets: dict[int, Flags] = {}
        for position, code in zip(self.clauses.groups, codes, strict=True):
            sets[position] = np.arange(self.schema.shape[position]) == code
        return sets

    def _matching(self, codes: Codes) -> Query:
        """The query for the rows of a group."""
        return self.clauses.where & Query.conjunction(self.schema, self._sets(codes))

    def _valued(self, codes: Codes, position: int) -> Query:
        """The query for the rows of a group that have a value to average."""
        return self._matching(codes) & Query.conjunction(self.schema, {position: self._regular(position)})

    def _weighed(self, codes: Codes, position: int, upper: bool) -> Query:
        """The query for these rows, each weighted by its scaled value."""
        where, sets = self.clauses.where, self._sets(codes)
        named = self._named(position)
        table = where.weights().astype(np.float64).reshape(self._axes(named, where.attributes))
        for each, mask in sets.items():
            table = table * mask.reshape(self._axes(named, (each,)))
        scaled = self._scale(codes, position, upper)
        table = table * scaled.weights.reshape(self._axes(named, (position,)))
        full = np.broadcast_to(table, tuple(self.schema.shape[each] for each in named))
        names = [self.schema.names[each] for each in named]
        return Query.weighted(self.schema, full, attributes=names, resolution=scaled.resolution)

    def _named(self, position: int) -> tuple[int, ...]:
        """The positions of the attributes that matter to an average; an attribute of a single value never does."""
        named = {*self.clauses.where.attributes, *self.clauses.groups, position}
        return tuple(sorted(each for each in named if self.schema.shape[each] > 1))

    def _axes(self, named: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.schema.shape[each] if each in kept else 1 for each in named)

    def _regular(self, position: int) -> Flags:
        return np.arange(self.schema.shape[position]) < self._attribute(position).regular

    def _attribute(self, position: int) -> Attribute:
        return self.schema.attributes[self.schema.names[position]]

    def _means(self) -> list[int]:
        """The positions of the attributes that are averaged."""
        measures = [measure for measure in self.request.measures if isinstance(measure, Mean)]
        return [self.schema.index(measure.column) for measure in measures]

    def _scale(self, codes: Codes, position: int, upper: bool) -> Scale:
        """The scale of the values that a row of this group can have."""
        valued = self._valued(codes, position)
        possible = self._regular(position)
        if position in valued.attributes:
            axis = valued.attributes.index(position)
            others = tuple(each for each in range(len(valued.attributes)) if each != axis)
            possible = np.asarray(valued.weights().any(axis=others)) if valued.masks is None else valued.masks[axis]
        return self._scaled(position, possible.tobytes(), upper)

    def _scaled(self, position: int, possible: bytes, upper: bool) -> Scale:
        """The scale for a set of possible values, cached: groups with the same set share it."""
        known, key = self._scales, (position, possible, upper)
        if key not in known:
            known[key] = scale(self._attribute(position), np.frombuffer(possible, dtype=np.bool_), upper=upper)
        return known[key]

    @cached_property
    def _scales(self) -> dict[tuple[int, bytes, bool], Scale]:
        return {}

    # -- answers ------------------------------------------------------------------------------------------------------

    def _row(self, codes: Codes, answers: Sequence[Answer], places: Places) -> tuple[Field, ...]:
        row: list[Field] = []
        for item, where in zip(self.clauses.selected, places, strict=True):
            if isinstance(item, Key):
                row.append(self._label(codes, item))
            elif isinstance(item.measure, Mean):
                row.append(self._average(codes, item.measure.column, [answers[place] for place in where]))
            else:
                row.append(_counted(answers[where[0]]))
        return tuple(row)

    def _label(self, codes: Codes, item: Key) -> Label:
        return self._attribute(item.position).label(codes[self.clauses.groups.index(item.position)])

    def _average(self, codes: Codes, column: str, answers: Sequence[Answer]) -> Estimate:
        position = self.schema.index(column)
        scales = [self._scale(codes, position, upper) for upper in self._ends(position)]
        return average(scales, answers[: len(scales)], *answers[len(scales) :])

    # -- limits -------------------------------------------------------------------------------------------------------

    def _check_size(self) -> None:
        """Refuse what would take too long or too much memory, before any of it is done."""
        sizes = [self.schema.shape[position] for position in self.clauses.groups]
        groups = math.prod(sizes)
        names = ", ".join(self.schema.names[position] for position in self.clauses.groups)
        if groups > MAX_GROUPS:
            raise QueryError(
                f"GROUP BY {names} has {groups:,} groups; at most {MAX_GROUPS:,} are answered at once: "
                "group by fewer attributes, or ask about some of them with WHERE"
            )
        where = self.clauses.where
        entries = sum(sizes) + (sum(where.shape) if where.table is None else where.joint * math.prod(sizes))
        if not self.plain:
            self.request.check()
            return
        for position in self._means():
            named = self._named(position)
            joint = math.prod(self.schema.shape[position] for position in named)
            if joint > MAX_TABLE:
                raise too_large(self.schema, named)
            entries += joint
        if groups * entries > MAX_ENTRIES:
            raise QueryError(
                f"{groups:,} groups with {entries:,} weights each are {groups * entries:,} weights; at most "
                f"{MAX_ENTRIES:,} are possible: group by fewer attributes, or by fewer values"
            )


def _everything(query: Query) -> bool:
    """Whether every row matches the query: its share is 1 and need not be asked."""
    return query.constant and query.masks is not None


def _counted(answer: Answer) -> Estimate:
    count, margin = answer.count, answer.count_margin
    return Estimate(count, max(0, count - margin), min(answer.size, count + margin), answer.count_error)


# -- averages from answers ---------------------------------------------------------------------------------------------


_MOST_FRACTIONS: Final = 4096
"""Up to this many values their common step is looked for; more are rounded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An attribute's regular values, ``low`` to ``high``, as weights in [0, 1]; the optional cells have weight 0."""

    low: Fraction
    high: Fraction
    weights: Floats
    """A weight for each code, a multiple of 1/resolution."""
    resolution: int
    rounding: Fraction
    """The largest distance of a weight from the value that it stands for; 0 if all are exact."""

    @property
    def span(self) -> Fraction:
        """The greatest value minus the least."""
        return self.high - self.low


def scale(attribute: Attribute, possible: Flags, *, upper: bool = False) -> Scale:
    """The scale of an integer or binned attribute of which only these codes are possible; of bins, their lower edges or
    their ``upper`` ones.

    The fewer values are possible, the smaller the span, and with it the error of an average.
    """
    codes = [int(code) for code in np.flatnonzero(possible[: attribute.regular])]
    if not codes:  # no row matches: nothing is averaged
        codes = list(range(attribute.regular))
    weights = np.zeros(attribute.size)
    if isinstance(attribute, Integers):
        low, resolution = codes[0], max(1, codes[-1] - codes[0])
        weights[codes] = (np.array(codes) - low) / resolution
        least, most = (Fraction(attribute.low + code) for code in (codes[0], codes[-1]))
        return Scale(least, most, weights, resolution, Fraction(0))
    assert isinstance(attribute, Bins)
    values = [Fraction(attribute.edges[code + upper]) for code in codes]
    steps, resolution, rounding = _steps(values)
    weights[codes] = np.array(steps) / resolution
    return Scale(min(values), max(values), weights, resolution, rounding)


def _steps(values: list[Fraction]) -> tuple[list[int], int, Fraction]:
    """The values as whole steps above the least, the number of steps up to the greatest, and the largest rounding."""
    low, high = min(values), max(values)
    if low == high:
        return [0] * len(values), 1, Fraction(0)
    if len(values) <= _MOST_FRACTIONS:
        denominator = math.lcm(*(value.denominator for value in values))
        above = [int((value - low) * denominator) for value in values]
        step = math.gcd(*above)
        if max(above) // step <= MAX_TABLE:
            return [each // step for each in above], max(above) // step, Fraction(0)
    rounded = [round((value - low) / (high - low) * RESOLUTION) for value in values]
    return rounded, RESOLUTION, Fraction(1, 2 * RESOLUTION)


def average(scales: Sequence[Scale], numerators: Sequence[Answer], denominator: Answer | None = None) -> Estimate:
    """The average of the rows that match; without a denominator, of all rows.

    ``numerators`` answer N, one for each scale: of values known exactly, or of their lower and of their upper bounds;
    ``denominator`` answers D (see the module's docstring).

    Formal guarantee: if all answers are within their errors, the average lies within the estimate's ``low`` and
    ``high``, or no row matches; then the interval is the whole range and there is no value.
    """
    d, f = (Fraction(denominator.value), Fraction(denominator.error)) if denominator else (Fraction(1), Fraction(0))
    if d - f <= 0:
        return Estimate(None, floor_float(scales[0].low), ceiling_float(scales[-1].high))
    found = [_ratio(scale, numerator, d, f) for scale, numerator in zip(scales, numerators, strict=True)]
    low, high = floor_float(found[0][0]), ceiling_float(found[-1][2])
    value = float(sum(middle for _, middle, _ in found) / len(found))
    error = max(Fraction(value) - Fraction(low), Fraction(high) - Fraction(value))
    return Estimate(value, low, high, ceiling_float(error))


def _ratio(scale: Scale, numerator: Answer, d: Fraction, f: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """The least that an average can be, its estimate, and the most."""
    n, e = Fraction(numerator.value), Fraction(numerator.error)
    lowest = min(Fraction(1), max(Fraction(0), n - e) / min(Fraction(1), d + f))
    highest = min(Fraction(1), (n + e) / (d - f))
    point = min(max(n / d, lowest), highest)
    least, most = max(Fraction(0), lowest - scale.rounding), min(Fraction(1), highest + scale.rounding)
    return scale.low + scale.span * least, scale.low + scale.span * point, scale.low + scale.span * most


def floor_float(value: Fraction) -> float:
    """The greatest float that is not above ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def ceiling_float(value: Fraction) -> float:
    """The least float that is not below ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


# -- the table of results ----------------------------------------------------------------------------------------------


Field: TypeAlias = Label | Estimate


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The table that answers a statement."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Field, ...], ...]
    size: int
    """The number of rows of the database that was asked."""
    notes: tuple[str, ...]
    """Notes that a reader of the table needs, in plain words."""

    def to_dict(self) -> dict[str, Any]:
        """A plain form for JSON: labels as they are, an estimate as value, error, low and high."""
        return {
            "columns": list(self.columns),
            "rows": [[each.to_dict() if isinstance(each, Estimate) else each for each in row] for row in self.rows],
            "size": self.size,
            "notes": list(self.notes),
        }
