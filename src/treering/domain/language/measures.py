"""What can be asked about groups of rows: how many there are, and sums, averages and quantiles of a column.

A `Request` names measures, the attributes to group by and a condition. It is answered as one batch, for one price
(`treering.Rings.release`), with an `Estimate` for each group and measure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from treering.answer import Estimate
from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins, Integers
from treering.domain.language.items import Item
from treering.domain.language.parse import Question, understand
from treering.domain.numeric import Numbers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Grid, valued
from treering.domain.text import identifier
from treering.errors import QueryError

MOST_GROUPS: Final = 2**16
"""The most groups of a request."""

MOST_CELLS: Final = 2**20
"""The most cells, in all groups together, that the quantiles of a request look at."""

EXTREME: Final = 0.01
"""MIN is this quantile, and MAX the one as far from the other end: the least value of all is one row's."""

Codes: TypeAlias = tuple[int, ...]
"""One group: a code for each attribute grouped by."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows there are; with a ``column``, how many have a value there."""

    column: str | None = None

    def __str__(self) -> str:
        return f"COUNT({'*' if self.column is None else identifier(self.column)})"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column of `integers` or `numbers`."""

    column: str

    def __str__(self) -> str:
        return f"SUM({identifier(self.column)})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The average of a column of numbers, over the rows that have a value there."""

    column: str

    def __str__(self) -> str:
        return f"AVG({identifier(self.column)})"


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which a share ``level`` of the rows that have a value lies.

    >>> str(Quantile("delay", 0.5)), str(Quantile("delay", 0.9)), str(Quantile.least("delay"))
    ('MEDIAN(delay)', 'QUANTILE(delay, 0.9)', 'MIN(delay)')
    """

    column: str
    level: float
    extreme: bool = False
    """Whether it stands for the least or the greatest value."""

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0 < self.level < 1:
            raise QueryError(f"the level of a quantile is a share between 0 and 1, not {self.level!r}")

    @classmethod
    def least(cls, column: str) -> Quantile:
        """MIN: the 1% quantile."""
        return cls(column, EXTREME, extreme=True)

    @classmethod
    def greatest(cls, column: str) -> Quantile:
        """MAX: the 99% quantile."""
        return cls(column, 1 - EXTREME, extreme=True)

    def __str__(self) -> str:
        name = identifier(self.column)
        if self.extreme:
            return f"{'MIN' if self.level < 1 / 2 else 'MAX'}({name})"
        return f"MEDIAN({name})" if self.level == 1 / 2 else f"QUANTILE({name}, {self.level:g})"


Measure: TypeAlias = Count | Sum | Mean | Quantile


@dataclass(frozen=True, slots=True)
class Request:
    """Measures of the groups of some rows.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> request = Request.of(schema, [Count(), Mean("month")], by=["origin"])
    >>> [str(measure) for measure in request.measures], len(list(request.groups()))
    (['COUNT(*)', 'AVG(month)'], 2)
    """

    schema: Schema
    measures: tuple[Measure, ...]
    by: tuple[int, ...]
    """The positions of the attributes grouped by."""
    where: Query

    @classmethod
    def of(
        cls, schema: Schema, measures: Iterable[Measure], by: Sequence[str] = (), where: Question | None = None
    ) -> Request:
        """A request, checked: attributes by their names, the condition as a query or its text."""
        names = [by] if isinstance(by, str) else list(dict.fromkeys(by))
        condition = Query.all(schema) if where is None else understand(where, schema)
        request = cls(schema, tuple(measures), tuple(schema.index(name) for name in names), condition)
        request.check()
        return request

    def check(self) -> None:
        """Refuse what cannot be asked."""
        if not self.measures or any(not isinstance(each, Measure) for each in self.measures):
            raise QueryError("a request names measures: Count(), Sum(column), Mean(column) or Quantile(column, level)")
        if not self.where.counting:
            raise QueryError("the condition of a request counts rows; it does not weigh them")
        groups = math.prod(self.schema.shape[position] for position in self.by)
        if groups > MOST_GROUPS:
            raise QueryError(f"{groups:,} groups are too many: at most {MOST_GROUPS:,} are answered at once")
        cells = 1
        for measure in self.measures:
            if isinstance(measure, Count) and measure.column is None:
                continue
            attribute = self.attribute(measure.column or "")
            if isinstance(measure, Sum) and Grid.of(attribute) is None:
                raise QueryError(f"{measure} cannot be had: sums are kept of integers() and numbers()")
            if not isinstance(measure, Count) and not isinstance(attribute, Integers | Bins):
                raise QueryError(f"{measure} cannot be had: {measure.column!r} holds no numbers")
            if needs_cells(measure, attribute):
                cells = max(cells, attribute.size)
        if groups * cells > MOST_CELLS:
            raise QueryError(
                f"{groups:,} groups with up to {cells:,} cells each are too many for quantiles: at most {MOST_CELLS:,} "
                "are looked at; group by fewer attributes, or use wider bins"
            )

    def attribute(self, column: str) -> Attribute:
        """The attribute of a column."""
        return self.schema.attributes[self.schema.names[self.schema.index(column)]]

    def groups(self) -> Iterator[Codes]:
        """The groups: every combination of the values of the attributes grouped by."""
        return itertools.product(*(range(self.schema.shape[position]) for position in self.by))

    def matching(self, codes: Codes) -> Query:
        """The query for the rows of a group."""
        sets = {
            position: np.arange(self.schema.shape[position]) == code
            for position, code in zip(self.by, codes, strict=True)
        }
        return self.where & Query.conjunction(self.schema, sets)

    def valued(self, codes: Codes, column: str) -> Query:
        """The query for the rows of a group whose values in a column are summed."""
        attribute = self.attribute(column)
        return self._among(codes, column, valued(attribute))

    def present(self, codes: Codes, column: str) -> Query:
        """The query for the rows of a group whose value in a column is not missing."""
        attribute = self.attribute(column)
        return self._among(codes, column, np.arange(attribute.size) != attribute.missing_code)

    def items(self) -> list[Item]:
        """What is asked: for each group, in the order of `groups`, an item for each measure."""
        return [self._item(measure, codes) for codes in self.groups() for measure in self.measures]

    def _item(self, measure: Measure, codes: Codes) -> Item:
        if isinstance(measure, Count):
            return Item(
                "count", self.matching(codes) if measure.column is None else self.present(codes, measure.column)
            )
        attribute, position = self.attribute(measure.column), self.schema.index(measure.column)
        if isinstance(measure, Quantile):
            return Item("quantile", self.matching(codes), position, measure.level)
        if needs_cells(measure, attribute):
            return Item("mean", self.matching(codes), position)
        return Item("total" if isinstance(measure, Sum) else "average", self.valued(codes, measure.column), position)

    def told(self, estimates: Sequence[Estimate]) -> tuple[tuple[Estimate, ...], ...]:
        """The estimates of `items`, by groups."""
        number = len(self.measures)
        return tuple(tuple(estimates[place : place + number]) for place in range(0, len(estimates), number))

    def _among(self, codes: Codes, column: str, values: Flags) -> Query:
        return self.matching(codes) & Query.conjunction(self.schema, {self.schema.index(column): values})

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the estimates should know, in plain words."""
        found = [
            note
            for measure in self.measures
            if not isinstance(measure, Count)
            for note in notes_of(measure, self.attribute(measure.column))
        ]
        if self.by:
            found.append("Every group of the schema has a row: which groups are empty is private.")
        return tuple(dict.fromkeys(found))


