"""Dates in columns: days are numbered as the calendar has them, and every kind of column has the same codes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from support.coded import code_of, codes_of
from treering.domain.calendar import DatePart, Dates, dates
from treering.trusted.rows import moments
from treering.trusted.rows.moments import FIRST, LAST, civil_number, month_of

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
MONTHS = dates("1990-01-01", "2030-12-31", by="month")
DAYS_OF_2013 = dates("2013-01-01", "2013-12-31")


@given(day=st.dates())
def test_days_are_numbered_one_after_the_other(day: date) -> None:
    assert moments.number(day) == civil_number(day.year, day.month, day.day, int(day.month < 3))
    assert (month_of(moments.number(day)) + 2) % 12 + 1 == day.month
    assert moments.weekday_of(moments.number(day)) == day.weekday()
    assert FIRST <= moments.number(day) <= LAST


def test_the_ends_of_the_calendar() -> None:
    assert (moments.number(date.min), moments.number(date.max)) == (FIRST, LAST)
    assert moments.number(date(1970, 1, 1)) == moments.EPOCH


@pytest.mark.parametrize("zone", ZONES)
def test_a_zone_s_offsets_are_those_of_its_database(zone: str) -> None:
    changes, found = moments.offsets(zone)
    assert len(found) == len(changes) + 1
    assert list(changes) == sorted(changes)
    for second in np.random.default_rng(1).integers(-5_000_000_000, 15_000_000_000, 300):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(second))
        there = moment.astimezone(ZoneInfo(zone)).utcoffset()
        assert there is not None
        assert found[int(np.searchsorted(changes, second, side="right"))] == there.total_seconds()


@given(
    moment=st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)), zone=st.sampled_from(ZONES)
)
def test_an_instant_has_the_date_and_hour_of_the_clocks_there(moment: datetime, zone: str) -> None:
    local = moment.astimezone(ZoneInfo(zone))
    there = dates("1990-01-01", "2030-12-31", by="month", tz=zone)
    hours = dates(part="hour", tz=zone)
    assert code_of(there, moment) == MONTHS.code(local.replace(tzinfo=None))
    assert code_of(hours, moment) == local.hour
    assert code_of(hours, moment.isoformat()) == local.hour


def as_columns(moment: datetime) -> list[pa.Array]:
    """The same moment without a zone, in every type that holds it."""
    units = [pa.array([moment], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    texts = [pa.array([text]) for text in (str(moment), moment.isoformat(), moment.isoformat() + ".123456789")]
    return [*units, *texts, pa.array([moment.isoformat()], pa.large_string())]


@given(moment=st.datetimes(datetime(1680, 1, 1), datetime(2260, 1, 1)).map(lambda each: each.replace(microsecond=0)))
@settings(deadline=None)
def test_every_type_of_column_has_the_same_codes(moment: datetime) -> None:
    for attribute in (MONTHS, DAYS_OF_2013, dates(part="hour"), dates(part="weekday"), dates(part="month")):
        expected = attribute.code(attribute.part_of(moment) if isinstance(attribute, DatePart) else moment)
        assert {int(codes_of(attribute, column)[0]) for column in as_columns(moment)} == {expected}
        assert code_of(attribute, moment) == expected


@given(day=st.dates())
def test_dates_have_the_codes_of_their_midnight(day: date) -> None:
    for attribute in (MONTHS, dates(part="weekday"), dates(part="month")):
        midnight = datetime(day.year, day.month, day.day)
        expected = attribute.code(attribute.part_of(midnight) if isinstance(attribute, DatePart) else day)
        columns = [pa.array([day]), pa.array([day], pa.date64()), pa.array([day.isoformat()])]
        assert {int(codes_of(attribute, column)[0]) for column in columns} == {expected}
    assert int(codes_of(dates(part="hour"), pa.array([day]))[0]) == 0


CORRUPT = [
    "",
    "today",
    "2013-02-29",
    "2013-13-01",
    "2013-01-01T24:00",
    "0000-01-01",
    "2013-1-1",
    "2013-01-01T00:00:00Z",
]


@pytest.mark.parametrize("text", CORRUPT)
def test_what_is_no_valid_date_is_missing(text: str) -> None:
    for attribute in (MONTHS, DAYS_OF_2013, dates(part="hour")):
        assert code_of(attribute, text) == attribute.missing_code
        found = codes_of(attribute, pa.array([text, None, "2013-03-01"]))
        assert found[:2].tolist() == [attribute.missing_code] * 2
        assert found[2] != attribute.missing_code


@pytest.mark.parametrize("value", [None, 7, 2.5, b"2013-01-01", object(), "\udc80", float("nan")])
def test_what_is_no_date_at_all_is_missing(value: Any) -> None:
    assert code_of(DAYS_OF_2013, value) == DAYS_OF_2013.missing_code


def test_what_lies_beyond_the_calendar_lies_outside_and_has_no_parts() -> None:
    far = pa.array([-(2**62), 2**62], pa.timestamp("s"))
    assert isinstance(MONTHS, Dates)
    assert codes_of(MONTHS, far).tolist() == [MONTHS.below_code, MONTHS.above_code]
    zoned = dates("1990-01-01", "2030-12-31", by="month", tz="UTC")
    assert codes_of(zoned, far.cast(pa.timestamp("s", "UTC"))).tolist() == codes_of(MONTHS, far).tolist()
    hours = dates(part="hour")
    assert codes_of(hours, far).tolist() == [hours.missing_code] * 2


def test_an_offset_in_a_text_shifts_it() -> None:
    hours = dates(part="hour", tz="UTC")
    texts = ["2013-01-01T00:30:00+01:00", "2013-01-01T00:30:00-0530", "2013-01-01T00:30Z", "2013-01-01T00:30+14"]
    assert codes_of(hours, pa.array(texts)).tolist() == [23, 6, 0, 10]


def test_columns_of_no_rows_and_of_nulls() -> None:
    assert codes_of(MONTHS, pa.array([], pa.string())).tolist() == []
    assert codes_of(MONTHS, pa.array([None], pa.string())).tolist() == [MONTHS.missing_code]
    assert codes_of(MONTHS, pa.array([None], pa.timestamp("us"))).tolist() == [MONTHS.missing_code]


def test_which_columns_may_hold_dates() -> None:
    kinds = [pa.date32(), pa.date64(), pa.timestamp("ns", "UTC"), pa.string(), pa.large_string(), pa.string_view()]
    assert all(map(moments.is_dated, kinds))
    assert not any(map(moments.is_dated, [pa.int64(), pa.float64(), pa.bool_(), pa.binary(), pa.time32("s")]))
