"""Statements as tools and people write them, and a table of real flights that they are about."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import treering as tr
from support.exact_sql import Rows
from support.repository import ROOT
from treering.demo.flights import CARRIERS, ORIGINS, flights
from treering.shown import MARGIN

SCHEMA = tr.Schema(
    {
        "origin": tr.categories(*ORIGINS),
        "carrier": tr.categories(*CARRIERS),
        "month": tr.integers(1, 12),
        "day": tr.dates("2013-01-01", "2013-12-31", column="time_hour"),
        "hour": tr.dates(part="hour", column="time_hour"),
        "weekday": tr.dates(part="weekday", column="time_hour"),
        "dep_delay": tr.numbers(-100, 1400, step=1, edges=[0, 15, 60, 240]),
        "distance": tr.numbers(0, 5000, step=1, edges=[250, 500, 1000, 1500, 2500]),
        "cancelled": tr.categories(False, True),
    }
)

STEP = 60
"""Of each carrier's flights, every so many-th is in the table."""


@dataclass(frozen=True)
class Asked:
    """A statement of the corpus."""

    sql: str
    tool: str
    source: str
    duckdb: str | None = None
    empty: bool = False
    refused: str | None = None

    def __str__(self) -> str:
        return f"{self.tool}: {self.sql}"


def statements() -> list[Asked]:
    """The corpus."""
    with (ROOT / "tests" / "fixtures" / "statements.toml").open("rb") as file:
        forms: list[dict[str, Any]] = tomllib.load(file)["form"]
    return [Asked(tool=form["tool"], source=form["source"], **each) for form in forms for each in form["statements"]]


def answered() -> list[Asked]:
    """Those that are answered, but for an EXPLAIN."""
    return [each for each in statements() if each.refused is None and each.duckdb != ""]


@cache
def table() -> pa.Table:
    """The rows: public, with each carrier and each day among them. A timestamp is in New York's time."""
    every = flights()
    carriers = np.asarray(every["carrier"])
    places = np.sort(np.concatenate([np.flatnonzero(carriers == each)[::STEP] for each in CARRIERS]))
    chosen = every.take(pa.array(places))
    moments = [
        datetime(2013, month, day, hour)
        for month, day, hour in zip(*(chosen[name].to_pylist() for name in ("month", "day", "hour")), strict=True)
    ]
    time_hour = pa.array(moments, type=pa.timestamp("us"))
    return pa.table(
        {
            **{name: chosen[name] for name in ("origin", "carrier", "month", "hour", "distance")},
            "time_hour": time_hour,
            "day": time_hour.cast(pa.date32()),
            "weekday": pc.day_of_week(time_hour, count_from_zero=False),
            "dep_delay": chosen["delay"],
            "cancelled": pc.is_null(chosen["delay"]),
        }
    )


@cache
def rows() -> Rows:
    """The rows, for exact answers."""
    return Rows(SCHEMA, table())


@cache
def database() -> duckdb.DuckDBPyConnection:
    """DuckDB with the rows, under the names that tools give them."""
    connection = duckdb.connect(":memory:")
    connection.register("given", table())
    connection.execute("CREATE TABLE flights AS SELECT * FROM given")
    for schema in ("public", "dbo"):
        connection.execute(f"CREATE SCHEMA {schema}; CREATE VIEW {schema}.flights AS SELECT * FROM main.flights")
    return connection


def truth(asked: Asked) -> pa.Table:
    """What DuckDB says on the rows."""
    return database().sql(asked.duckdb or asked.sql).to_arrow_table()


def far(ours: pa.Table, theirs: pa.Table, asked: Asked) -> list[tuple[Any, ...]]:
    """What in a result is not in the truth: numbers further off than their margins, labels and rows that differ.

    Each is a row of ours, with the row of the truth or None.
    """
    noisy, found = _noisy(ours), []
    matched, rest = _matched(ours, theirs)
    for row, there in matched:
        if there is None:
            if not asked.empty or any(row[name] for name in noisy):
                found.append((row, None))
        elif any(off(row[name], there[name], row[f"{name}{MARGIN}"]) for name in noisy):
            found.append((row, there))
    return found + [(None, row) for row in rest]


def pairs(ours: pa.Table, theirs: pa.Table) -> list[tuple[tuple[Any, ...], Any, Any, Any]]:
    """Each noisy number that the truth has too: the labels of its row, itself, its margin and the true number."""
    matched, _ = _matched(ours, theirs)
    labels = [name for name in theirs.column_names if name not in _noisy(ours)]
    return [
        (tuple(_plain(row[each]) for each in labels), row[name], row[f"{name}{MARGIN}"], there[name])
        for row, there in matched
        for name in _noisy(ours)
        if there is not None and row[name] is not None and there[name] is not None
    ]


def _noisy(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if f"{name}{MARGIN}" in table.column_names]


def _matched(ours: pa.Table, theirs: pa.Table) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Each row of a result with the row of the truth that has its labels, or None; and the truth's other rows."""
    noisy = _noisy(ours)
    labels = [name for name in theirs.column_names if name not in noisy]
    place = {tuple(_plain(row[name]) for name in labels): row for row in theirs.to_pylist()}
    matched = [(row, place.pop(tuple(_plain(row[name]) for name in labels), None)) for row in ours.to_pylist()]
    return matched, list(place.values())


def off(value: Any, true: Any, margin: float | None) -> bool:
    """Whether a number is further from the truth than its margin."""
    if value is None or true is None:
        return (value is None) != (true is None)
    if isinstance(value, date) and isinstance(true, date):
        return abs((value - date(true.year, true.month, true.day)).days) > (margin or 0.0) + 1
    return abs(float(value) - float(true)) > (margin or 0.0) + 1e-9 * max(1.0, abs(float(true)))


def _plain(value: Any) -> Any:
    """A label to compare: a timestamp at midnight is its date, a whole number an integer."""
    if isinstance(value, datetime):
        return value.date()
    return float(f"{float(value):.9g}") if isinstance(value, int | float | Decimal) else value
