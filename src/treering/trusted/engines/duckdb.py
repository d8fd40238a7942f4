"""DuckDB: tables of its files, Parquet and CSV files, and tables on a caller's connection."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from treering.trusted.dialect import Dialect
from treering.trusted.engines.spelling import Column, Kind, Spelling, clipped
from treering.trusted.rows.typed import EARLY, LATE

UNTRUSTED: Final = "statistics_propagation"
"""The optimiser of DuckDB that is off where rows are counted. It believes the statistics of Parquet files, which leave
NaN out: a comparison that only NaN fulfils would be taken for one that no row does."""

SETTINGS: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "disabled_optimizers": UNTRUSTED,
}
"""DuckDB downloads nothing, loads no code from its folder of extensions, and reads every value."""

SPELLING: Final = Spelling(
    dialect=Dialect(moment="{}", text="unhex('{}')"),
    bytes="encode({})",
    matches="regexp_matches({}, '{}')",
    extracted="regexp_extract({}, '{}', 1)",
    cast="TRY_CAST({} AS {})",
    days="(TRY_CAST({} AS DATE) - DATE '1970-01-01')",
)

_WHOLE: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE: Final = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_REAL: Final = "CASE WHEN NOT isnan({0}) THEN CAST({0} AS DOUBLE) END"
_SHORT: Final = 15
"""Decimals of up to this many digits are divided exactly; others, which DuckDB rounds twice, are read as texts."""
_LATER: Final = "CAST({0} AS TIMESTAMP_NS) > TIMESTAMP_NS '1970-01-01'"
_NANOSECONDS: Final = (  # They are null where they are infinite.
    "CASE WHEN epoch_ns({0}) IS NOT NULL THEN (epoch_ns({0}) - (epoch_ns({0}) % 1000 + 1000) % 1000) // 1000 "
    f"WHEN {_LATER} THEN {LATE} WHEN {{0}} IS NOT NULL THEN {EARLY} END"
)
_DATE: Final = clipped("date", "({0} - DATE '1970-01-01') * 86400000000")
_MOMENT, _INSTANT = (clipped(kind, "epoch_us({0})") for kind in ("moment", "instant"))

_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    '"NULL"': ("null", "{0}"),
    "VARCHAR": ("text", "{0}"),
    "BOOLEAN": ("boolean", "{0}"),
    **dict.fromkeys(_WHOLE, ("integer", "{0}")),
    **dict.fromkeys(_WIDE, ("wide", "{0}")),
    "FLOAT": ("real", _REAL),
    "DOUBLE": ("real", _REAL),
    "DATE": ("date", _DATE),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), ("moment", _MOMENT)),
    "TIMESTAMP_NS": ("moment", _NANOSECONDS),
    "TIMESTAMP WITH TIME ZONE": ("instant", _INSTANT),
    "TIMESTAMPTZ_NS": ("instant", _NANOSECONDS),
}


def column_of(kind: str) -> Column:
    """The column of a type, by its name. (The name of an enumeration lists its values, which no message shows.)"""
    if kind in _KINDS:
        return Column(_KINDS[kind][0], kind.strip('"'), _KINDS[kind][1])
    if kind.startswith("ENUM("):
        return Column("text", "ENUM", "CAST({0} AS VARCHAR)")
    if decimal := re.fullmatch(r"DECIMAL\(([0-9]+),[0-9]+\)", kind):
        short = int(decimal[1]) <= _SHORT
        return Column("real", kind, "CAST({0} AS DOUBLE)" if short else "CAST(CAST({0} AS VARCHAR) AS DOUBLE)")
    return Column("other", kind.partition("(")[0])


class DuckDB:
    """A connection to DuckDB. ``fields``: all columns are texts of a file without types."""

    spelling: Final = SPELLING

    def __init__(self, connection: Any, *, fields: bool = False) -> None:
        self._connection, self._fields = connection, fields

    def columns(self, rows: str) -> dict[str, Column]:
        """See `Connection`."""
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {rows} AS t").fetchall()
        if self._fields:
            return {name: Column("field", "text") for name, *_ in described}
        return {name: column_of(kind) for name, kind, *_ in described}

    def fetch(self, text: str) -> pa.Table:
        """See `Connection`."""
        return self._connection.sql(text).to_arrow_table()
