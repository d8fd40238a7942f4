"""PostgreSQL: tables of a server, read over psycopg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from treering.trusted.dialect import Dialect
from treering.trusted.engines.spelling import Column, Kind, Spelling, clipped

_LARGEST, _LEAST = "1.7976931348623157e308", "2.4703282292062328e-324"
"""Numbers beyond these are no doubles: PostgreSQL refuses to turn them into some."""


def _placed(value: str, cuts: Sequence[str]) -> str:
    return f"width_bucket({value}, ARRAY[{', '.join(cuts)}])"


SPELLING: Final = Spelling(
    dialect=Dialect(
        double="DOUBLE PRECISION",
        division="({}) / {}",
        moment="{}",
        month="CAST(extract(MONTH FROM DATE '0001-01-01' + CAST({} AS INTEGER)) AS BIGINT)",
        text="decode('{}', 'hex')",
        place=_placed,
        item="(ARRAY[{}])[{} + 1]",
    ),
    bytes="convert_to({}, 'UTF8')",
    matches="({} ~ '{}')",
    extracted="substring({} FROM '{}')",
    cast="CAST({} AS {})",
    days="CAST(CAST({} AS DATE) - DATE '1970-01-01' AS BIGINT)",
    fence=" OFFSET 0",
)

_REAL: Final = "CASE WHEN {0} <> 'NaN' THEN CAST({0} AS DOUBLE PRECISION) END"
_DECIMAL: Final = (
    f"CASE WHEN {{0}} = 'NaN' THEN NULL WHEN {{0}} > {_LARGEST} THEN 'Infinity' WHEN {{0}} < -{_LARGEST} "
    f"THEN '-Infinity' WHEN abs({{0}}) < {_LEAST} THEN 0 ELSE CAST({{0}} AS DOUBLE PRECISION) END"
)
_MICROSECONDS: Final = "CAST(extract(EPOCH FROM {0}) * 1000000 AS BIGINT)"
_MOMENT, _INSTANT = (clipped(kind, _MICROSECONDS) for kind in ("moment", "instant"))
_DATE: Final = clipped("date", "CAST({0} - DATE '1970-01-01' AS BIGINT) * 86400000000")
_TEXT: Final = "CAST({0} AS TEXT)"

_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "bool": ("boolean", "{0}"),
    **dict.fromkeys(("int2", "int4", "int8"), ("integer", "{0}")),
    **dict.fromkeys(("float4", "float8"), ("real", _REAL)),
    "numeric": ("real", _DECIMAL),
    "date": ("date", _DATE),
    "timestamp": ("moment", _MOMENT),
    "timestamptz": ("instant", _INSTANT),
}
_TEXTS: Final = ("S", "E")
"""The categories of types of texts: strings and enumerations."""


def column_of(name: str, category: str) -> Column:
    """The column of a type, by its name and category."""
    if name in _KINDS:
        return Column(_KINDS[name][0], name, _KINDS[name][1])
    return Column("text", name, _TEXT) if category in _TEXTS else Column("other", name)


class PostgreSQL:
    """A connection to PostgreSQL."""

    spelling: Final = SPELLING

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, rows: str) -> dict[str, Column]:
        """See `Connection`."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            described = cursor.execute(f"SELECT * FROM {rows} AS t LIMIT 0").description
            kinds = [each.type_code for each in described]
            cursor.execute("SELECT oid, typname, typcategory FROM pg_type WHERE oid = ANY(%s)", [kinds])
            known = {oid: column_of(name, category) for oid, name, category in cursor.fetchall()}
        return {each.name: known[each.type_code] for each in described}

    def place(self) -> tuple[str, str]:
        """The server and its database, by a name that is the same over every connection; and the schema whose tables
        need no other name."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            (name,) = cursor.execute("SELECT current_schema()").fetchone()
        return f"postgresql:{server_of(self._connection)}/{self._connection.info.dbname}", str(name)

    def fetch(self, text: str) -> pa.Table:
        """See `Connection`."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            names = [each.name for each in cursor.execute(text).description]
            lines = cursor.fetchall()
        columns = zip(*lines, strict=True) if lines else [()] * len(names)
        return pa.table([_array(column) for column in columns], names=names)


def _array(column: Sequence[Any]) -> pa.Array:
    """A column of texts or, as most are, of numbers."""
    if any(isinstance(each, str) for each in column):
        return pa.array(column, pa.string())
    return pa.array([None if each is None else int(each) for each in column], pa.int64())


def server_of(connection: Any) -> str:
    """The system identifier of a PostgreSQL cluster, the same over every socket, port and host name; host and port if
    the user may not read it."""
    with connection.cursor() as cursor, connection.transaction():
        allowed = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
        if cursor.execute(allowed).fetchone()[0]:
            return str(cursor.execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0])
    return f"{connection.info.host}:{connection.info.port}"
