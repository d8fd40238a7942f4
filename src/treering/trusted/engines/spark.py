"""Spark: tables of a caller's session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from treering.trusted.dialect import Dialect
from treering.trusted.engines.spelling import Column, Kind, Spelling
from treering.trusted.rows.typed import EARLY, LATE


def _placed(value: str, cuts: Sequence[str]) -> str:
    """By bisection: a CASE of many arms is too long for Spark's compiler."""
    steps = ", ".join(str(2**power) for power in reversed(range(len(cuts).bit_length())))
    found = f"element_at(array({', '.join(cuts)}), place + step)"
    fits = f"place + step <= {len(cuts)} AND {value} >= {found}"
    return f"aggregate(array({steps}), 0, (place, step) -> CASE WHEN {fits} THEN place + step ELSE place END)"


SPELLING: Final = Spelling(
    dialect=Dialect(
        quote="`",
        division="({}) DIV {}",
        moment="{}",
        month="month(date_add(DATE'0001-01-01', CAST({} AS INT)))",
        text="X'{}'",
        place=_placed,
        item="element_at(array({}), {} + 1)",
    ),
    bytes="CAST({} AS BINARY)",
    matches="({} RLIKE '{}')",
    extracted="regexp_extract({}, '{}', 1)",
    cast="TRY_CAST({} AS {})",
    string="STRING",
    days="CAST(unix_date(TRY_CAST({} AS DATE)) AS BIGINT)",
)

_DAY: Final = 86_400_000_000
_FIRST, _AFTER = -719_162, 2_932_897
"""The days since 1970 of the first day of the year 1, and of the year 10000."""
_REAL: Final = "CASE WHEN NOT isnan({0}) THEN CAST({0} AS DOUBLE) END"
_DATE: Final = (
    f"CASE WHEN unix_date({{0}}) < {_FIRST} THEN {EARLY} WHEN unix_date({{0}}) >= {_AFTER} THEN {LATE} "
    f"ELSE CAST(unix_date({{0}}) AS BIGINT) * {_DAY} END"
)
_CLOCK: Final = "(hour({0}) * 60 + minute({0})) * 60000000L + CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT)"
_MOMENT: Final = f"CAST(unix_date(CAST({{0}} AS DATE)) AS BIGINT) * {_DAY} + {_CLOCK}"

_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "void": ("null", "{0}"),
    "string": ("text", "{0}"),
    "boolean": ("boolean", "{0}"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ("integer", "{0}")),
    **dict.fromkeys(("float", "double"), ("real", _REAL)),
    "date": ("date", _DATE),
    "timestamp_ntz": ("moment", _MOMENT),
    "timestamp": ("instant", "unix_micros({0})"),
}


def column_of(kind: str) -> Column:
    """The column of a type, by its name."""
    if kind in _KINDS:
        return Column(_KINDS[kind][0], kind, _KINDS[kind][1])
    if kind.startswith(("char(", "varchar(", "string ")):
        return Column("text", kind)
    return (
        Column("real", kind, "CAST({0} AS DOUBLE)")
        if kind.startswith("decimal(")
        else Column("other", kind.partition("<")[0])
    )


class Spark:
    """A session of Spark."""

    spelling: Final = SPELLING

    def __init__(self, session: Any) -> None:
        self._session = session

    def columns(self, rows: str) -> dict[str, Column]:
        """See `Connection`."""
        fields = self._session.sql(f"SELECT * FROM {rows} AS t").schema.fields
        return {each.name: column_of(each.dataType.simpleString()) for each in fields}

    def fetch(self, text: str) -> pa.Table:
        """See `Connection`. (By Arrow: Spark's other ways go through pandas, or value by value.)"""
        return self._session.sql(text).toArrow()
