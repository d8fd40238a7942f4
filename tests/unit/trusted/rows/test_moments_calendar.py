"""Dates and timestamps as codes, against Python's own calendar and time zones."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from support.coded import code_of, codes_of
from treering.domain.calendar import Dated, DatePart, Dates, dates
from treering.trusted.rows.moments import (
    EPOCH,
    FIRST,
    LAST,
    civil_number,
    month_of,
    number,
    weekday_of,
)

ZONES: Final = ("America/New_York", "Asia/Tokyo", "Europe/Lisbon", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")
UNITS: Final = ("day", "week", "month", "quarter", "year")
PARTS: Final = ("hour", "weekday", "month")


def moments(count: int, first: int, last: int, seed: int = 1) -> list[datetime]:
    """Random moments between two years, and the edges of the hours, days and years next to some of them."""
    generator = np.random.default_rng(seed)
    begin, end = datetime(first, 1, 1), datetime(last, 12, 31, 23, 59, 59, 999_999)
    drawn = [begin + timedelta(microseconds=int(each)) for each in generator.integers(0, _micros(end - begin), count)]
    hours = [each.replace(minute=0, second=0, microsecond=0) for each in drawn]
    days = [each.replace(hour=0) for each in hours]
    years = [each.replace(month=1, day=1) for each in days]
    edges = [*hours, *days, *years]
    return [begin, end, *drawn, *edges, *(max(begin, each - timedelta(microseconds=1)) for each in edges)]


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


def expected(attribute: Dated, local: datetime | date | None) -> int:
    """The code of a local time, by Python."""
    missing = attribute.missing_code
    assert missing is not None
    if local is None:
        return missing
    day = local.date() if isinstance(local, datetime) else local
    if isinstance(attribute, Dates):
        place = bisect_right(attribute.edges, day) - 1
        return attribute.regular if place < 0 else place + (place == attribute.regular)
    assert isinstance(attribute, DatePart)
    hour = local.hour if isinstance(local, datetime) else 0
    return {"hour": hour, "weekday": day.weekday(), "month": day.month - 1}[attribute.part]


def attributes(**given: Any) -> list[Dated]:
    return [
        *(dates("1999-12-30", "2013-03-10", by=unit, **given) for unit in UNITS),
        *(dates(part=part, **given) for part in PARTS),
    ]


def test_numbers_of_days() -> None:
    """Every day of the years around a leap year that is one, one that is none, and the first and the last there are."""
    assert (number(date(1, 1, 1)), number(date(1970, 1, 1)), number(date(9999, 12, 31))) == (FIRST, EPOCH, LAST)
    for year in (1, 4, 1599, 1600, 1899, 1900, 1970, 1999, 2000, 2001, 9996, 9999):
        day = date(year, 1, 1)
        while day.year == year:
            assert civil_number(day.year, day.month, day.day, int(day.month < 3)) == number(day)
            assert weekday_of(number(day)) == day.weekday()
            assert (month_of(number(day)) + 2) % 12 + 1 == day.month
            if day == date.max:
                break
            day += timedelta(days=1)


def test_months_and_weekdays_of_every_day_of_four_centuries() -> None:
    """Months count from March on, and from 0 to 11: where they are used, a month below 0 might be rounded away."""
    days = np.arange(number(date(1899, 1, 1)), number(date(2301, 1, 1)))
    calendar = (days - EPOCH).astype("datetime64[D]")
    months = calendar.astype("datetime64[M]").astype(np.int64)
    assert np.array_equal(month_of(days), (months - 2) % 12)
    assert np.array_equal(weekday_of(days), (days - EPOCH + 3) % 7)
    dated = calendar - calendar.astype("datetime64[M]")
    early = (months % 12 < 2).astype(np.int64)
    assert np.array_equal(civil_number(1970 + months // 12, months % 12 + 1, dated.astype(np.int64) + 1, early), days)


KINDS: Final = [*(pa.timestamp(unit) for unit in ("s", "ms", "us")), pa.date32(), pa.date64()]


@pytest.mark.parametrize("attribute", attributes(), ids=[*UNITS, *PARTS])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_dates_and_local_times(attribute: Dated, kind: pa.DataType) -> None:
    given = [*moments(100, 1, 9999), *moments(100, 1999, 2013), None]
    if pa.types.is_date(kind):
        values: list[Any] = [None if each is None else each.date() for each in given]
    else:
        values = [None if each is None else each.replace(microsecond=0) for each in given]
    found = codes_of(attribute, pa.array(values, kind))
    assert found.tolist() == [expected(attribute, each) for each in values]


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("zone", ZONES)
def test_instants_are_dated_by_the_zone(zone: str, unit: str) -> None:
    """Years whose rules Python has tables for, and later ones, in which they repeat."""
    given = [each.replace(tzinfo=UTC) for each in [*moments(150, 1900, 2261), *moments(150, 1999, 2013)]]
    column = pa.array(given, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, "UTC"))
    local = [each.astimezone(ZoneInfo(zone)) for each in given]
    for attribute in attributes(tz=zone):
        assert codes_of(attribute, column).tolist() == [expected(attribute, each) for each in local]


@pytest.mark.parametrize("zone", ZONES)
def test_instants_far_from_now(zone: str) -> None:
    given = [each.replace(tzinfo=UTC) for each in [*moments(80, 2, 1899), *moments(80, 2300, 9998)]]
    local = [each.astimezone(ZoneInfo(zone)) for each in given]
    for attribute in attributes(tz=zone):
        found = codes_of(attribute, pa.array(given, pa.timestamp("us", "UTC")))
        assert found.tolist() == [expected(attribute, each) for each in local]


def test_the_first_and_the_last_instants() -> None:
    """What a zone puts into the year 0 or 10000 has no hour; for periods it lies before or after all."""
    ends = pa.array([datetime(1, 1, 1), datetime(9999, 12, 31, 23)], pa.timestamp("s", "UTC"))
    beyond = pa.array([-(2**40), 2**40], pa.int64()).cast(pa.timestamp("s", "UTC"))
    for zone, hours in (("America/New_York", [None, 18]), ("Asia/Tokyo", [9, None])):
        hour = dates(part="hour", tz=zone)
        assert codes_of(hour, ends).tolist() == [hour.missing_code if each is None else each for each in hours]
        assert set(codes_of(hour, beyond)) == {hour.missing_code}
        years = dates("1999-01-01", "2013-12-31", by="year", tz=zone)
        for column in (ends, beyond):
            assert codes_of(years, column).tolist() == [years.regular, years.regular + 1]


def test_texts() -> None:
    texts = {
        "2013-03-10": datetime(2013, 3, 10),
        "2013-03-10T11:12": datetime(2013, 3, 10, 11),
        "2013-03-10 11:12:13": datetime(2013, 3, 10, 11),
        "2013-03-10 11:12:13.123456789": datetime(2013, 3, 10, 11),
        "2012-02-29": datetime(2012, 2, 29),
        "2000-02-29T23:59:59": datetime(2000, 2, 29, 23),
        "0001-01-01": datetime(1, 1, 1),
        "9999-12-31T23:59": datetime(9999, 12, 31, 23),
        **dict.fromkeys(["", "x", "2013-02-29", "1900-02-29", "0000-01-01", "2013-04-31", "2013-01-01T24:00"]),
        **dict.fromkeys(["2013-01-01\n", " 2013-01-01", "2013-1-1", "20130101", "2013-01-01T23:60", "2013-13-01"]),
        **dict.fromkeys(["2013-03-10T11:12Z", "2013-03-10T11:12+05:30"]),  # For want of a zone to date them by.
    }
    column = pa.array([*texts, None, *texts])
    for attribute in attributes():
        codes = [expected(attribute, each) for each in texts.values()]
        assert codes_of(attribute, column).tolist() == [*codes, attribute.missing_code, *codes]
    nothing = pa.array([None, None], pa.string())
    assert set(codes_of(attributes()[0], nothing)) == {attributes()[0].missing_code}


@pytest.mark.parametrize("zone", ZONES)
def test_texts_with_an_offset_are_instants(zone: str) -> None:
    texts = {
        "2013-03-10T11:12Z": datetime(2013, 3, 10, 11, 12, tzinfo=UTC),
        "2013-03-10T23:30:00-08:00": datetime(2013, 3, 11, 7, 30, tzinfo=UTC),
        "2013-03-10T23:30:00-0830": datetime(2013, 3, 11, 8, tzinfo=UTC),
        "2012-02-29 23:59:59.9+05": datetime(2012, 2, 29, 18, 59, 59, tzinfo=UTC),
        "2012-03-01 00:10+05:45": datetime(2012, 2, 29, 18, 25, tzinfo=UTC),
        "1950-06-01T00:00:00+14:00": datetime(1950, 5, 31, 10, tzinfo=UTC),
        "2013-03-10T11:12+15:00": None,
    }
    local = [None if each is None else each.astimezone(ZoneInfo(zone)) for each in texts.values()]
    for attribute in attributes(tz=zone):
        codes = [expected(attribute, each) for each in local]
        assert codes_of(attribute, pa.array([*texts])).tolist() == codes
        plain = codes_of(attribute, pa.array(["2013-03-10T11:12"]))  # Already local.
        assert plain.tolist() == [expected(attribute, datetime(2013, 3, 10, 11))]


def test_single_values_of_python() -> None:
    """What Python has one of: instants only where there is a zone to date them by."""
    plain, zoned = dates(part="hour"), dates(part="hour", tz="Asia/Tokyo")
    east = timezone(timedelta(hours=5))
    values: list[tuple[Any, int | None, int | None]] = [
        (datetime(2013, 3, 10, 11, 12), 11, 11),
        (datetime(2013, 3, 10, 11, 12, tzinfo=UTC), None, 20),
        (datetime(2013, 3, 10, 11, 12, tzinfo=east), None, 15),
        (date(2013, 3, 10), 0, 0),
        (np.datetime64("2013-03-10T11:12"), 11, 11),
        (np.datetime64("NaT"), None, None),
        ("2013-03-10T11:12", 11, 11),
        ("2013-03-10T11:12Z", None, 20),
        *((value, None, None) for value in (None, 11, 11.5, True, b"2013-03-10", "\udcff", "x")),
    ]
    for value, alone, there in values:
        assert code_of(plain, value) == (plain.missing_code if alone is None else alone)
        assert code_of(zoned, value) == (zoned.missing_code if there is None else there)
