"""Rows left where they are: DuckDB, Parquet and CSV files, PostgreSQL, Spark, through one Ibis expression."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError, SchemaError, TreeringError
from treering.trusted.engines.addresses import Address
from treering.trusted.engines.binning import Part, check_table, distinct_places, statement
from treering.trusted.increments import Increment, Reading, Watermark, check_place, make_increment, repeated
from treering.trusted.live_tables import LiveTable, identity

if TYPE_CHECKING:
    Table: TypeAlias = ir.Table

__all__ = ["Increment", "Source", "Watermark"]

Columns: TypeAlias = tuple[tuple[str, str], ...]
Result = TypeVar("Result")

COUNTED_ROWS: Final = 2**20
"""Up to this many new rows, their order values are counted to see that none repeats. For more it would cost more than
the counts of the cells do; see `Source` for why that is safe."""


class _Place(Protocol):
    """Where a table is."""

    def open(self, schema: Schema) -> AbstractContextManager[tuple[Table, Schema]]: ...


class Source:
    """A table in an engine that only grows: the counts of its new rows, by cell, whenever they are asked for.

    The rows are read by one statement, so in one snapshot of the engine, and only those past the watermark of the order
    column are read in full. Public are the schema, the order column and how many rows there are.

    What is counted is never wrong without a refusal, if rows are only ever inserted or deleted: a row is counted once,
    when it is first seen past the watermark; one that turns up at or below it, or goes from there, changes the number
    of rows there, which each statement counts again. (As many rows gone as come in between two refreshes, or rows
    changed in place, go unseen: a table is only as append-only as its owner keeps it.) That holds where order values
    repeat as well. Repeated values are refused because they make such a refusal a matter of time: always when there are
    more rows than values, and exactly for up to `COUNTED_ROWS` new rows at once.
    """

    def __init__(self, place: _Place, schema: Schema, order: str, address: str | None, files: str | None) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError(f"a table is read by a Schema, not by {type(schema).__name__}")
        if not isinstance(order, str):
            raise ParameterError("order", "must be the name of a column")
        self._place = place
        self.schema: Final = schema
        """The universe: public."""
        self.order: Final = order
        """The name of the order column: public."""
        self.address: Final = address
        """Where the table can be found again; None for a live table."""
        columns, known_as = _attempt("looked at", lambda: self._look(files))
        self.columns: Final = columns
        """Name and type of each column that is read, as they were when the source was made."""
        self.identity: Final = known_as
        """A name for the table, equal for two sources of the same table."""

    @classmethod
    def of(cls, table: Table | str, schema: Schema, order: str = "id") -> Source:
        """The source of a live Ibis table, or of the table at an address (see `trusted.engines.addresses`)."""
        if isinstance(table, str):
            address = Address.parse(table)
            files = f"{address.kind}:{address.path}" if address.kind in ("parquet", "csv") else None
            return cls(address, schema, order, address.text, files)
        if isinstance(table, ir.Table):
            return cls(_attempt("looked at", lambda: LiveTable(table)), schema, order, None, None)
        raise ParameterError("table", f"must be an Ibis table or an address, not {type(table).__name__}")

    def increments(self, after: Watermark | None, on_invalid: Literal["refuse", "drop"] = "refuse") -> Increment:
        """The counts of the rows past a watermark (None: of all rows), and the next watermark.

        Nothing is kept: a failure leaves nothing behind, and the same watermark gives the same rows again and those
        that came since. An engine that fails, or a table that changed where it may not, is an `EngineError`; rows that
        do not fit are a `DataError` with their columns and numbers, or are left out and counted with
        ``on_invalid="drop"``.
        """
        if on_invalid not in ("refuse", "drop"):
            raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
        if after is not None:
            self._check_columns(after.columns)
        value = None if after is None else after.value
        reading = _attempt("read", lambda: self._read(after, value))
        return make_increment(reading, after, self.schema, self.columns, drop=on_invalid == "drop")

    def _look(self, files: str | None) -> tuple[Columns, str]:
        with self._place.open(self.schema) as (table, schema):
            check_table(table, schema, self.order)
            return _columns(table, self.schema, self.order), files or identity(table)

    def _read(self, after: Watermark | None, value: int | None) -> Reading:
        """One statement, checked; then the order values, if they are few enough to count."""
        with self._place.open(self.schema) as (table, schema):
            check_table(table, schema, self.order)
            self._check_columns(_columns(table, self.schema, self.order))
            reading = _reading(_fetch(table, statement(table, schema, self.order, value)), value)
            check_place(reading, after, self.order)
            if 0 < reading.past <= COUNTED_ROWS:
                places = distinct_places(table, self.order, value, reading.last)
                different = _fetch(table, places.as_table()).column(0)[0].as_py()
                if different < reading.past:
                    raise repeated(self.order)
                if different > reading.past:
                    raise EngineError("rows came late while the table was read, and nothing was taken in: try again")
            return reading

    def _check_columns(self, columns: Columns) -> None:
        changed = sorted({name for name, _ in set(columns) ^ set(self.columns)})
        if changed:
            raise EngineError(
                f"columns of the table have another type than before: {', '.join(map(repr, changed))}; "
                "nothing was taken in"
            )


def _columns(table: Table, schema: Schema, order: str) -> Columns:
    types = table.schema()
    return tuple((name, str(types[name].copy(nullable=True))) for name in dict.fromkeys((order, *schema.names)))


def _fetch(table: Table, wanted: Table) -> pa.Table:
    """The result of a statement, as Arrow."""
    backend = table.get_backend()
    if backend.name == "pyspark":
        # Ibis would go by way of pandas.
        return backend.raw_sql(backend.compile(wanted)).toArrow()
    return backend.to_pyarrow(wanted)


def _reading(lines: pa.Table, after: int | None) -> Reading:
    part, key, rows = (np.asarray(lines[name]).astype(np.int64) for name in ("part", "key", "rows"))

    def line(wanted: Part) -> tuple[int, int]:
        (place,) = np.flatnonzero(part == wanted)
        return int(key[place]), int(rows[place])

    last, past = line(Part.PAST)
    lowest, unplaced = line(Part.UNPLACED)
    return Reading(
        cells=key[part == Part.CELL],
        counts=rows[part == Part.CELL],
        below=None if after is None else line(Part.BELOW),
        first=lowest if after is None else after + 1,
        last=last,
        past=past,
        unplaced=unplaced,
    )


def _attempt(verb: str, action: Callable[[], Result]) -> Result:
    """What an engine raises may quote a value of a row, so it is replaced, outside the block that caught it."""
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
