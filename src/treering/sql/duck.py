"""DuckDB over public values only: what was released, and the values of the schema.

Each thread has a database of its own, in memory, without files, network or extensions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from treering.errors import QueryError

SECONDS: Final = 30.0
"""How long a statement may take."""

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
    "memory_limit": "1GB",
}

TROUBLE: Final = (SqlglotError, TypeError, ValueError, AttributeError, LookupError)
"""What sqlglot raises for a tree that it did not expect: not always an error of its own."""

_own: Final = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    if not hasattr(_own, "connection"):
        _own.connection = duckdb.connect(":memory:", config=_CONFIG)
        _own.connection.execute("SET lock_configuration = true")
    connection: duckdb.DuckDBPyConnection = _own.connection
    return connection


def run(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a statement over some tables."""
    connection = _connection()
    timer = threading.Timer(SECONDS, connection.interrupt)
    timer.daemon = True
    try:
        for name, table in tables.items():
            connection.register(name, table)
        timer.start()
        return connection.sql(statement).to_arrow_table()
    except duckdb.InterruptException:
        raise QueryError(f"the statement takes more than {SECONDS:.0f} seconds to work out") from None
    except duckdb.Error as error:
        raise QueryError(_first_line(error)) from None
    finally:
        timer.cancel()
        for name in tables:
            connection.unregister(name)


def written(node: exp.Expr) -> str:
    """An expression as DuckDB reads it; refused if it has no way to say it."""
    try:
        return node.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except TROUBLE as error:
        raise QueryError(f"the statement cannot be worked out: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