def needs_cells(measure: Measure, attribute: Attribute) -> bool:
    """Whether a measure is read off the counts of an attribute's cells, and not off its sums."""
    return isinstance(measure, Quantile) or (isinstance(measure, Mean) and Grid.of(attribute) is None)


def notes_of(measure: Sum | Mean | Quantile, attribute: Attribute) -> Iterator[str]:
    """What a reader of a measure should know."""
    column = identifier(measure.column)
    if isinstance(measure, Quantile) and measure.extreme:
        yield f"{measure} is the {measure.level:.0%} quantile: the value of a single row is private."
    if isinstance(measure, Quantile) and isinstance(attribute, Bins):
        yield f"Quantiles of {column} are known as far as its bins tell: intervals are made of whole bins."
    if isinstance(measure, Mean) and Grid.of(attribute) is None:
        yield f"{measure} is known as far as its bins tell: the interval holds it wherever values lie in them."
    if isinstance(attribute, Numbers):
        yield f"{column}: values are clipped to {attribute.low:g} … {attribute.high:g}."
        if not isinstance(measure, Quantile):
            yield f"{column}: values are rounded to steps of {attribute.step:g} in sums and averages."
    if attribute.missing:
        yield f"{column}: rows without a value are left out, as in SQL."
    if attribute.other and not isinstance(attribute, Numbers) and not isinstance(measure, Quantile):
        yield f"{column}: sums and averages leave out values that are not among {attribute.describe()}."


@dataclass(frozen=True, slots=True)
class Release:
    """The estimates that answer a request: for each group, in the order of `Request.groups`, one for each measure."""

    request: Request
    size: int
    """The number of rows of the database that was asked."""
    rows: tuple[tuple[Estimate, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """A plain form for JSON."""
        request = self.request
        attributes = [request.schema.attributes[request.schema.names[position]] for position in request.by]
        return {
            "columns": [*(request.schema.names[position] for position in request.by), *map(str, request.measures)],
            "rows": [
                [*(each.label(code) for each, code in zip(attributes, codes, strict=True)), *(e.to_dict() for e in row)]
                for codes, row in zip(request.groups(), self.rows, strict=True)
            ],
            "size": self.size,
            "notes": list(request.notes),
        }
