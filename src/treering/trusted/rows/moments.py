"""Dates and timestamps: every kind of column as local seconds since 1970, in integers.

Days are numbered from 1 March of the year 0 on, in the Gregorian calendar, so that every date from the year 1 on has a
positive number and no division is ever of a negative one.

An instant, which is a timestamp with a time zone or an offset, is dated by the attribute's ``tz``: its offsets, and
when they changed, are read from the time zone database of this process; an engine uses its own.

What is no valid date has no day; what lies outside the years 1 to 9999 lies before or after every period, and has no
hour, weekday or month.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Flags, Ints

DAY: Final = 86_400
HOUR: Final = 3_600
MICROSECONDS: Final = 10**6
"""In a second."""
EPOCH: Final = 719_468
"""The number of 1 January 1970."""
FIRST: Final = 306
"""The number of 1 January of the year 1."""
LAST: Final = 3_652_364
"""The number of 31 December 9999."""

_LEAP: Final = "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DAYS: Final = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
_OFFSET: Final = "(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
_DATE: Final = f"([0-9][0-9][0-9][0-9]-{_DAYS}|{_LEAP}-02-29)"
PATTERN: Final = f"^{_DATE}([T ]{_TIME}{_OFFSET}?)?$"
"""A valid date or timestamp, with or without an offset, as ISO 8601 writes them, but for the year 0."""
INSTANT: Final = f"^{_DATE}[T ]{_TIME}{_OFFSET}$"
"""One with an offset."""
NO_YEAR: Final = "^0000"

FAR: Final = 2**60
"""More seconds than there are."""

TRANSITIONS: Final = (1800, 2500)
"""The years in which a time zone's offsets are looked up. Before them the first one holds, and after them the rules of
the last four centuries of these, after which the calendar repeats itself."""
CYCLE: Final = 146_097 * DAY
"""The seconds of four centuries."""


def number(day: date) -> int:
    """The number of a day."""
    return day.toordinal() + FIRST - 1


def civil_number(year: Any, month: Any, day: Any, early: Any) -> Any:
    """The number of a day, given by its year (at least 1), month and day; ``early`` is 1 in January and February, and 0
    otherwise."""
    years = year - early
    months = month + early * 12 - 3
    return years * 365 + years // 4 - years // 100 + years // 400 + (months * 153 + 2) // 5 + day - 1


def month_of(days: Any) -> Any:
    """The month of a day: 0 is March, 11 February. (Each step uses the one before it twice at most: in an engine it is
    written out.)"""
    century = (days * 4 + 3) // 146_097
    of_century = days - century * 146_097 // 4
    of_year = of_century - (of_century * 4 + 3) // 1_461 * 1_461 // 4
    return (of_year * 5 + 2) // 153


def weekday_of(days: Any) -> Any:
    """The weekday of a day: 0 is Monday."""
    return (days + 2) % 7


Offsets: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=64)
def offsets(zone: str) -> Offsets:
    """When the offset of a time zone changed, in seconds since 1970, and the offsets before, between and after."""
    here, epoch = ZoneInfo(zone), datetime(1970, 1, 1, tzinfo=UTC)

    def offset(second: int) -> int:
        there = (epoch + timedelta(seconds=second)).astimezone(here).utcoffset()
        assert there is not None
        return round(there.total_seconds())

    begin, end = map(_second, TRANSITIONS)
    changes: list[int] = []
    found = [offset(begin)]
    for start in range(begin, end, 3 * DAY):  # No zone has changed its offset twice within three days.
        stop = start + 3 * DAY
        if offset(stop) != found[-1]:
            changes.append(_change(offset, start, stop))
            found.append(offset(stop))
    return tuple(changes), tuple(found)


def _second(year: int) -> int:
    """The beginning of a year in UTC, in seconds since 1970."""
    return (number(date(year, 1, 1)) - EPOCH) * DAY


RULED: Final = _second(TRANSITIONS[1])
"""From here on, the rules of the last four centuries hold."""


def _change(offset: Callable[[int], int], start: int, stop: int) -> int:
    """The first second at which the offset is that at ``stop``, and no longer that at ``start``."""
    after = offset(stop)
    return start + bisect_left(range(start, stop), True, key=lambda second: offset(second) == after)


# -- columns of Arrow --------------------------------------------------------------------------------------------------


def is_dated(kind: pa.DataType) -> bool:
    """Whether a column of this type may hold dates: dates, timestamps or texts."""
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind) or is_text(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def local_seconds(column: pa.Array, zone: str | None) -> tuple[Ints, Ints, Flags]:
    """The moment of each value as a clock in the zone shows it: seconds since 1970, the microseconds after them, and
    which values are valid. Values without a zone are taken as they are."""
    kind = column.type
    if is_text(kind):
        return _read_texts(column, zone)
    valid = np.asarray(column.is_valid())
    if pa.types.is_date32(kind):
        days = np.asarray(column.cast(pa.int32()).fill_null(0)).astype(np.int64)
        return days * DAY, np.zeros(len(days), dtype=np.int64), valid
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    raw = np.asarray(column.cast(pa.int64()).fill_null(0))
    number = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    seconds, rest = raw // number, raw % number
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        assert zone is not None
        seconds = in_zone(zone, seconds)
    return seconds, rest * MICROSECONDS // number, valid


def in_zone(zone: str, seconds: Ints) -> Ints:
    """Instants, in seconds since 1970, as a clock in a zone shows them; those outside the years 1 to 9999 are far out
    on their side."""
    changes, found = offsets(zone)
    low, high = (FIRST - EPOCH) * DAY, (LAST + 1 - EPOCH) * DAY
    inside = np.clip(seconds, low, high)
    looked_up = np.where(inside < RULED, inside, inside - ((inside - RULED) // CYCLE + 1) * CYCLE)
    inside += np.array(found)[np.searchsorted(np.array(changes, dtype=np.int64), looked_up, side="right")]
    return np.where(seconds < low, -FAR, np.where(seconds >= high, FAR, inside))


def _read_texts(column: pa.Array, zone: str | None) -> tuple[Ints, Ints, Flags]:
    """Texts as ISO 8601 writes dates and timestamps; others are not valid. Equal texts are read once."""
    encoded = column.cast(pa.string()).dictionary_encode()
    texts, places = encoded.dictionary, np.asarray(encoded.indices.fill_null(0))
    if len(texts) == 0:
        nothing = np.zeros(len(column), dtype=np.int64)
        return nothing, nothing, nothing.astype(np.bool_)
    fits = _matching(texts, PATTERN) & ~_matching(texts, NO_YEAR)
    instant = _matching(texts, INSTANT)
    if zone is None:
        fits &= ~instant
    texts = pc.if_else(pa.array(fits), texts, "1970-01-01")
    seconds = _seconds(texts) - EPOCH * DAY
    if zone is not None:
        seconds = np.where(instant, in_zone(zone, seconds - _offset(texts, instant & fits)), seconds)
    return seconds[places], _fractions(texts)[places], fits[places] & np.asarray(column.is_valid())


def _fractions(texts: pa.Array) -> Ints:
    """The microseconds of valid texts, which follow the point; further digits are left out."""
    digits = pc.struct_field(pc.extract_regex(texts, r"\.(?P<digits>[0-9]{1,6})"), "digits").fill_null("")
    return np.asarray(pc.utf8_rpad(digits, 6, "0").cast(pa.int64()))


def _matching(texts: pa.Array, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(texts, pattern))


def _seconds(texts: pa.Array) -> Ints:
    """The local time that valid texts show, in seconds since the first day."""

    def part(start: int) -> Ints:
        cut = pc.utf8_slice_codeunits(texts, start, start + (2 if start else 4))
        return np.asarray(pc.if_else(pc.equal(cut, ""), "00", cut).cast(pa.int64()))

    year, month, day, hour, minute = (part(start) for start in (0, 5, 8, 11, 14))
    has_seconds = pc.equal(pc.utf8_slice_codeunits(texts, 16, 17), ":")
    texts = pc.if_else(has_seconds, texts, "1970-01-01T00:00:00")
    days = civil_number(year, month, day, (month < 3).astype(np.int64))
    return np.asarray(days * DAY + hour * HOUR + minute * 60 + part(17))


def _offset(texts: pa.Array, instant: Flags) -> Ints:
    """The offsets of valid texts, in seconds; 0 for Z and where there is none."""
    zones = pc.if_else(pa.array(instant), texts, "Z")
    found = pc.extract_regex(zones, r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<rest>\d*)$")

    def part(name: str) -> Ints:
        text = pc.struct_field(found, name).fill_null("0")
        return np.asarray(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()))

    sign = np.where(np.asarray(pc.equal(pc.struct_field(found, "sign"), "-").fill_null(False)), -1, 1)
    return np.asarray(sign * (part("hours") * HOUR + part("rest") * 60))
