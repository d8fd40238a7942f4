"""Dates in an engine have the codes that typed rows have: in DuckDB, and by the arithmetic made for Spark.

Spark's functions are lent to DuckDB, so that its expressions can be computed here without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
import pytest

from support.coded import codes_of
from treering.domain.calendar import Dated, Dates, dates
from treering.trusted.engines import moments
from treering.trusted.engines.moments import dated_code, has_zone, is_dated

LENT: Final = (
    "CREATE MACRO from_utc_timestamp(moment, zone) AS timezone('UTC', timezone(zone, moment))",
    "CREATE MACRO unix_seconds(moment) AS CAST(floor(epoch(moment)) AS BIGINT)",
    "CREATE MACRO to_timestamp_ntz(written) AS CAST(written AS TIMESTAMP)",
)
"""What Spark has of its own."""

ENGINES: Final = ["duckdb", "pyspark"]
PARTS: Final = ("hour", "weekday", "month")
PERIODS: Final = {
    "day": ("2012-02-28", "2012-03-02"),
    "week": ("2012-12-31", "2013-03-10"),
    "month": ("2012-11-01", "2013-03-31"),
    "quarter": ("2011-10-01", "2013-03-31"),
    "year": ("2011-01-01", "2013-12-31"),
}


@pytest.fixture(scope="module")
def connections() -> Iterator[dict[str, Any]]:
    made = {engine: ibis.duckdb.connect() for engine in ENGINES}
    for macro in LENT:
        made["pyspark"].raw_sql(macro).fetchall()
    yield made
    for connection in made.values():
        connection.disconnect()


@pytest.fixture
def connection(connections: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    """The connection of the engine that a test is about."""
    return connections[request.node.callspec.params.get("engine", "duckdb")]


def attributes(zone: str | None) -> dict[str, Dated]:
    periods = {unit: dates(*ends, by=unit, tz=zone) for unit, ends in PERIODS.items()}
    return {**periods, **{part: dates(part=part, tz=zone) for part in PARTS}}


def check(connection: Any, engine: str, column: pa.Array, attribute: Dated) -> None:
    """Compare the codes of a column by an engine's expressions with those of typed rows."""
    table = ibis.memtable(pa.table({"x": column}))
    found = connection.to_pyarrow(table.select(code=dated_code(engine, attribute, table.x)))
    assert found["code"].to_pylist() == codes_of(attribute, column).tolist()


def edges() -> list[datetime]:
    """Where each period begins and ends, and one microsecond before."""
    days = [edge for each in attributes(None).values() if isinstance(each, Dates) for edge in each.edges]
    starts = [datetime(day.year, day.month, day.day) for day in sorted(set(days))]
    return [*starts, *(start - timedelta(microseconds=1) for start in starts)]


