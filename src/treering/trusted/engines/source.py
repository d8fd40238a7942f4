"""The source of rows that stay in an engine: the counts of a table's new rows, and the watermark that a refresh leaves.

The engines are DuckDB (also for Parquet and CSV files), PostgreSQL and Spark, through one Ibis expression.

A table grows at one end: its order column is a unique integer, and new rows have larger values than all before. The
watermark is the largest order value taken in so far, and how many rows the table had up to it: an engine is asked for
the rows past it, and a table with another number of rows at or below it has changed where it may not.

A table is an address (``addresses``), which is connected to anew for each reading, or an Ibis table on a caller's
connection (`LiveTable`). Either way it has an `identity`, the same over every connection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError, SchemaError, TreeringError
from treering.trusted.engines.addresses import UNTRUSTED, Address
from treering.trusted.engines.binning import Counted, check_table, distinct_places, statement
from treering.trusted.rows.frames import hint, shown
from treering.trusted.sealed import Sealed
from treering.words import counted

if TYPE_CHECKING:
    Table: TypeAlias = ir.Table

__all__ = ["Increment", "Source", "Watermark"]

Columns: TypeAlias = tuple[tuple[str, str], ...]
Result = TypeVar("Result")

COUNTED_ROWS: Final = 2**20
"""Up to this many new rows, their distinct order values are counted to see that none repeats. For more rows that would
cost more than counting the cells; see `Source` for why leaving it out is safe."""


class _Place(Protocol):
    """Where a table is: at an address, or on a caller's connection."""

    def open(self, schema: Schema) -> AbstractContextManager[tuple[Table, Schema]]: ...


class Source:
    """A table in an engine that only grows: gives the counts of its new rows, by cell.

    The rows are read by one statement, so in one snapshot of the engine, and only those past the watermark of the order
    column are read in full. Public are the schema, the order column and how many rows there are.

    A wrong count is refused, if rows are only ever inserted or deleted: a row is counted once, when it is first seen
    past the watermark; one that is inserted or deleted at or below it changes the number of rows there, which each
    statement counts again. (Two changes go unseen: as many rows inserted as deleted there between two refreshes, and
    rows changed in place. A table is only as append-only as its owner keeps it.) All of this holds for repeated order
    values too. They are refused because sooner or later they would lead to such a refusal: in any batch, if there are
    more rows than integers between the smallest and the largest value; exactly, for up to `COUNTED_ROWS` new rows.
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
        """The address of the table; None for a table on a caller's connection."""
        columns, known_as = _attempt("looked at", lambda: self._look(files))
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
            files = f"{address.kind}:{address.path}" if address.kind in ("parquet", "csv") else None
            return cls(address, schema, order, address.text, files)
        if isinstance(table, ir.Table):
            return cls(_attempt("looked at", lambda: LiveTable(table)), schema, order, None, None)
        raise ParameterError("table", f"must be an Ibis table or an address, not {type(table).__name__}")

    def increments(self, after: Watermark | None, on_invalid: Literal["refuse", "drop"] = "refuse") -> Increment:
        """The counts of the rows past the watermark ``after`` (None: of all rows), and the next watermark.

        The source keeps no state: after a failure, the same watermark gives the same rows again and those that came
        since. An engine that fails, or a table that did not only grow at its end, raises `EngineError`; rows that do
        not fit raise `DataError`, which names columns and numbers of rows, or are left out and counted with
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
        """The result of one statement, checked; order values must be distinct, if they are few enough to count."""
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
    return tuple((name, str(types[name].copy(nullable=True))) for name in dict.fromkeys((order, *schema.columns)))


def _fetch(table: Table, wanted: Table) -> pa.Table:
    """The result of a statement, as Arrow."""
    backend = table.get_backend()
    if backend.name == "pyspark":
        # Ibis would convert through pandas.
        return backend.raw_sql(backend.compile(wanted)).toArrow()
    return backend.to_pyarrow(wanted)


_LINES: Final = ("part", "key", "rows")
"""The columns of a statement's result that come before the sums."""


def _reading(lines: pa.Table, after: int | None) -> Reading:
    part, key, rows = (np.asarray(lines[name]).astype(np.int64) for name in _LINES)

    def line(wanted: Counted) -> tuple[int, int]:
        (place,) = np.flatnonzero(part == wanted)
        return int(key[place]), int(rows[place])

    last, past = line(Counted.PAST)
    lowest, unplaced = line(Counted.UNPLACED)
    return Reading(
        cells=key[part == Counted.CELL],
        counts=rows[part == Counted.CELL],
        below=None if after is None else line(Counted.BELOW),
        first=lowest if after is None else after + 1,
        last=last,
        past=past,
        unplaced=unplaced,
        sums=tuple(np.asarray(each).astype(np.int64)[part == Counted.CELL] for each in lines.columns[len(_LINES) :]),
    )


