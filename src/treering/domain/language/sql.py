"""SQL over a growing database: counts and averages, in groups, answered as one batch of queries.

    statement = read_sql("SELECT month, COUNT(*) FROM flights WHERE delay >= 60 GROUP BY month", schema)
    result = statement.table(mechanism.ask_many(statement.queries))

Nothing private is needed to write the table: it is arithmetic on released answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from treering.answer import Answer
from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins
from treering.domain.language.clauses import SUPPORTED, Count, Key, Mean, Select, Selected, select
from treering.domain.query import MAX_TABLE, Query, too_large
from treering.domain.schema import Schema
from treering.domain.sql_average import Scale, average, scale
from treering.domain.sql_table import Entry, Estimate, ResultTable, label
from treering.domain.text import identifier
from treering.errors import QueryError

__all__ = ["MAX_ENTRIES", "MAX_GROUPS", "SUPPORTED", "ResultTable", "Statement", "read_sql"]

MAX_GROUPS: Final = 10_000
"""The most groups that one statement has."""
MAX_ENTRIES: Final = 2**24
"""The most weights and flags that the queries of one statement have in all: 128 MB at worst."""

Places: TypeAlias = tuple[tuple[int, ...], ...]
Codes: TypeAlias = tuple[int, ...]
"""One group: a code for each attribute grouped by."""


def read_sql(text: str, schema: Schema) -> Statement:
    """The statement that a text says: see `Statement` for its meaning.

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
    """A SELECT of counts and averages.

    Formal guarantee: if every answer is within its error, every `Estimate` of the table holds the true number, which is
    SQL's on the cells' values: a bin's number is its representative; AVG leaves out rows whose value is missing, as SQL
    leaves out nulls, or outside the attribute's range. Other than in SQL every group of the schema has a row, an empty
    one as well: which groups are empty is private.
    """

    text: str
    schema: Schema
    clauses: Select

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is selected."""
        return tuple(item.name for item in self.clauses.selected)

    @property
    def queries(self) -> tuple[Query, ...]:
        """What has to be asked, as one batch: each query once."""
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
        """What a reader of the table has to know."""
        found = [note for item in self._means() for note in _average_notes(self.schema, item.position)]
        if self.clauses.groups:
            found.append("Every group of the schema has a row: which groups are empty is private.")
        return tuple(dict.fromkeys(found))

    # -- queries ------------------------------------------------------------------------------------------------------

    @cached_property
    def _batch(self) -> tuple[tuple[Query, ...], tuple[Places, ...]]:
        """The queries; and for each group, and each thing selected, where its queries stand among them."""
        known: dict[Query, int] = {}
        places = tuple(
            tuple(
                tuple(known.setdefault(query, len(known)) for query in self._asked(codes, item))
                for item in self.clauses.selected
            )
            for codes in self._groups()
        )
        return tuple(known), places

    def _asked(self, codes: Codes, item: Selected) -> Iterator[Query]:
        """None for a label, the matching rows for COUNT; for AVG the weighed rows, and those that have a value unless
        all have."""
        if isinstance(item, Count):
            yield self._matching(codes)
        elif isinstance(item, Mean):
            yield self._weighed(codes, item.position)
            denominator = self._valued(codes, item.position)
            if not _everything(denominator):
                yield denominator

    def _groups(self) -> Iterator[Codes]:
        sizes = (self.schema.shape[position] for position in self.clauses.groups)
        return itertools.product(*(range(size) for size in sizes))

    def _sets(self, codes: Codes) -> dict[int, Flags]:
        """The group as one set for each attribute."""
        sets: dict[int, Flags] = {}
        for position, code in zip(self.clauses.groups, codes, strict=True):
            sets[position] = np.arange(self.schema.shape[position]) == code
        return sets

    def _matching(self, codes: Codes) -> Query:
        """The rows of a group."""
        return self.clauses.where & Query.conjunction(self.schema, self._sets(codes))

    def _valued(self, codes: Codes, position: int) -> Query:
        """The rows of a group that have a value to average."""
        return self._matching(codes) & Query.conjunction(self.schema, {position: self._regular(position)})

    def _weighed(self, codes: Codes, position: int) -> Query:
        """The same rows, each times its scaled value."""
        where, sets = self.clauses.where, self._sets(codes)
        named = self._named(position)
        table = where.weights().astype(np.float64).reshape(self._axes(named, where.attributes))
        for each, mask in sets.items():
            table = table * mask.reshape(self._axes(named, (each,)))
        scaled = self._scale(codes, position)
        table = table * scaled.weights.reshape(self._axes(named, (position,)))
        full = np.broadcast_to(table, tuple(self.schema.shape[each] for each in named))
        names = [self.schema.names[each] for each in named]
        return Query.weighted(self.schema, full, attributes=names, resolution=scaled.resolution)

    def _named(self, position: int) -> tuple[int, ...]:
        """The attributes that matter to an average; one of a single value never does."""
        named = {*self.clauses.where.attributes, *self.clauses.groups, position}
        return tuple(sorted(each for each in named if self.schema.shape[each] > 1))

    def _axes(self, named: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.schema.shape[each] if each in kept else 1 for each in named)

    def _regular(self, position: int) -> Flags:
        return np.arange(self.schema.shape[position]) < self._attribute(position).regular

    def _attribute(self, position: int) -> Attribute:
        return self.schema.attributes[self.schema.names[position]]

    def _means(self) -> list[Mean]:
        return [item for item in self.clauses.selected if isinstance(item, Mean)]

    def _scale(self, codes: Codes, position: int) -> Scale:
        """How the values that a row of this group can have become weights."""
        valued = self._valued(codes, position)
        possible = self._regular(position)
        if position in valued.attributes:
            axis = valued.attributes.index(position)
            others = tuple(each for each in range(len(valued.attributes)) if each != axis)
            possible = np.asarray(valued.weights().any(axis=others)) if valued.masks is None else valued.masks[axis]
        return self._scaled(position, possible.tobytes())

    def _scaled(self, position: int, possible: bytes) -> Scale:
        """The same for groups that can have the same values."""
        known = self._scales
        if (position, possible) not in known:
            known[position, possible] = scale(self._attribute(position), np.frombuffer(possible, dtype=np.bool_))
        return known[position, possible]

    @cached_property
    def _scales(self) -> dict[tuple[int, bytes], Scale]:
        return {}

    # -- answers ------------------------------------------------------------------------------------------------------

    def _row(self, codes: Codes, answers: Sequence[Answer], places: Places) -> tuple[Entry, ...]:
        group = dict(zip(self.clauses.groups, codes, strict=True))
        row: list[Entry] = []
        for item, where in zip(self.clauses.selected, places, strict=True):
            if isinstance(item, Key):
                row.append(label(self._attribute(item.position), group[item.position]))
            elif isinstance(item, Count):
                row.append(_counted(answers[where[0]]))
            else:
                row.append(average(self._scale(codes, item.position), *(answers[place] for place in where)))
        return tuple(row)

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
        for item in self._means():
            named = self._named(item.position)
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
    """Whether every row matches, so that its share is 1 without asking."""
    return query.constant and query.masks is not None


def _counted(answer: Answer) -> Estimate:
    count, error = answer.count, answer.count_error
    return Estimate(count, error, max(0, count - error), min(answer.size, count + error))


def _average_notes(schema: Schema, position: int) -> Iterator[str]:
    name = schema.names[position]
    attribute = schema.attributes[name]
    if isinstance(attribute, Bins):
        yield f"AVG({identifier(name)}) takes each bin's middle for its values; the error is about that average."
    if attribute.missing:
        yield f"AVG({identifier(name)}) leaves out rows without a value, as SQL does."
    if attribute.other:
        yield f"AVG({identifier(name)}) leaves out rows with a value that is not among {attribute.describe()}."
