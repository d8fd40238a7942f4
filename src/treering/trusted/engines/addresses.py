"""Where a table is, in one line that can be stored: no password is ever part of it.

    duckdb:///path/to/file.duckdb#table          (or #schema.table)
    parquet:///path/to/file-or-folder
    csv:///path/to/file-or-folder
    postgresql://user@host:port/database#table   (or #schema.table; ?host=/run/postgresql for a socket)

A table at an address is connected to for one reading and let go of: a DuckDB file can be written by others in between,
and a server may restart. Connections only read. PostgreSQL takes passwords from PGPASSWORD or its password file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
from ibis.common.exceptions import TableNotFound

from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError, TreeringError
from treering.trusted.csv_columns import read_columns

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Opened: TypeAlias = tuple[ir.Table, Schema]

FORMS: Final = "duckdb:///path/file.duckdb#table, parquet:///path, csv:///path or postgresql://user@host/database#table"
OPTIONS: Final = (
    *("host", "hostaddr", "port", "user", "connect_timeout", "target_session_attrs", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode", "krbsrvname"),
)
"""The options of a PostgreSQL address, none of which can hold a secret. (There are new ones with every release.)"""
OFFLINE: Final = {"autoinstall_known_extensions": False}
"""DuckDB fetches nothing."""


@dataclass(frozen=True)
class Address:
    """An address, taken apart."""

    text: str
    kind: str
    path: str
    table: str = ""
    database: str | None = None
    server: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address; anything else is a `ParameterError`."""
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            raise ParameterError("table", f"must be {FORMS}") from None
        path, named = unquote(url.path), unquote(url.fragment)
        if url.scheme == "postgresql":
            server = {"port": port, **_server(url)}
            path = path.removeprefix("/")
        else:
            server = {}
            if url.netloc or url.query or not path.startswith("/"):
                raise ParameterError("table", f"must be {FORMS}, with an absolute path")
            if any(sign in path for sign in "*?["):
                raise ParameterError("table", "must be a path without *, ? and [, which DuckDB takes for patterns")
            path = str(Path(path).resolve())
        if url.scheme not in ("duckdb", "parquet", "csv", "postgresql") or not path:
            raise ParameterError("table", f"must be {FORMS}")
        if (url.scheme in ("duckdb", "postgresql")) != bool(named):
            raise ParameterError("table", f"must name its table behind a #, unless it is files: {FORMS}")
        database, _, table = named.rpartition(".")
        return cls(text, url.scheme, path, table, database or None, server)

    @contextmanager
    def open(self, schema: Schema) -> Iterator[Opened]:
        """The table, connected, and the schema that its columns are read by."""
        connection = self._connected()
        try:
            if self.kind == "csv":
                names = _files(self.path, "csv")
                table = connection.read_csv(
                    names, all_varchar=True, header=True, delim=",", quote='"', escape='"', allow_quoted_nulls=False
                )
                yield read_columns(table, schema)
            elif self.kind == "parquet":
                names = _files(self.path, "parquet")
                _check_files(names)
                yield connection.read_parquet(names, hive_partitioning=False), schema
            else:
                yield self._table(connection), schema
        finally:
            connection.disconnect()

    def _table(self, connection: Any) -> Any:
        try:
            return connection.table(self.table, database=self.database)
        except TableNotFound:
            name = self.table if self.database is None else f"{self.database}.{self.table}"
        raise EngineError(f"there is no table {name} in the database at {self.text}")

    def _connected(self) -> Any:
        """A connection. No row has been read yet, so what the engine says may be shown."""
        try:
            return self._connect()
        except TreeringError:
            raise
        except Exception as error:
            problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise EngineError(f"cannot open the database at {self.text}: {problem}")

    def _connect(self) -> Any:
        if self.kind == "postgresql":
            read_only = "-c default_transaction_read_only=on"
            return ibis.postgres.connect(database=self.path, options=read_only, **self.server)
        if self.kind == "duckdb":
            if not Path(self.path).is_file():
                raise EngineError(f"there is no DuckDB file {self.path}")
            return ibis.duckdb.connect(self.path, read_only=True, **OFFLINE)
        return ibis.duckdb.connect(**OFFLINE)


def _server(url: SplitResult) -> dict[str, str]:
    """Who connects to which server. An address is kept for ever and shown to anybody: no secret may be part of it."""
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    if url.password is not None or "@" in url.path or not options.keys() <= set(OPTIONS):
        raise ParameterError(
            "table",
            f"must not hold a password, nor options other than {', '.join(OPTIONS)}: PostgreSQL takes a password from "
            "PGPASSWORD or from its password file",
        )
    user = {} if url.username is None else {"user": unquote(url.username)}
    host = {} if not url.hostname else {"host": unquote(url.hostname)}
    return {**host, **user, **options}


def _files(path: str, ending: str) -> list[str]:
    """The files of a folder and those below it, or the one file."""
    place = Path(path)
    files = sorted(place.rglob(f"*.{ending}")) if place.is_dir() else [place] if place.is_file() else []
    if not files:
        raise EngineError(f"there is no file or folder of *.{ending} at {path}")
    return [str(file) for file in files]


def _check_files(names: list[str]) -> None:
    """Refuse Parquet files whose columns differ: an engine would turn one type into the other without a word."""
    wanted: pa.Schema | None = None
    for name in names:
        found = pq.read_schema(name)
        plain = pa.schema([(each.name, _plain(each.type)) for each in sorted(found, key=lambda each: each.name)])
        if wanted is None:
            wanted = plain
        elif plain != wanted:
            differing = sorted({each.name for each in set(plain) ^ set(wanted)})
            raise EngineError(
                f"the Parquet files at {Path(names[0]).parent} differ in the names or types of their columns: "
                f"{', '.join(map(repr, differing))}"
            )


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what Parquet does not tell apart."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind
