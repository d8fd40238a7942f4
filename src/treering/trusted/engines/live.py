"""Tables on a caller's connection: Ibis tables of DuckDB, PostgreSQL or Spark, and expressions over such tables.

Ibis says in SQL what the expression means, and gives the connection. All else is as it is at an address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ibis
import ibis.expr.operations as ops

from treering.domain.schema import Schema
from treering.errors import ParameterError
from treering.trusted.engines.duckdb import UNTRUSTED, DuckDB
from treering.trusted.engines.postgresql import PostgreSQL
from treering.trusted.engines.spark import Spark
from treering.trusted.engines.spelling import Connection, Relation

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table

ENGINES: Final = ("duckdb", "postgres", "pyspark")
"""The engines that the contract suite runs on, as Ibis calls them."""


class LiveTable:
    """An Ibis table, or an expression over tables, on the connection that it was made from."""

    def __init__(self, table: Table) -> None:
        backend = table.get_backend()
        if backend.name not in ENGINES:
            raise ParameterError("table", f"must live in one of {', '.join(ENGINES)}, not in {backend.name}")
        self._table, self._backend = table, backend

    @contextmanager
    def open(self, schema: Schema, order: str) -> Iterator[Relation]:
        """The table, as the engine has it now."""
        connection = self._connection()
        rows = f"({self._backend.compile(self._table)})"
        yield Relation(connection, rows, connection.columns(rows))

    def identity(self, relation: Relation) -> str:
        """A name of the table, the same over every connection (for a table in memory, within its process only)."""
        backend = self._backend
        names = sorted(
            f"{_database(backend, leaf)}#{leaf.namespace.database or backend.current_database}.{leaf.name}"
            for leaf in leaves(self._table)
        )
        if isinstance(self._table.op(), ops.DatabaseTable):
            return names[0]
        meaning = hashlib.sha256(ibis.to_sql(self._table).encode()).hexdigest()[:16]
        return f"{'+'.join(names)}?{meaning}"

    def _connection(self) -> Connection:
        if self._backend.name == "duckdb":
            distrust_statistics(self._backend.con)
            return DuckDB(self._backend.con)
        if self._backend.name == "postgres":
            if self._backend.con.closed:
                self._backend.reconnect()
            return PostgreSQL(self._backend.con)
        for leaf in leaves(self._table):  # Spark lists a table's files once, and again only on REFRESH.
            self._backend.raw_sql(f"REFRESH TABLE {_spark_name(leaf)}")
        return Spark(self._backend._session)


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


def _database(backend: Any, leaf: ops.DatabaseTable) -> str:
    if backend.name == "postgres":
        return PostgreSQL(backend.con).place()[0]
    if backend.name == "pyspark":
        return f"spark:{leaf.namespace.catalog or backend.current_catalog}"
    catalog = leaf.namespace.catalog or backend.current_catalog
    found = backend.con.execute("SELECT path FROM duckdb_databases() WHERE database_name = ?", [catalog]).fetchall()
    return f"duckdb:{found[0][0]}" if found and found[0][0] else f"duckdb:memory-{id(backend.con)}"


def _spark_name(leaf: ops.DatabaseTable) -> str:
    parts = (leaf.namespace.catalog, leaf.namespace.database, leaf.name)
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts if part)
