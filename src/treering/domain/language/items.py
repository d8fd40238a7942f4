"""Single numbers about some rows: what a statement of SQL is made of, and what `treering.Rings.tell` answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from treering.domain.attribute import Bins, Integers
from treering.domain.calendar import DatePart, Dates
from treering.domain.query import Query, alike

QUANTIFIED: Final = (Integers, Bins, Dates, DatePart)
"""The attributes whose quantiles can be had: their values have an order."""

ItemKind: TypeAlias = Literal["count", "sum", "total", "average", "quantile", "mean", "persons"]


@dataclass(frozen=True, slots=True)
class Item:
    """A number about the rows that match ``query``: how many they are (the sum of their weights), or something about
    the values of the attribute at ``position``.

    "count"     how many rows
    "sum"       the sum of the values, of which the middle of the range counts 0 and its upper end 1
    "total"     the sum of the values
    "average"   their average
    "quantile"  the value below which a share ``level`` of the rows lies
    "mean"      the average of an attribute of bins, as far as they tell
    "persons"   how many persons they are of

    With a ``cap`` at most so many rows of each person count, the first ones, in all groups that are asked about
    together, and a sum counts from the lower end of the range; of persons, each counts in at most so many groups.
    """

    kind: ItemKind
    query: Query
    position: int = -1
    level: float = 0.5
    cuts: tuple[float, ...] = ()
    """Of a quantile of numbers: where its cells begin and end, increasing, instead of the attribute's own cells. The
    first and the last cell have all values beyond."""
    cap: int = 0
    """0: none."""

    @property
    def personal(self) -> bool:
        """Whether it is about persons, or about some rows of each."""
        return self.kind == "persons" or self.cap > 0

    @property
    def by_cells(self) -> bool:
        """Whether it is read off the counts of the attribute's cells."""
        return self.kind in ("quantile", "mean")

    @property
    def memory(self) -> int:
        """The bytes that its queries take."""
        if not self.by_cells:
            return self.query.memory
        size = self.query.schema.shape[self.position]
        return size * (size + self.query.memory)

    def cells(self) -> list[Query]:
        """The rows in each cell of the attribute, in the order of its values."""
        schema = self.query.schema
        attribute = schema.attributes[schema.names[self.position]]
        assert isinstance(attribute, QUANTIFIED)
        codes = np.arange(attribute.size)
        sets = [codes == code for code in attribute.line]
        if self.cuts:
            assert isinstance(attribute, Bins)
            home = np.full(attribute.size, -1)
            home[: attribute.regular] = np.searchsorted(self.cuts, attribute.edges[:-1], side="right")
            if attribute.other:
                home[attribute.line[0]], home[attribute.line[-1]] = 0, len(self.cuts)
            sets = [home == cell for cell in range(len(self.cuts) + 1)]
        return [self.query & Query.conjunction(schema, {self.position: each}) for each in sets]


def counts(queries: Sequence[Query]) -> list[Item]:
    """How many rows match each query."""
    return [Item("count", query) for query in queries]


def under_one_lens(items: Sequence[Item]) -> list[Item]:
    """The same items, all of whose queries are about one lens."""
    queries = alike([item.query for item in items])
    return [replace(item, query=query) for item, query in zip(items, queries, strict=True)]