def _attempt(verb: str, action: Callable[[], Result]) -> Result:
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


# -- tables on a caller's connection -----------------------------------------------------------------------------------


ENGINES: Final = ("duckdb", "postgres", "pyspark")
"""The engines that the contract suite runs on."""


class LiveTable:
    """An Ibis table, or an expression over tables, on the connection that it was made from."""

    def __init__(self, table: Table) -> None:
        backend = table.get_backend()
        if backend.name not in ENGINES:
            raise ParameterError("table", f"must live in one of {', '.join(ENGINES)}, not in {backend.name}")
        self._table = table
        self._backend = backend

    @contextmanager
    def open(self, schema: Schema) -> Iterator[tuple[Table, Schema]]:
        """The table, as the engine has it now, and the schema as it is."""
        if self._backend.name == "postgres" and self._backend.con.closed:
            self._backend.reconnect()
        if self._backend.name == "duckdb":
            distrust_statistics(self._backend.con)
        for leaf in leaves(self._table):
            if self._backend.name == "pyspark":
                # Spark lists a table's files once, and again only on REFRESH.
                self._backend.raw_sql(f"REFRESH TABLE {_spark_name(leaf)}")
            self._check_types(leaf, schema)
        yield self._with_zones(), schema

    def _with_zones(self) -> Table:
        """The table; in Spark with a zone on the types of timestamps that are instants, which Ibis does not tell from
        others."""
        if self._backend.name != "pyspark":
            return self._table
        kinds = self._backend._session.sql(self._backend.compile(self._table)).schema
        zoned = {each.name: dt.Timestamp(timezone="UTC") for each in kinds if each.dataType.typeName() == "timestamp"}
        return self._table.cast(zoned) if zoned else self._table

    def _check_types(self, leaf: ops.DatabaseTable, schema: Schema) -> None:
        """Refuse a table whose columns changed since the expression was made."""
        place = leaf.namespace
        now = self._backend.get_schema(leaf.name, catalog=place.catalog, database=place.database)
        changed = [name for name, kind in leaf.schema.items() if name not in now or not _same_type(kind, now[name])]
        if changed:
            raise EngineError(
                f"the table {leaf.name!r} has changed: {shown(changed, schema)}, gone or of another type than before; "
                "nothing was taken in"
            )


def distrust_statistics(connection: Any) -> None:
    """Switch `UNTRUSTED` off in a caller's DuckDB, for good: the setting is the database's, and another thread may be
    reading when this one ends."""
    ((disabled,),) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    names = {name.strip() for name in disabled.split(",")} - {""}
    if UNTRUSTED not in names:
        connection.execute("SET disabled_optimizers = ?", [",".join(sorted({*names, UNTRUSTED}))])


def leaves(table: Table) -> list[ops.DatabaseTable]:
    """The tables of the engine that an expression reads."""
    return list(table.op().find(ops.DatabaseTable))


def identity(table: Table) -> str:
    """A name of the table, the same over every connection (for a table in memory, within its process only)."""
    backend = table.get_backend()
    names = sorted(f"{_database(backend, leaf)}#{leaf.namespace.database or backend.current_database}.{leaf.name}"
                   for leaf in leaves(table))  # fmt: skip
    if isinstance(table.op(), ops.DatabaseTable):
        return names[0]
    meaning = hashlib.sha256(ibis.to_sql(table).encode()).hexdigest()[:16]
    return f"{'+'.join(names)}?{meaning}"


def _database(backend: Any, leaf: ops.DatabaseTable) -> str:
    if backend.name == "postgres":
        return f"postgresql:{_server(backend)}/{backend.con.info.dbname}"
    if backend.name == "pyspark":
        return f"spark:{leaf.namespace.catalog or backend.current_catalog}"
    catalog = leaf.namespace.catalog or backend.current_catalog
    found = backend.con.execute("SELECT path FROM duckdb_databases() WHERE database_name = ?", [catalog]).fetchall()
    return f"duckdb:{found[0][0]}" if found and found[0][0] else f"duckdb:memory-{id(backend.con)}"


def _server(backend: Any) -> str:
    """The system identifier of a PostgreSQL cluster, the same over every socket, port and host name; host and port if
    the user may not read it."""
    with backend.con.cursor() as cursor, backend.con.transaction():
        allowed = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
        if cursor.execute(allowed).fetchone()[0]:
            return str(cursor.execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0])
    return f"{backend.con.info.host}:{backend.con.info.port}"


def _spark_name(leaf: ops.DatabaseTable) -> str:
    parts = (leaf.namespace.catalog, leaf.namespace.database, leaf.name)
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts if part)


