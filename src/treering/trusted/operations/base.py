"""What an operation is: a check on public values, a price, a performance, and how its event is followed.

The kernel carries every operation out in one order: check, price, charge, perform, write the journal, release. Where
rows stay in an engine, it has them counted between price and charge: an engine that fails costs nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import FREE, Cost
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError
from treering.gate import Coming, Event
from treering.trusted.cells import DENSE_CELLS, MAX_COUNT, Cells, check_query
from treering.trusted.charges import Charges
from treering.trusted.journal import Journal
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.sealed import Sealed

Checked = TypeVar("Checked")
Released = TypeVar("Released", bound=Event)
Own = TypeVar("Own")


class Desk(Sealed):
    """What the operations of one gate work with: the rows (PRIVATE), the account of what they were charged, the
    journal, and what operations remember (PRIVATE); and checks of requests on public values."""

    __slots__ = ("_remembered", "charges", "journal", "lens", "rows")

    def __init__(self, rows: Rows, charges: Charges, journal: Journal, lens: Schema | None = None) -> None:
        self.rows, self.charges, self.journal, self.lens = rows, charges, journal, lens
        self._remembered: dict[type[Any], Any] = {}

    def own(self, kind: type[Own]) -> Own:
        """PRIVATE: what operations remember in an object of this class, until the gate is opened anew."""
        if kind not in self._remembered:
            self._remembered[kind] = kind()
        found: Own = self._remembered[kind]
        return found

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self.lens or self.rows.schema

    @property
    def cells(self) -> Cells:
        """PRIVATE: the counts of all cells."""
        return self.rows.cells_of(self.schema)

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self.rows.size

    def check_unreserved(self) -> None:
        """Refuse an operation that is charged by row within a reservation."""
        if self.charges.reserved:
            raise ParameterError("part", "is reserved: groups are charged by row, which a reserved part is not")

    def check_edge(self, size: int, name: str) -> None:
        """Refuse a size at which rows are not told apart."""
        if type(size) is not int:
            raise ParameterError(
                name, f"must be an integer, a size at which rows are told apart, not {type(size).__name__}"
            )
        known = {0, self.size, *self.charges.sizes}
        if size not in known:
            nearest = ", ".join(f"{each:,}" for each in sorted(known, key=lambda each: abs(each - size))[:3])
            raise ParameterError(name, f"must be a size at which rows are told apart; the nearest are {nearest}")

    def check_interval(self, rows: tuple[int, int]) -> None:
        """Refuse an interval of rows that is empty, or that begins or ends where rows are not told apart."""
        if type(rows) is not tuple or len(rows) != 2:
            raise ParameterError("rows", "must be a pair of sizes: the rows after the first of them, up to the second")
        for edge in rows:
            self.check_edge(edge, "rows")
        if rows[0] >= rows[1]:
            raise ParameterError("rows", "must hold at least one row")

    def check_queries(self, queries: Sequence[Query], finer: int = 1) -> tuple[tuple[Query, ...], Ints, int]:
        """The queries, their weight scales, and the largest of them. Refuses what `check_query` refuses, and queries
        whose counts, on a grid ``finer`` times as fine, could overflow."""
        asked, schema = tuple(queries), self.schema
        for query in asked:
            check_query(query, schema)
        scales = [query.scale for query in asked]
        largest = max(scales, default=1)
        if self.size * largest * finer >= MAX_COUNT:
            raise QueryError(f"size times the query's resolution ({largest * finer:,}) must stay below 2^61")
        return asked, np.array(scales, dtype=np.int64), largest

    def check_attributes(self, attributes: Sequence[int] | None) -> tuple[int, ...]:
        """Increasing positions of attributes, all of them for None; refuses any other, and too many joint values."""
        every = tuple(range(len(self.schema.names)))
        chosen = every if attributes is None else tuple(attributes)
        if not set(chosen) <= set(every) or list(chosen) != sorted(set(chosen)):
            raise ParameterError("attributes", f"must be increasing positions within 0..{len(every) - 1}")
        cells = math.prod(self.schema.shape[position] for position in chosen)
        if cells > DENSE_CELLS:
            raise ParameterError("attributes", f"span {cells:,} joint values; at most {DENSE_CELLS:,} can be released")
        return chosen


def integers(values: Sequence[int], name: str, length: int, below: int = MAX_COUNT) -> Ints:
    """Whole numbers of a request, one for each of its queries; refuses any other, and those that are too large."""
    if len(values) != length:
        raise ParameterError(name, f"must be as many as the queries: {length}, not {len(values)}")
    if length == 1 and type(values[0]) is int and -below < values[0] < below:  # as below, in less time
        return np.array(values, dtype=np.int64)
    array = np.asarray(values if length else np.empty(0, dtype=np.int64))
    if array.dtype.kind not in "iu" or array.ndim != 1 or (length and not -below < array.min() <= array.max() < below):
        raise ParameterError(name, f"must be integers below 2^{below.bit_length() - 1}, in units of the query's grid")
    return array.astype(np.int64)


def gaps(counts: Ints, estimates: Ints | None) -> Ints:
    """PRIVATE: counts, or their distances from estimates."""
    return counts if estimates is None else np.abs(counts - estimates)


class Operation(Sealed, ABC, Generic[Checked, Released]):
    """One operation. It has no state: what it remembers is on the desk.

    Unless a subclass says otherwise, the operation is about all rows there are, and its event has their ``cost``.
    """

    __slots__ = ()

    event: ClassVar[type[Any]]
    """The class of the events that it releases."""
    cells: ClassVar[bool] = False
    """Whether it reads the counts of all cells."""
    parts: ClassVar[tuple[type[Any], ...]] = ()
    """The classes that fields of its event can hold beside those of every event."""
    names: ClassVar[Mapping[str, Any]] = {}
    """What the types of its event's fields are called, where the module of the event does not import them."""

    @abstractmethod
    def check(self, desk: Desk, *request: Any) -> Checked:
        """Refuse a request, on public values; otherwise give what is to be performed."""

    @abstractmethod
    def price(self, checked: Checked, desk: Desk) -> Cost:
        """The cost, derived from noise and sensitivity."""

    def needs(self, checked: Checked, desk: Desk) -> Sequence[Need]:
        """What it reads of the rows: for an engine to count, where they stay in one."""
        return desk.rows.need_of_cells(desk.schema) if self.cells else ()

    def coming(self, leaves: Sequence[Coming], desk: Desk) -> Sequence[Need]:
        """What leaves that are to come read of the rows."""
        return ()

    def charge(self, checked: Checked, cost: Cost, desk: Desk) -> None:
        """Charge the rows that the operation is about; or raise `BudgetExceeded` and change nothing."""
        desk.charges.charge(cost, desk.size)

    @abstractmethod
    def perform(self, checked: Checked, cost: Cost, desk: Desk) -> Released:
        """Read the rows, add noise, and give the event. It was charged before."""

    def record(self, event: Released, desk: Desk) -> None:
        """Write the event to the journal, and take up what it changes."""
        desk.journal.write(event)

    def outcome(self, event: Released, desk: Desk) -> Released:
        """What the caller gets for an event that is on record: the event, or an error that is public."""
        return event

    def follow(self, event: Any, charges: Charges) -> None:
        """Repeat the charge that an earlier event made, and what it changed."""
        charges.charge(event.cost, event.size)


class Prepaid(Operation[Checked, Released]):
    """An operation that costs nothing, because it reads nothing or another has paid for it."""

    __slots__ = ()

    def price(self, checked: Checked, desk: Desk) -> Cost:
        """Nothing."""
        return FREE

    def charge(self, checked: Checked, cost: Cost, desk: Desk) -> None:
        """Charge nothing."""

    def follow(self, event: Any, charges: Charges) -> None:
        """Nothing was charged."""
