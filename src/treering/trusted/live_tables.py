"""A table that somebody else has connected to, and the name by which a table is known whoever connects to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ibis
import ibis.expr.operations as ops

from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table

ENGINES: Final = ("duckdb", "postgres", "pyspark")
"""The engines that the contract suite runs on."""


class LiveTable:
    """An Ibis table (or any expression that makes one of tables) with the connection that it was made from."""

    def __init__(self, table: Table) -> None:
        backend = table.get_backend()
        if backend.name not in ENGINES:
            raise ParameterError("table", f"must live in one of {', '.join(ENGINES)}, not in {backend.name}")
        self._table = table
        self._backend = backend

    @contextmanager
    def open(self, schema: Schema) -> Iterator[tuple[Table, Schema]]:
        """The table, as the engine has it now."""
        if self._backend.name == "postgres" and self._backend.con.closed:
            self._backend.reconnect()
        for leaf in leaves(self._table):
            if self._backend.name == "pyspark":
                # Spark lists a table's files once, unless it is told to look again.
                self._backend.raw_sql(f"REFRESH TABLE {_spark_name(leaf)}")
            self._check_types(leaf)
        yield self._table, schema

    def _check_types(self, leaf: ops.DatabaseTable) -> None:
        """The expression was made for the columns that the table had then."""
        place = leaf.namespace
        now = self._backend.get_schema(leaf.name, catalog=place.catalog, database=place.database)
        changed = [name for name, kind in leaf.schema.items() if name not in now or not _same_type(kind, now[name])]
        if changed:
            raise EngineError(
                f"the table {leaf.name!r} has changed: {', '.join(map(repr, changed))} "
                "is gone or has another type than before; nothing was taken in"
            )


def leaves(table: Table) -> list[ops.DatabaseTable]:
    """The tables of the engine that an expression reads."""
    return list(table.op().find(ops.DatabaseTable))


def identity(table: Table) -> str:
    """The name of a table, the same over every connection to it (a table in memory is known in its process only)."""
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
    """The number a PostgreSQL cluster was given when it was made: the same over every socket, port and host name."""
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
