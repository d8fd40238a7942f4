"""Addresses of tables: one line of text that can be stored, and never holds a password.

    duckdb:///path/to/file.duckdb#table          (or #schema.table)
    parquet:///path/to/file-or-folder
    csv:///path/to/file-or-folder
    postgresql://user@host:port/database#table   (or #schema.table; ?host=/run/postgresql for a socket)

A table at an address is connected to for one reading, then disconnected: a DuckDB file can be written by others in
between, and a server may restart. Connections only read. A view in a DuckDB file reads that file alone: one that reads
another file, or a server, is refused as an engine's failure is. PostgreSQL takes passwords from PGPASSWORD or its
password file. What DuckDB cannot keep in memory it writes to a folder that only this user can read, and that is removed
after the reading (`_Spilling`): by default it would write values of rows, for all to read, beside its file or into the
current folder.

A CSV file has no types of its own, so the schema says how its columns are read (`read_columns`). Every field is read as
text. An empty field is null, a quoted empty field is the empty text. Where the schema wants booleans or
integers that are listed, a text that is none is null if there is a cell for others, and does not fit if there is none;
where it wants numbers, a text that is none counts as `Ordered.unfit_code` says. (As `trusted.rows.intake` has it.)
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit
from weakref import WeakSet

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
from ibis.common.exceptions import TableNotFound

from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.errors import EngineError, ParameterError, TreeringError
from treering.lazy import missing
from treering.trusted.rows.frames import shown
from treering.trusted.rows.typed import NUMBER
from treering.words import reason

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table
    Value: TypeAlias = ir.Value
    Opened: TypeAlias = tuple[Table, Schema]

FORMS: Final = "duckdb:///path/file.duckdb#table, parquet:///path, csv:///path or postgresql://user@host/database#table"
OPTIONS: Final = (
    *("host", "hostaddr", "port", "user", "connect_timeout", "target_session_attrs", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "gssencmode", "krbsrvname"),
)
"""The allowed options of a PostgreSQL address: none can hold a secret. (Every release of PostgreSQL adds options.)"""
UNTRUSTED: Final = "statistics_propagation"
"""The optimiser of DuckDB that is off where rows are counted. It believes the statistics of Parquet files, which leave
NaN out: a comparison that only NaN fulfils would be taken for one that no row does."""
SETTINGS: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "disabled_optimizers": UNTRUSTED,
}
"""DuckDB downloads nothing, loads no code from its folder of extensions, and reads every value."""


class _Spilling:
    """A folder for what DuckDB cannot keep in memory, which are values of rows: mode 0700, made for the first of the
    connections that are open at a time and removed after the last, whatever ended it. (If an interrupt falls into the
    removal, the next connection removes it, or the end of the process.)

    They share it because connections of one process to one file must have equal settings. A forked child makes its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process, self._folder = 0, ""
        self._users: WeakSet[_User] = WeakSet()
        """The connections that are open. Weak, because an interrupt can end one without a word."""
        atexit.register(self._leave, _User())

    @contextmanager
    def folder(self) -> Iterator[str]:
        """The folder's path, for as long as the block lasts."""
        user = _User()
        try:
            yield self._enter(user)
        finally:
            self._leave(user)

    def _enter(self, user: _User) -> str:
        with self._lock:
            self._tidy()
            if not self._folder or self._process != os.getpid():
                try:
                    self._folder = tempfile.mkdtemp(prefix="treering-")  # its mode is 0700, by contract
                except OSError as error:
                    raise EngineError(f"there is no place for DuckDB's temporary files: {reason(error)}") from None
                self._process, self._users = os.getpid(), WeakSet()
            self._users.add(user)
            return self._folder

    def _leave(self, user: _User) -> None:
        with self._lock:
            self._users.discard(user)
            self._tidy()

    def _tidy(self) -> None:
        """Remove the folder, unless it is in use, or a parent's."""
        if self._folder and not self._users and self._process == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


class _User:
    """A connection that is open."""


SPILLING: Final = _Spilling()


@dataclass(frozen=True)
class Address:
    """The components of an address."""

    text: str
    kind: str
    path: str
    table: str = ""
    database: str | None = None
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
        database, _, table = named.rpartition(".")
        return cls(text, url.scheme, path, table, database or None, server)

    @contextmanager
    def open(self, schema: Schema) -> Iterator[Opened]:
        """The table, connected, and the schema to read its columns by: for CSV files, not quite the given one."""
        with self._connection() as connection:
            if self.kind == "csv":
                names = _files(self.path, "csv")
                table = connection.read_csv(
                    names, all_varchar=True, header=True, delim=",", quote='"', escape='"', allow_quoted_nulls=False
                )
                yield read_columns(table, schema)
            elif self.kind == "parquet":
                names = _files(self.path, "parquet")
                _check_files(names, schema)
                yield connection.read_parquet(names, hive_partitioning=False), schema
            else:
                yield self._table(connection), schema

    def _table(self, connection: Any) -> Any:
        try:
            return connection.table(self.table, database=self.database)
        except TableNotFound:
            name = self.table if self.database is None else f"{self.database}.{self.table}"
        raise EngineError(f"there is no table {name} in the database at {self.text}")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection for one reading. What DuckDB spills meanwhile is gone when it ends."""
        with nullcontext() if self.kind == "postgresql" else SPILLING.folder() as folder:
            connection = self._connected(folder)
            try:
                yield connection
            finally:
                connection.disconnect()

    def _connected(self, folder: str | None) -> Any:
        """A connection. No row has been read yet, so an engine's error message may be shown."""
        try:
            return self._connect(folder)
        except TreeringError:
            raise
        except Exception as error:
            problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise EngineError(f"cannot open the database at {self.text}: {problem}")

    def _connect(self, folder: str | None) -> Any:
        if self.kind == "postgresql":
            if find_spec("psycopg") is None:
                raise EngineError(missing("a table in PostgreSQL", "psycopg", "postgres"))
            read_only = "-c default_transaction_read_only=on"
            return ibis.postgres.connect(database=self.path, options=read_only, **self.server)
        settings = {**SETTINGS, "temp_directory": folder}
        if self.kind == "duckdb":
            if not Path(self.path).is_file():
                raise EngineError(f"there is no DuckDB file {self.path}")
            # A view in the file reads tables of the file: no other files, no servers.
            return ibis.duckdb.connect(self.path, read_only=True, enable_external_access=False, **settings)
        return ibis.duckdb.connect(**settings)


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


