"""The source of rows that stay in an engine: which rows a refresh takes in, and how rows taken in are counted.

The engines are DuckDB (also for Parquet and CSV files), PostgreSQL and Spark.

A table grows at one end: its order column is a unique integer, and new rows have larger values than all before. The
watermark is the largest order value taken in so far, and how many rows the table had up to it. A refresh counts the
rows past it, and those that do not fit; nothing else is looked at. What is counted later is an interval of order values
between two refreshes, and must have as many rows as then.

A table is an address (``addresses``), which is connected to anew for each reading, or an Ibis table on a caller's
connection (``live``). Either way it has an `identity`, the same over every connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from treering.domain.attribute import Categories
from treering.domain.axis import scalar_of
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError, SchemaError, TreeringError
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.columns import check_column
from treering.trusted.engines.spelling import Column, Relation
from treering.trusted.engines.statements import MOST_LISTED, Counts, distinct, refreshed
from treering.trusted.rows.frames import NO_HEADER, hint
from treering.trusted.rows.typed import stored
from treering.words import counted

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table

__all__ = ["Increment", "Source", "Watermark"]

Columns: TypeAlias = tuple[tuple[str, str], ...]
Result = TypeVar("Result")

COUNTED_ROWS: Final = 2**20
"""Up to this many new rows, their distinct order values are counted to see that none repeats. For more rows that would
cost more than all else; see `Source` for why leaving it out is safe."""


class _Place(Protocol):
    """Where a table is: at an address, or on a caller's connection."""

    def open(self, schema: Schema, order: str) -> AbstractContextManager[Relation]: ...

    def identity(self, relation: Relation) -> str: ...


class Source:
    """A table in an engine that only grows.

    A refresh is one statement, so one snapshot of the engine. Public are the schema, the order column, how many rows
    there are, and how many of them do not fit.

    A wrong count is refused, if rows are only ever inserted or deleted: a row is taken in once, when it is first seen
    past the watermark; one that is inserted or deleted at or below it changes the number of rows there, which each
    refresh counts again, and each statement that counts rows those of its intervals. (Two changes go unseen: as many
    rows inserted as deleted between two refreshes, and rows changed in place. A table is only as append-only as its
    owner keeps it.) All of this holds for repeated order values too. They are refused because sooner or later they
    would lead to such a refusal: in any batch, if there are more rows than integers between the smallest and the
    largest value; exactly, for up to `COUNTED_ROWS` new rows.
    """

    def __init__(self, place: _Place, schema: Schema, order: str, address: str | None) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError(f"a table is read by a Schema, not by {type(schema).__name__}")
        if not isinstance(order, str):
            raise ParameterError("order", "must be the name of a column")
        self._place = place
        self._reading = threading.Lock()
        self.schema: Final = schema
        """The universe: public."""
        self.order: Final = order
        """The name of the order column: public."""
        self.address: Final = address
        """The address of the table; None for a table on a caller's connection."""
        columns, known_as = attempt("looked at", self._look)
        self.columns: Final = columns
        """Name and type of each column that is read, as they were when the source was made."""
        self.identity: Final = known_as
        """A name of the table, equal for two sources of the same table."""

    @classmethod
    def of(cls, table: Table | str, schema: Schema, order: str = "id") -> Source:
        """The source of an Ibis table, or of the table at an address (see `trusted.engines.addresses`).

        ``order`` is the name of the order column.
        """
        if isinstance(table, str):
            address = Address.parse(table)
            return cls(address, schema, order, address.text)
        if type(table).__module__.partition(".")[0] != "ibis":  # It takes a second to load.
            raise ParameterError("table", f"must be an Ibis table or an address, not {type(table).__name__}")
        from treering.trusted.engines.live import LiveTable

        return cls(attempt("looked at", lambda: LiveTable(table)), schema, order, None)

    def increment(self, after: Watermark | None, on_invalid: Literal["refuse", "drop"] = "refuse") -> Increment:
        """What lies past the watermark ``after`` (None: all rows), and the next watermark.

        The source keeps no state: after a failure, the same watermark gives the same rows again and those that came
        since. An engine that fails, or a table that did not only grow at its end, raises `EngineError`; rows that do
        not fit raise `DataError`, which names columns and numbers of rows, or are left out and counted with
        ``on_invalid="drop"``.
        """
        if on_invalid not in ("refuse", "drop"):
            raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
        if after is not None:
            self._check_columns(after.columns)
        counts = attempt("read", lambda: self._read(after))
        dropped = sum(counts.unfit)
        if dropped and on_invalid == "refuse":
            raise _refusal(counts.unfit, self.schema)
        return Increment.past(after, counts, dropped, self.columns)

    @contextmanager
    def opened(self) -> Iterator[Relation]:
        """The table, connected and checked, for one statement: one at a time."""
        with self._reading, self._place.open(self.schema, self.order) as relation:
            self._check(relation)
            self._check_columns(_columns(relation, self.schema, self.order))
            yield relation

    def _look(self) -> tuple[Columns, str]:
        with self._reading, self._place.open(self.schema, self.order) as relation:
            self._check(relation)
            refreshed(relation, self.schema, self.order, None, nothing=True)
            return _columns(relation, self.schema, self.order), self._place.identity(relation)

    def _read(self, after: Watermark | None) -> Counts:
        """The counts of one statement, checked; order values must be distinct, if they are few enough to count."""
        with self.opened() as relation:
            counts = refreshed(relation, self.schema, self.order, None if after is None else after.value)
            check_place(counts, after, self.order)
            if 0 < counts.past <= COUNTED_ROWS:
                different = distinct(relation, self.order, None if after is None else after.value, counts.last)
                if different < counts.past:
                    raise repeated(self.order)
                if different > counts.past:
                    raise EngineError("rows came late while the table was read, and nothing was taken in: try again")
            return counts

    def _check(self, relation: Relation) -> None:
        """Refuse a table whose columns cannot hold the schema's values, or cannot be ordered."""
        columns, schema = relation.columns, self.schema
        absent = [name for name in (*schema.columns, self.order) if name not in columns]
        if absent:
            raise DataError(
                f"the table has no column {', '.join(map(repr, absent))} among its {len(columns):,} ({NO_HEADER})",
                column=absent[0],
            )
        for scalar in stored(schema):
            check_column(scalar, columns[scalar.column])
        for name, attribute in schema.attributes.items():
            if isinstance(attribute, Categories) and attribute.regular > MOST_LISTED:
                raise SchemaError(
                    f"column {name!r}: an engine takes at most {MOST_LISTED:,} categories, not {attribute.regular:,}"
                )
        if columns[self.order].kind not in ("integer", "field"):
            raise DataError(
                f"the order column {self.order!r} has type {columns[self.order].type}: rows are told apart by a unique "
                "integer that only grows, such as an identity column",
                column=self.order,
            )

    def _check_columns(self, columns: Columns) -> None:
        changed = sorted({name for name, _ in set(columns) ^ set(self.columns)})
        if changed:
            raise EngineError(
                f"columns of the table have another type than before: {', '.join(map(repr, changed))}; "
                "nothing was taken in"
            )


