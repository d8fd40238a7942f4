"""A DuckDB in memory, without files, network, extensions or anything that is left from earlier statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import duckdb
import pyarrow as pa

from treering.errors import QueryError
from treering.sql.engine.limits import Limits, gathered

_BATCH: Final = 2048
"""How many rows DuckDB hands over at a time: its own vectors have as many."""


def opened(limits: Limits) -> duckdb.DuckDBPyConnection:
    """A new database, with its settings locked."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
            "threads": "1",
            "memory_limit": f"{limits.memory * 3 // 4}B",
        },
    )
    connection.execute("SET lock_configuration = true")
    return connection


def selected(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    tables: Mapping[str, pa.Table],
    limits: Limits,
    check: Callable[[], None],
) -> pa.Table:
    """The result of one SELECT over some tables, which are there for this statement only."""
    try:
        _check_single(connection, statement)
        for name, table in tables.items():
            connection.register(name, table)
        with connection.sql(statement).to_arrow_reader(_BATCH) as reader:  # An open result would block what follows.
            return gathered(reader, reader.schema, limits, check)
    except duckdb.InterruptException:
        check()
        raise limits.too_slow() from None
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        raise limits.too_large() from None
    except (duckdb.Error, pa.ArrowException) as error:
        raise QueryError(str(error).partition("\n")[0]) from None
    finally:
        for name in tables:
            connection.unregister(name)


def _check_single(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Refuse, by DuckDB's own parser, what is not one SELECT."""
    kinds = [each.type for each in connection.extract_statements(statement)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise QueryError("the statement cannot be worked out: it is not a single SELECT")
