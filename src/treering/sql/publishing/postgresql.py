"""Published tables in PostgreSQL: a refresh is one transaction, and readers go on reading what was there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from treering.errors import EngineError, ParameterError
from treering.lazy import missing
from treering.sql.publishing.tables import NOTES

if TYPE_CHECKING:
    import psycopg

_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.float64(): "double precision",
    pa.int64(): "bigint",
    pa.timestamp("us"): "timestamp without time zone",
}
"""Types of columns; any other is a text."""
_LOCK: Final = 0x7265656E72656E67
"""The number of the lock that refreshes of one database take turns by."""

_TABLES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
_COLUMNS: Final = (
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "ORDER BY ordinal_position"
)


class PostgreSQL:
    """A schema of a PostgreSQL database."""

    def __init__(self, address: str, schema: str) -> None:
        if find_spec("psycopg") is None:
            raise EngineError(missing("publishing to PostgreSQL", "psycopg", "postgres"))
        self._address, self._schema = address, schema

    def check(self, names: Sequence[str]) -> None:
        """See `Place`."""
        with self._opened() as connection:
            self._check_free(connection, names)

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """See `Place`."""
        with self._opened() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            for name in self._check_free(connection, list(tables)) - tables.keys():
                self._do(connection, "DROP TABLE {table}", name)
            for name, table in tables.items():
                self._fill(connection, name, table)

    def _fill(self, connection: psycopg.Connection[Any], name: str, table: pa.Table) -> None:
        """Put rows in the place of those of a table, which stays if its columns do: views of it and rights stay."""
        columns = [(field.name, _TYPES.get(field.type, "text")) for field in table.schema]
        there = connection.execute(_COLUMNS, [self._schema, name]).fetchall()
        if there == columns:
            self._do(connection, "DELETE FROM {table}", name)
        else:
            self._do(connection, "DROP TABLE IF EXISTS {table}", name)
            self._do(connection, "CREATE TABLE {table} ({columns})", name, columns)
        values = [
            column.to_pylist() if column.type in _TYPES else column.cast(pa.string()).to_pylist()
            for column in table.columns
        ]
        with connection.cursor() as cursor, cursor.copy(self._said("COPY {table} FROM STDIN", name)) as copy:
            for row in zip(*values, strict=True):
                copy.write_row(row)

    def _do(
        self, connection: psycopg.Connection[Any], text: str, name: str, columns: Sequence[tuple[str, str]] = ()
    ) -> None:
        connection.execute(self._said(text, name, columns))

    def _said(self, text: str, name: str, columns: Sequence[tuple[str, str]] = ()) -> Any:
        """A statement with names in it, quoted."""
        from psycopg import sql

        typed = [sql.SQL("{} " + kind).format(sql.Identifier(column)) for column, kind in columns]
        listed = sql.SQL(", ").join(typed)
        return sql.SQL(text).format(table=sql.Identifier(self._schema, name), columns=listed)

    def _check_free(self, connection: psycopg.Connection[Any], names: Sequence[str]) -> set[str]:
        """The tables that were published before; refused if another table or view has one of the names."""
        there = {name for (name,) in connection.execute(_TABLES, [self._schema]).fetchall()}
        before = {NOTES} & there
        if before:
            listed = connection.execute(self._said("SELECT table_name FROM {table}", NOTES)).fetchall()
            before |= {name for (name,) in listed} & there
        foreign = (there - before) & set(names)
        if foreign:
            raise ParameterError(
                "statements", f"must not name what others have made there: {', '.join(sorted(foreign))}"
            )
        return before

    @contextmanager
    def _opened(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection; the block is one transaction."""
        import psycopg

        try:
            with psycopg.connect(self._address) as connection:
                yield connection
        except psycopg.Error as error:
            raise EngineError(f"publishing to PostgreSQL: {str(error).partition(chr(10))[0]}") from None