def _same_type(before: Any, now: Any) -> bool:
    return bool(before.copy(nullable=True) == now.copy(nullable=True))


# -- the increment of one refresh, and its watermark -------------------------------------------------------------------


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


class Increment(Sealed):
    """PRIVATE: the rows past a watermark as counts of cells; ``rows``, ``dropped`` and ``watermark`` are public."""

    __slots__ = ("cells", "counts", "dropped", "rows", "sums", "watermark")

    def __init__(
        self, cells: Ints, counts: Ints, watermark: Watermark, dropped: int, sums: tuple[Ints, ...] = ()
    ) -> None:
        self.cells = cells
        """The occupied cells, in order."""
        self.counts = counts
        """How many rows came to each of them."""
        self.sums = sums
        """The columns of sums (``domain/sums.py``)."""
        self.rows = int(counts.sum())
        """How many rows came."""
        self.dropped = dropped
        """How many rows did not fit and were left out."""
        self.watermark = watermark
        """How far the table is taken in with these rows."""


@dataclass(frozen=True, repr=False, eq=False)
class Reading(Sealed):
    """PRIVATE: the result of one statement, from one snapshot of the table."""

    cells: Ints
    """Cell numbers; -1 minus a column's position for the rows that do not fit in that column."""
    counts: Ints
    below: tuple[int, int] | None
    """The largest order value at or below the watermark and the number of such rows; None if there was no watermark."""
    first: int
    """The smallest order value past the watermark, or a lower bound of it."""
    last: int
    """The largest order value past the watermark."""
    past: int
    """The number of rows past the watermark."""
    unplaced: int
    """The number of rows whose order value is null."""
    sums: tuple[Ints, ...] = ()
    """The columns of sums, for the cells."""


def check_place(reading: Reading, after: Watermark | None, order: str) -> None:
    """Raise `EngineError` for a table that did not only grow at its end."""
    if reading.unplaced:
        unplaced = counted(reading.unplaced, "row")
        raise EngineError(f"{unplaced} without a value in the order column {order!r}: give each of them one")
    if reading.past != int(reading.counts.sum()):
        raise EngineError("the table changed while it was read, and nothing was taken in: try again")
    if reading.past and reading.past > reading.last - reading.first + 1:
        raise repeated(order)
    if after is None or after.value is None or reading.below is None:
        return
    top, rows = reading.below
    if rows != after.rows:
        change = f"lost {after.rows - rows:,}" if rows < after.rows else f"gained {rows - after.rows:,}"
        raise EngineError(
            f"the table has {change} of the {counted(after.rows, 'row')} up to {order} = {after.value} that were taken "
            "in, and nothing more was: rows may only be added, past the largest order value so far (a transaction that "
            "committed late must give its rows new order values)"
        )
    if top != after.value:
        raise EngineError(f"the row with {order} = {after.value}, the last that was taken in, is gone from the table")


def repeated(order: str) -> EngineError:
    """The error for an order column that is not unique."""
    return EngineError(f"the order column {order!r} repeats values: it must be unique, such as an identity column")


def make_increment(
    reading: Reading, after: Watermark | None, schema: Schema, columns: tuple[tuple[str, str], ...], *, drop: bool
) -> Increment:
    """The increment of a checked reading; rows that do not fit are refused or, with ``drop``, left out and counted."""
    unfit = reading.cells < 0
    dropped = int(reading.counts[unfit].sum())
    if dropped and not drop:
        raise _refusal(reading.cells[unfit], reading.counts[unfit], schema)
    order = np.argsort(reading.cells[~unfit], kind="stable")
    before = after or Watermark(value=None, rows=0, dropped=0, columns=columns)
    return Increment(
        cells=reading.cells[~unfit][order],
        counts=reading.counts[~unfit][order],
        sums=tuple(each[~unfit][order] for each in reading.sums),
        dropped=dropped,
        watermark=Watermark(
            value=reading.last if reading.past else before.value,
            rows=before.rows + reading.past,
            dropped=before.dropped + dropped,
            columns=columns,
        ),
    )


def _refusal(cells: Ints, counts: Ints, schema: Schema) -> DataError:
    """The error for rows that do not fit: names columns and numbers of rows, never values."""
    found = sorted(zip((-1 - cells).tolist(), counts.tolist(), strict=True))
    problems = [
        f"column {name!r}: {counted(count, 'row')} with a value that is not among {attribute.describe()}"
        f"{hint(attribute)}"
        for place, count in found
        for name, attribute in [list(schema.attributes.items())[place]]
    ]
    return DataError(
        f"{'; '.join(problems)}; nothing was taken in (a row counts for its first such column)",
        column=schema.names[found[0][0]],
    )
