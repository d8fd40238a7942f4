"""Connections to a vault, and cursors: see PEP 249."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from treering.dbapi.binding import Parameters, bound
from treering.dbapi.exceptions import Error, InterfaceError, NotSupportedError, translated
from treering.dbapi.types import type_code

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.domain.schema import Schema

Row: TypeAlias = tuple[Any, ...]
Described: TypeAlias = tuple[str, str, None, None, None, None, bool]


class Source(Protocol):
    """What a connection asks: a `treering.Vault`, or a `treering.Client`."""

    @property
    def schema(self) -> Schema:
        """The attributes that one can ask about."""

    def sql(self, text: str, within: float | None = None, mechanism: str | None = None) -> pa.Table:
        """The result of a statement."""

    def close(self) -> None:
        """Let it go."""


def connect(
    source: str | PathLike[str] | Source,
    token: str | None = None,
    *,
    within: float | None = None,
    mechanism: str | None = None,
    insecure: bool = False,
) -> Connection:
    """A connection to a vault.

    ``source``      the vault's folder, the address of a server, or an open `Vault` or `Client`, which
                    stays open when the connection closes
    ``token``       what a server wants
    ``within``      the margin wanted of each released number, in rows or, below 1, as a share of them
    ``mechanism``   the name of the one that answers
    ``insecure``    send the token over plain HTTP to another machine
    """
    if not isinstance(source, str | PathLike):
        return Connection(source, within, mechanism, own=False)
    with translated():
        return Connection(_opened(source, token, insecure), within, mechanism, own=True)


def _opened(source: str | PathLike[str], token: str | None, insecure: bool) -> Source:
    if isinstance(source, str) and urlsplit(source).scheme in ("http", "https"):
        from treering.client import connect as remote

        return remote(source, token or "", insecure=insecure)
    from treering.vault.vault import Vault

    return Vault.open(source)


class Connection:
    """A connection: use `connect`. A context manager."""

    def __init__(self, source: Source, within: float | None, mechanism: str | None, *, own: bool) -> None:
        self._source: Source | None = source
        self.within = within
        """The margin wanted of each released number; None: what the usual price gives."""
        self.mechanism = mechanism
        self._own = own

    @property
    def source(self) -> Source:
        """What is asked."""
        self.check()
        assert self._source is not None
        return self._source

    def check(self) -> None:
        """Refuse a connection that is closed."""
        if self._source is None:
            raise InterfaceError("the connection is closed")

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.check()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing: what is charged is durable before an answer is there."""
        self.check()

    def rollback(self) -> None:
        """Nothing: what was released cannot be taken back."""
        self.check()

    def close(self) -> None:
        """Close the connection, and the vault or client if the connection has opened it."""
        source, self._source = self._source, None
        if source is not None and self._own:
            source.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Statements, and their results. A context manager, and an iterator over rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._table: pa.Table | None = None
        self._place = 0
        self._closed = False

    # -- statements ---------------------------------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Answer a SELECT; ``?`` and ``:name`` in it stand for parameters."""
        self._check()
        self._table, self._place = None, 0
        text = bound(operation, parameters)
        connection = self.connection
        with translated():
            self._table = connection.source.sql(text, within=connection.within, mechanism=connection.mechanism)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Answer a SELECT for each of some parameters; the last result stays."""
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> None:
        """Refused: a vault has no procedures."""
        raise NotSupportedError("a vault has no procedures")

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing."""

    # -- results ------------------------------------------------------------------------------------------------------

    @property
    def description(self) -> list[Described] | None:
        """For each column its name, its type's name and, last, whether it may be NULL; None before a result."""
        if self._table is None:
            return None
        return [(each.name, type_code(each.type), None, None, None, None, True) for each in self._table.schema]

    @property
    def rowcount(self) -> int:
        """How many rows the result has; -1 before one."""
        return -1 if self._table is None else int(self._table.num_rows)

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, at most ``size`` or else `arraysize`."""
        table = self._result()
        part = table.slice(self._place, self.arraysize if size is None else size)
        self._place += part.num_rows
        columns = [column.to_pylist() for column in part.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def fetchall(self) -> list[Row]:
        """The rows that are left."""
        return self.fetchmany(self._result().num_rows)

    def fetch_arrow_table(self) -> pa.Table:
        """The rows that are left, as an Arrow table."""
        part = self._result().slice(self._place)
        self._place += part.num_rows
        return part

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows that are left, by Arrow's PyCapsule interface: polars, pandas, DuckDB read a cursor."""
        return self.fetch_arrow_table().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        """Let the result go."""
        self._closed, self._table = True, None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check()

    def _result(self) -> pa.Table:
        self._check()
        if self._table is None:
            raise Error("there is no result: execute a statement first")
        return self._table
