"""Statements as tools and people write them, and a table of real flights that they are about."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
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
    return [
        Asked(tool=form["tool"], source=form["source"], **each) for form in forms for each in form["statements"]
    ]


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
    hours = pc.add(
        pc.strptime(
            pc.binary_join_element_wise(*(pc.cast(chosen[name], pa.string()) for name in ("year", "month", "day")), "-"),
            "%Y-%m-%d",
            "us",
        ),
        pc.multiply(pc.cast(chosen["hour"], pa.duration("s")), 3600),
    )
    time_hour = hours.cast(pa.timestamp("us"))
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