def _files(path: str, ending: str) -> list[str]:
    """The files in a folder and its subfolders, or the one file."""
    place = Path(path)
    files = sorted(place.rglob(f"*.{ending}")) if place.is_dir() else [place] if place.is_file() else []
    if not files:
        raise EngineError(f"there is no file or folder of *.{ending} at {path}")
    return [str(file) for file in files]


def _check_files(names: list[str], schema: Schema) -> None:
    """Refuse Parquet files whose columns differ: an engine would convert one type to the other silently."""
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
                f"{shown(differing, schema)}"
            )


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without distinctions that Parquet does not make."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


# -- columns of CSV files, read by the schema --------------------------------------------------------------------------


WHOLE: Final = r"^\s*[+-]?[0-9]+\s*$"
BEYOND: Final = 2**62
"""An integer outside the range of any integers()."""


def read_columns(table: Table, schema: Schema) -> tuple[Table, Schema]:
    """The table with numbers where the schema wants some, and the schema with booleans as the integers 0 and 1.

    A column that several attributes come from is read once for each. Columns that the schema does not name, the order
    column among them, are read as integers, null where they are none.
    """
    typed: dict[str, Value] = {}
    attributes: dict[str, Attribute] = {}
    for source, (name, attribute) in zip(schema.sources, schema.attributes.items(), strict=True):
        shared = schema.sources.count(source) > 1
        column = f"{source}#{name}" if shared else source
        attributes[name] = _as_read(replace(attribute, column=column))
        if source in table.columns:
            typed[column] = _read(attribute, table[source])
            typed[source] = table[source] if shared else typed[column]
    others = {name: _integer(table[name]) for name in table.columns if name not in schema.columns}
    return table.select(**typed, **others), Schema(attributes)


def _as_read(attribute: Attribute) -> Attribute:
    """Booleans as the integers 0 and 1: an integer can also be neither, a boolean cannot."""
    if isinstance(attribute, Categories) and isinstance(attribute.values[0], bool):
        return replace(attribute, values=tuple(map(int, attribute.values)))
    return attribute


def _read(attribute: Attribute, text: Value) -> Value:
    if isinstance(attribute, Bins):
        unfit = float("nan") if attribute.other else float("inf")
        return ibis.cases((text.isnull(), ibis.null("float64")), else_=_double(text).fill_null(unfit))
    if isinstance(attribute, Integers):
        return _whole_number(text, attribute)
    if isinstance(attribute, Dated):
        return text
    assert isinstance(attribute, Categories)
    kind = type(attribute.values[0])
    if kind is str:
        return text
    if kind is bool:
        word = text.strip().lower()
        return ibis.cases(
            (text.isnull(), ibis.null("int64")),
            (word.isin(["true", "t", "1"]), 1),
            (word.isin(["false", "f", "0"]), 0),
            else_=ibis.null("int64") if attribute.other else 2,
        ).cast("int64")
    if attribute.other:
        return _integer(text)
    unlisted = next(number for number in count() if number not in attribute.values)
    return ibis.cases(
        (text.isnull(), ibis.null("int64")),
        else_=_integer(text).fill_null(ibis.literal(unlisted, type="int64")),
    )


def _double(text: Value) -> Value:
    """A text as a double, null if it is none: DuckDB itself reads more, such as 1_000."""
    return ibis.cases((text.strip().lower().re_search(NUMBER), text.try_cast("float64")), else_=ibis.null("float64"))


def _integer(text: Value) -> Value:
    """A text of digits as a 64-bit integer, null if it is not one."""
    return ibis.cases((text.re_search(WHOLE), text.try_cast("int64")), else_=ibis.null("int64"))


def _whole_number(text: Value, attribute: Integers) -> Value:
    """A text as an integer, also if it is written 3.0 or 3e0; `BEYOND`, or its negative, if it is far out of range;
    null if it is missing. What is not whole is `BEYOND` too, or null where the attribute has two sides."""
    real = _double(text)
    above, below = (ibis.literal(sign * BEYOND, type="int64") for sign in (1, -1))
    far = ibis.cases((real < 0.0, below), else_=above)
    broken = ibis.null("int64") if attribute.other else above
    return ibis.cases(
        (text.isnull(), ibis.null("int64")),
        (text.re_search(WHOLE), text.try_cast("int64").fill_null(far)),
        (real.isnull(), broken),
        (real.isnan(), ibis.null("int64")),
        (real < -(2.0**53), below),
        (real > 2.0**53, above),
        (real != real.floor().cast("float64"), broken),
        (real < float(attribute.low), below),
        (real > float(attribute.high), above),
        else_=real.cast("int64"),
    )
