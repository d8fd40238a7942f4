"""Published tables in a DuckDB file: a refresh is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from treering.errors import EngineError, ParameterError
from treering.sql.publishing.tables import NOTES

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
}
_GIVEN: Final = "treering_given"


class DuckDB:
    """A file of DuckDB's, which no other process has open during a refresh."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, names: Sequence[str]) -> None:
        """See `Place`."""
        if not self._path.exists():
            return
        with self._opened() as connection:
            _check_free(connection, names)

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """See `Place`."""
        with self._opened() as connection:
            connection.begin()
            for name in _check_free(connection, list(tables)):
                connection.execute(f"DROP TABLE {_quoted(name)}")
            for name, table in tables.items():
                connection.register(_GIVEN, table)
                connection.execute(f"CREATE TABLE {_quoted(name)} AS SELECT * FROM {_GIVEN}")
                connection.unregister(_GIVEN)
            connection.commit()

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with duckdb.connect(str(self._path), config=_SETTINGS) as connection:
                yield connection
        except duckdb.Error as error:
            raise EngineError(f"publishing to {self._path}: {str(error).partition(chr(10))[0]}") from None


def _check_free(connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    """The tables that were published before; refused if another table or view has one of the names."""
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"
    there = {name for (name,) in connection.execute(listed).fetchall()}
    before = {NOTES} & there
    if before:
        before |= {name for (name,) in connection.execute(f"SELECT table_name FROM {NOTES}").fetchall()} & there
    foreign = {name.lower() for name in there - before} & {name.lower() for name in names}
    if foreign:
        raise ParameterError("statements", f"must not name what others have made there: {', '.join(sorted(foreign))}")
    return sorted(before)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