def _columns(relation: Relation, schema: Schema, order: str) -> Columns:
    return tuple((name, relation.columns[name].type) for name in dict.fromkeys((order, *schema.columns)))


def attempt(verb: str, action: Callable[[], Result]) -> Result:
    """Run ``action``. An engine's exception may quote a value of a row, so another replaces it, outside the block that
    caught it."""
    try:
        return action()
    except TreeringError:
        raise
    except Exception as error:
        problem = type(error).__name__
    raise EngineError(
        f"the table could not be {verb} ({problem} in the engine), and nothing was taken in: once the engine is well, "
        "try again"
    )


# -- what a refresh takes in, and its watermark ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a table has been taken in: public, as the order column and the number of rows are."""

    value: int | None
    """The largest order value taken in; None if the table was empty."""
    rows: int
    """How many rows the table has at or below ``value``, those left out included."""
    dropped: int
    """How many of them did not fit the schema and were left out."""
    columns: tuple[tuple[str, str], ...]
    """Name and type of each column that is read: a table whose types change is refused."""

    def to_dict(self) -> dict[str, Any]:
        """The watermark as JSON values; `from_dict` reads them."""
        return {**asdict(self), "columns": [list(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Watermark:
        """The watermark that `to_dict` wrote; raises `EngineError` for anything else."""
        try:
            columns = tuple((str(name), str(kind)) for name, kind in plain["columns"])
            value = None if plain["value"] is None else int(plain["value"])
            mark = cls(value=value, rows=int(plain["rows"]), dropped=int(plain["dropped"]), columns=columns)
        except (KeyError, TypeError, ValueError):
            raise EngineError("not a watermark: it has value, rows, dropped and columns") from None
        if not 0 <= mark.dropped <= mark.rows or (mark.value is None) != (mark.rows == 0):
            raise EngineError("not a watermark: its numbers contradict each other")
        return mark


@dataclass(frozen=True, slots=True)
class Increment:
    """The rows past a watermark: all of it public."""

    rows: int
    """How many rows came."""
    dropped: int
    """How many rows did not fit and were left out."""
    watermark: Watermark
    """How far the table is taken in with these rows."""

    @classmethod
    def past(cls, after: Watermark | None, counts: Counts, dropped: int, columns: Columns) -> Increment:
        """The increment that counts tell of, of which some rows are left out."""
        before = after or Watermark(value=None, rows=0, dropped=0, columns=columns)
        value = counts.last if counts.past else before.value
        mark = Watermark(value, before.rows + counts.past, before.dropped + dropped, columns)
        return cls(counts.past - dropped, dropped, mark)


def check_place(counts: Counts, after: Watermark | None, order: str) -> None:
    """Raise `EngineError` for a table that did not only grow at its end."""
    if counts.unplaced:
        unplaced = counted(counts.unplaced, "row")
        raise EngineError(f"{unplaced} without a value in the order column {order!r}: give each of them one")
    if counts.past and counts.past > counts.last - counts.first + 1:
        raise repeated(order)
    if after is None or after.value is None:
        return
    if counts.below != after.rows:
        lost = after.rows - counts.below
        change = f"lost {lost:,}" if lost > 0 else f"gained {-lost:,}"
        raise EngineError(
            f"the table has {change} of the {counted(after.rows, 'row')} up to {order} = {after.value} that were taken "
            "in, and nothing more was: rows may only be added, past the largest order value so far (a transaction that "
            "committed late must give its rows new order values)"
        )
    if counts.top != after.value:
        raise EngineError(f"the row with {order} = {after.value}, the last that was taken in, is gone from the table")


def repeated(order: str) -> EngineError:
    """The error for an order column that is not unique."""
    return EngineError(f"the order column {order!r} repeats values: it must be unique, such as an identity column")


def _refusal(unfit: Sequence[int], schema: Schema) -> DataError:
    """The error for rows that do not fit: names columns and numbers of rows, never values."""
    found = [(name, each, rows) for (name, each), rows in zip(schema.attributes.items(), unfit, strict=True) if rows]
    problems = [
        f"column {name!r}: {counted(rows, 'row')} with a value that is not among {attribute.describe()}"
        f"{hint(attribute)}"
        for name, attribute, rows in found
    ]
    return DataError(
        f"{'; '.join(problems)}; nothing was taken in (a row counts for its first such column)",
        column=found[0][0],
    )