FAR: Final = [
    datetime(1, 1, 1),
    datetime(1, 1, 2, 3),
    datetime(4, 2, 29, 12),
    datetime(1600, 2, 29, 23, 59, 59, 999_999),
    datetime(1900, 3, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(2012, 2, 29, 0, 59, 59, 999_999),
    datetime(2012, 12, 31, 1),
    datetime(2013, 1, 6, 12, 30),
    datetime(2013, 3, 10, 2, 30),
    datetime(9999, 12, 30),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
]


@pytest.mark.parametrize("name", attributes(None))
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")], ids=str)
def test_local_dates_and_times_have_the_codes_of_typed_rows(connection: Any, kind: pa.DataType, name: str) -> None:
    given = [*edges(), *FAR]
    values = [each.date() if pa.types.is_date(kind) else each for each in given]
    column = pa.array([*values, None], kind)
    check(connection, "duckdb", column, attributes(None)[name])


@pytest.mark.parametrize("engine", ENGINES, ids=["files", "cluster"])
@pytest.mark.parametrize("name", attributes(None))
def test_instants_have_the_codes_of_typed_rows(connection: Any, engine: str, name: str) -> None:
    zone = "Asia/Tokyo" if name in ("hour", "quarter") else "America/New_York"
    local = [each.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for each in edges()]
    turns = [datetime(2013, 11, 3, hour, 30, tzinfo=UTC) for hour in range(3, 9)]
    far = [each.replace(tzinfo=UTC) for each in FAR if each.year > 1900 or each.year == 1]
    column = pa.array([*local, *turns, *far, None], pa.timestamp("us", "UTC"))
    check(connection, engine, column, attributes(zone)[name])


TEXTS: Final = [
    *("", "x", "2013-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31"),
    *("2013-02-28T23:59:59.9999999", "2013-01-01 10:00:00.5", "2013-01-01 10:00", "2013-01-01\n", " 2013-01-01"),
    *("2013-01-01T24:00:00", "2013-01-01T23:60", "2013-W01", "20130101", "99999-01-01", "infinity", "2013-01-01T10"),
]
OFFSETS: Final = [
    *("2013-03-01T04:59:59Z", "2013-03-01T05:00:00Z", "2013-03-01 00:00:00+05:30", "2013-03-01T00:00-0830"),
    *("2013-03-01 00:00:00+05", "2013-03-01T00:00-08", "2013-03-01T00:00Z", "2013-03-01T04:59:59.999999999Z"),
    *("2013-11-03T05:30:00.25Z", "2013-11-03T06:30Z", "2013-01-01T10:00+15:00", "2012-12-31T23:15:10-0030"),
    *("9999-12-31T23:59:59.999999-14:00", "0001-01-01T00:00:00+14:00", "2012-02-28T18:45+13:45"),
]


@pytest.mark.parametrize(
    ("engine", "zone"),
    [("duckdb", None), ("duckdb", "America/New_York"), ("duckdb", "Asia/Tokyo"), ("pyspark", None)],
    ids=["files", "files in New York", "files in Tokyo", "cluster"],
)
@pytest.mark.parametrize("name", ["month", "hour"])
def test_texts_have_the_codes_of_typed_rows(connection: Any, engine: str, zone: str | None, name: str) -> None:
    """Those with an offset are instants, and without a zone to date them by they are no valid dates."""
    check(connection, engine, pa.array([*TEXTS, *OFFSETS, None]), attributes(zone)[name])


@pytest.mark.parametrize("name", ["day", "month", "hour", "weekday"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_what_lies_outside_the_calendar_is_before_or_after_all_and_has_no_parts(
    connection: Any, kind: str, name: str
) -> None:
    places = {"-infinity": 0, "0001-12-31 (BC)": 0, "10000-01-01": 1, "infinity": 1}
    connection.raw_sql(f"CREATE OR REPLACE TABLE far (place INT, x {kind})").fetchall()
    listed = ", ".join(f"({place}, '{text}')" for place, text in enumerate(places))
    connection.raw_sql(f"INSERT INTO far VALUES {listed}").fetchall()
    attribute, table = attributes("UTC" if kind == "TIMESTAMPTZ" else None)[name], connection.table("far")
    found = connection.to_pyarrow(table.select("place", code=dated_code("duckdb", attribute, table.x)))
    outside = (
        [attribute.regular + place for place in places.values()]
        if isinstance(attribute, Dates)
        else [attribute.missing_code] * 4
    )
    assert found.sort_by("place")["code"].to_pylist() == outside


@pytest.mark.parametrize("number", range(6))
def test_a_bisection_finds_the_value_behind_the_last_bound_that_is_not_above(connection: Any, number: int) -> None:
    bounds = [10 * place for place in range(number)]
    values = [moments._int(100 + place) for place in range(number + 1)]
    given = list(range(-1, 10 * number + 2))
    table = ibis.memtable(pa.table({"x": pa.array(given, pa.int64())}))
    found = connection.to_pyarrow(table.select(code=moments._bisect(bounds, values, table.x)))["code"].to_pylist()
    assert found == [100 + int(np.searchsorted(bounds, each, side="right")) for each in given]


def test_which_columns_may_hold_dates_and_which_hold_instants() -> None:
    zoned, local = dt.Timestamp(timezone="UTC"), dt.Timestamp()
    assert [is_dated(kind) for kind in (dt.date, local, zoned, dt.string)] == [True] * 4
    assert [is_dated(kind) for kind in (dt.int64, dt.float64, dt.boolean, dt.binary, dt.time)] == [False] * 5
    assert [has_zone(kind) for kind in (zoned, local, dt.date, dt.string)] == [True, False, False, False]


def test_a_day_as_a_literal_of_each_type() -> None:
    day = date(2013, 3, 10)
    for kind, zone in ((dt.Timestamp(), None), (dt.Timestamp(timezone="UTC"), "UTC")):
        start, end = moments._literal(kind, day), moments._literal(kind, day, end=True)
        assert start.type().timezone == end.type().timezone == zone
        assert start.op().value.replace(tzinfo=None) == datetime(2013, 3, 10)
        assert end.op().value.replace(tzinfo=None) == datetime(2013, 3, 10, 23, 59, 59, 999_999)
    assert moments._literal(dt.date, day, end=True).op().value == day
