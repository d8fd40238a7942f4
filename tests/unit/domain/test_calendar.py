"""The calendar: periods that follow each other without gaps, what is written is read back, parts, time zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.domain.attribute import ABOVE, BELOW
from treering.domain.calendar import (
    FIRST_YEAR,
    LAST_YEAR,
    PARTS,
    UNITS,
    DatePart,
    Dates,
    ceiling,
    dates,
    extracted,
    floor,
    following,
    read_moment,
    read_period,
    written,
)
from treering.errors import SchemaError

DAYS = st.dates(date(FIRST_YEAR, 1, 1), date(LAST_YEAR, 12, 31))


@given(day=DAYS, unit=st.sampled_from(UNITS))
def test_every_day_lies_in_one_period(day: date, unit: str) -> None:
    start = floor(unit, day)
    assert start <= day < following(unit, start)
    assert floor(unit, start) == start
    assert floor(unit, following(unit, start) - timedelta(days=1)) == start


@given(day=DAYS, unit=st.sampled_from(UNITS))
def test_a_period_is_read_as_it_is_written(day: date, unit: str) -> None:
    start = floor(unit, day)
    assert read_period(written(unit, start)) == (unit, start)


@given(moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), unit=st.sampled_from(UNITS))
def test_the_first_beginning_that_is_not_before_a_moment(moment: datetime, unit: str) -> None:
    begin = ceiling(unit, moment)
    assert begin >= moment
    assert floor(unit, begin.date()) == begin.date()
    assert begin.time() == datetime.min.time()
    assert begin == moment or floor(unit, (begin - timedelta(microseconds=1)).date()) == floor(unit, moment.date())


def test_periods_at_the_turn_of_years() -> None:
    assert written("week", date(2020, 12, 28)) == "2020-W53"
    assert floor("week", date(2021, 1, 3)) == date(2020, 12, 28)
    assert following("quarter", date(2020, 10, 1)) == date(2021, 1, 1)
    assert following("day", date(2020, 2, 28)) == date(2020, 2, 29)
    assert following("day", date(2100, 2, 28)) == date(2100, 3, 1)


def test_what_extract_gives() -> None:
    sunday = date(2013, 3, 31)
    expected = {"day": 31, "dow": 0, "isodow": 7, "month": 3, "quarter": 1, "year": 2013}
    assert {part: extracted(part, sunday) for part in expected} == expected


@pytest.mark.parametrize("text", ["2013-13", "2013-02-30", "2013-W54", "2013-Q5", "13", "2013-1-1", "yesterday", ""])
def test_what_is_no_period(text: str) -> None:
    assert read_period(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2013-03-01", date(2013, 3, 1)),
        (" 2013-03-01 ", date(2013, 3, 1)),
        ("2013-03-01T12:30", datetime(2013, 3, 1, 12, 30)),
        ("2013-03-01 12:30:59.123456789", datetime(2013, 3, 1, 12, 30, 59, 123456)),
        ("2013-03-01T12:30:00Z", datetime(2013, 3, 1, 12, 30, tzinfo=UTC)),
        ("2013-02-30", None),
        ("2013-03-01T25:00", None),
        ("1.3.2013", None),
        ("2013-03-01T12:30:00 and more", None),
    ],
)
def test_moments_are_read_as_iso_8601_writes_them(text: str, meant: date | None) -> None:
    assert read_moment(text) == meant


def test_dates_beyond_the_ends_have_a_cell_each() -> None:
    attribute = dates("2013-01-15", "2013-03-10", by="month")
    assert isinstance(attribute, Dates)
    assert attribute.edges == tuple(date(2013, month, 1) for month in (1, 2, 3, 4))
    assert [attribute.code(text) for text in ("2013-01-01", "2013-02-28", "2013-03-31")] == [0, 1, 2]
    assert attribute.side("2012-12-31") is BELOW
    assert attribute.side("2013-04-01") is ABOVE
    assert attribute.code(date(1, 1, 1)) == attribute.below_code
    assert attribute.code(datetime(9999, 12, 31, 23, 59)) == attribute.above_code
    assert attribute.size == 3 + 3


@given(day=st.dates(date(2012, 1, 1), date(2014, 12, 31)), unit=st.sampled_from(UNITS))
def test_the_code_of_a_date_is_that_of_its_period(day: date, unit: str) -> None:
    attribute = dates("2013-01-01", "2013-12-31", by=unit)
    assert isinstance(attribute, Dates)
    code = attribute.code(day)
    if attribute.edges[0] <= day < attribute.edges[-1]:
        assert attribute.value(code) == floor(unit, day)
        assert attribute.label(code) == written(unit, floor(unit, day))
    else:
        assert code == (attribute.below_code if day < attribute.edges[0] else attribute.above_code)


def test_an_instant_is_dated_by_the_attribute_s_zone() -> None:
    instant = datetime(2013, 1, 2, 3, tzinfo=UTC)
    here = dates("2013-01-01", "2013-01-31", tz="America/New_York")
    assert here.code(instant) == 0
    assert dates("2013-01-01", "2013-01-31", tz="UTC").code(instant) == 1


def test_parts_of_a_moment() -> None:
    moment = datetime(2013, 3, 31, 17, 59)
    found = {part: DatePart(missing=True, part=part).part_of(moment) for part in PARTS}
    assert found == {"hour": 17, "weekday": 7, "month": 3}
    hours = dates(part="hour")
    assert [hours.code(hour) for hour in (0, 23)] == [0, 23]
    assert hours.missing_code == 24


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "a first and a last date, or a part"),
        ({"first": "2013-01-02", "last": "2013-01-01"}, "must not be after the last"),
        ({"first": "2013-01-01", "last": "2013-12-31", "by": "fortnight"}, "by is one of day, week"),
        ({"first": "0001-01-01", "last": "2013-12-31"}, "years from 2 to 9998"),
        ({"first": "tomorrow", "last": "2013-12-31"}, "first is a date such as"),
        ({"part": "minute"}, "part is one of hour, weekday, month"),
        ({"part": "hour", "by": "day"}, "a part has no ends"),
        ({"first": "2013-01-01", "last": "2013-12-31", "tz": "Mars/Base"}, "is no time zone"),
        ({"first": "2013-01-01", "last": "9000-12-31"}, "an attribute has at most"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        dates(**given)
