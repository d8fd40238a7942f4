"""Addresses of tables: one line of text that can be stored, and never holds a password.

    duckdb:///path/to/file.duckdb#table          (or #schema.table)
    parquet:///path/to/file-or-folder
    csv:///path/to/file-or-folder
    postgresql://user@host:port/database#table   (or #schema.table; ?host=/run/postgresql for a socket)

A table at an address is connected to for one reading, then disconnected: a DuckDB file can be written by others in
between, and a server may restart. Connections only read. A view in a DuckDB file reads that file alone: one that reads
another file, or a server, is refused as an engine's failure is. PostgreSQL takes passwords from PGPASSWORD or its
password file. What DuckDB cannot keep in memory it writes to a folder that only this user can read, and that is removed
after the reading (``spilling``).

A CSV file has no types of its own: every field is read as text, and the schema says what it means, as it does for a
file that is appended. An empty field is null, a quoted empty field is the empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError
from treering.lazy import missing
from treering.trusted.engines.duckdb import SETTINGS, DuckDB
from treering.trusted.engines.postgresql import PostgreSQL
from treering.trusted.engines.spelling import Connection, Extent, Relation
from treering.trusted.engines.spilling import SPILLING
from treering.trusted.rows.frames import shown

FORMS: Final = "duckdb:///path/file.duckdb#table, parquet:///path, csv:///path or postgresql://user@host/database#table"
OPTIONS: Final = (
    *("host", "hostaddr", "port", "user", "connect_timeout", "target_session_attrs", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode", "krbsrvname"),
)
"""The allowed options of a PostgreSQL address: none can hold a secret. (Every release of PostgreSQL adds options.)"""

_CSV: Final = "all_varchar=true, header=true, delim=',', quote='\"', escape='\"', allow_quoted_nulls=false"


@dataclass(frozen=True)
class Address:
    """The components of an address."""

    text: str
    kind: str
    path: str
    table: str = ""
    schema: str | None = None
    server: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address; raises `ParameterError` for any other text."""
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
        schema, _, table = named.rpartition(".")
        return cls(text, url.scheme, path, table, schema or None, server)

    @contextmanager
    def open(self, schema: Schema, order: str) -> Iterator[Relation]:
        """The table, connected. The ``schema`` names the columns that errors may name; by the column ``order`` some
        rows will be chosen."""
        files = _files(self.path, self.kind) if self.kind in ("parquet", "csv") else []
        extents = _checked(files, schema, order) if self.kind == "parquet" else ()
        if self.kind == "postgresql":
            with self._postgresql() as connection:
                yield self._named(PostgreSQL(connection))
            return
        with SPILLING.folder() as folder, self._duckdb(folder) as connection:
            if self.kind == "duckdb":
                yield self._named(DuckDB(connection))
            else:
                opened = DuckDB(connection, fields=self.kind == "csv")
                rows = _read(files, self.kind)
                yield Relation(opened, rows, opened.columns(rows), extents, partial(_read, kind=self.kind))

    def identity(self, relation: Relation) -> str:
        """A name of the table, the same over every connection."""
        if self.kind in ("parquet", "csv"):
            return f"{self.kind}:{self.path}"
        connection = relation.connection
        database, schema = connection.place() if isinstance(connection, PostgreSQL) else (f"duckdb:{self.path}", "main")
        return f"{database}#{self.schema or schema}.{self.table}"

    def _named(self, connection: Connection) -> Relation:
        """The table by its name."""
        quoted = connection.spelling.dialect.quoted
        rows = ".".join(map(quoted, [self.table] if self.schema is None else [self.schema, self.table]))
        try:
            return Relation(connection, rows, connection.columns(rows))
        except Exception as error:
            if type(error).__name__ not in ("CatalogException", "UndefinedTable", "InvalidSchemaName"):
                raise
        name = self.table if self.schema is None else f"{self.schema}.{self.table}"
        raise EngineError(f"there is no table {name} in the database at {self.text}")

    @contextmanager
    def _duckdb(self, folder: str) -> Iterator[Any]:
        import duckdb

        file = self.path if self.kind == "duckdb" else None
        if file is not None and not Path(file).is_file():
            raise EngineError(f"there is no DuckDB file {file}")
        settings = {**SETTINGS, "temp_directory": folder}
        if file is not None:  # A view in the file reads tables of the file: no other files, no servers.
            settings["enable_external_access"] = False
        with self._connected(
            duckdb.connect, file or ":memory:", read_only=file is not None, config=settings
        ) as connection:
            yield connection

    @contextmanager
    def _postgresql(self) -> Iterator[Any]:
        if find_spec("psycopg") is None:
            raise EngineError(missing("a table in PostgreSQL", "psycopg", "postgres"))
        import psycopg

        read_only = "-c default_transaction_read_only=on"
        server = {"dbname": self.path, "options": read_only, "autocommit": True, **self.server}
        with self._connected(psycopg.connect, **server) as connection:
            yield connection

    def _connected(self, connect: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """A connection. No row has been read yet, so an engine's error message may be shown."""
        try:
            return connect(*given, **more)
        except Exception as error:
            problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise EngineError(f"cannot open the database at {self.text}: {problem}")


def _server(url: SplitResult) -> dict[str, str]:
    """The connection parameters in an address. An address is stored and shown: refuses one that could hold a secret."""
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


# -- files -------------------------------------------------------------------------------------------------------------


def _files(path: str, ending: str) -> list[str]:
    """The files in a folder and its subfolders, or the one file."""
    place = Path(path)
    files = sorted(place.rglob(f"*.{ending}")) if place.is_dir() else [place] if place.is_file() else []
    if not files:
        raise EngineError(f"there is no file or folder of *.{ending} at {path}")
    return [str(file) for file in files]


def _read(files: Sequence[str], kind: str) -> str:
    """The rows of some files."""
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return f"read_csv([{listed}], {_CSV})" if kind == "csv" else f"read_parquet([{listed}], hive_partitioning=false)"


def _checked(files: list[str], schema: Schema, order: str) -> tuple[Extent, ...]:
    """Refuse Parquet files whose columns differ: an engine would convert one type to the other silently. Otherwise
    where the order values of each file lie, if all files say so."""
    wanted: pa.Schema | None = None
    extents = []
    for file in files:
        with _opened(file) as parquet:
            known = parquet.schema_arrow
            extents.append(_extent(file, parquet.metadata, order))
        plain = pa.schema([(each.name, _plain(each.type)) for each in sorted(known, key=lambda each: each.name)])
        if wanted is not None and plain != wanted:
            differing = sorted({each.name for each in set(plain) ^ set(wanted)})
            raise EngineError(
                f"the Parquet files at {Path(files[0]).parent} differ in the names or types of their columns: "
                f"{shown(differing, schema)}"
            )
        wanted = plain
    return tuple(each for each in extents if each is not None) if None not in extents else ()


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowException, OSError):
        parquet = None
    if parquet is None:
        raise EngineError(f"{file} is no Parquet file that can be read")
    with parquet:
        yield parquet


def _extent(file: str, footer: Any, order: str) -> Extent | None:
    """Where the order values of a file lie, if its statistics say so and none is null."""
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    if order not in names:
        return None
    groups = [group for group in map(footer.row_group, range(footer.num_row_groups)) if group.num_rows]
    statistics = (group.column(names.index(order)).statistics for group in groups)
    known = [each for each in statistics if each is not None and each.has_min_max and each.null_count == 0]
    if len(known) < len(groups) or not all(type(each.min) is type(each.max) is int for each in known):
        return None
    first = min((each.min for each in known), default=2**63 - 1)
    return Extent(file, first, max((each.max for each in known), default=-(2**63)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without distinctions that Parquet does not make."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind
