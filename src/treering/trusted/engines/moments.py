"""The codes of dates and timestamps in an engine: the same as those of `treering.trusted.rows.moments`.

A timestamp without a zone is taken apart by the engine's own functions for year, month, day and hour. One with a zone
is first turned into one without, as a clock in the attribute's zone shows it. Texts are held against a pattern that
only valid dates fit before they are read, because a cast that fails would raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, TypeAlias

import ibis
import ibis.expr.datatypes as dt

from treering.domain.calendar import Dated, DatePart, Dates
from treering.trusted.rows.moments import (
    DAY,
    EPOCH,
    HOUR,
    INSTANT,
    NO_YEAR,
    PATTERN,
    civil_number,
    month_of,
    number,
    weekday_of,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Value: TypeAlias = ir.Value

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def is_dated(kind: dt.DataType) -> bool:
    """Whether a column of this type may hold dates: dates, timestamps or texts."""
    return bool(kind.is_date() or kind.is_timestamp() or kind.is_string())


def has_zone(kind: dt.DataType) -> bool:
    """Whether a column of this type holds instants."""
    return bool(kind.is_timestamp() and kind.timezone is not None)


def dated_code(engine: str, attribute: Dated, column: Value) -> Value:
    """The code of each value; what is missing or no valid date has the missing cell's."""
    kind = column.type()
    if kind.is_string():
        return _text_code(engine, attribute, column)
    code = _instant_code(engine, attribute, column) if has_zone(kind) else _local_code(attribute, column)
    return ibis.cases((column.isnull(), _missing(attribute)), else_=code)


def _text_code(engine: str, attribute: Dated, text: Value) -> Value:
    """The code of a text, read by the engine once it is known to be valid."""
    plain = text.re_replace("[.][0-9]+", "")
    instant = text.re_search(INSTANT)
    arms = [
        # A line's end is no part of a pattern's end in every engine.
        (text.isnull() | text.contains("\n") | ~text.re_search(PATTERN) | text.re_search(NO_YEAR), _missing(attribute))
    ]
    if attribute.tz is None:
        arms.append((instant, _missing(attribute)))
    else:
        moment = _with_minutes(plain).cast(dt.Timestamp(timezone="UTC"))
        arms.append((instant, _instant_code(engine, attribute, ibis.cases((instant, moment)))))
    local = _SPARK_LOCAL(plain) if engine == "pyspark" else plain.cast("timestamp")
    return ibis.cases(*arms, else_=_local_code(attribute, ibis.cases((~instant, local))))


def _with_minutes(text: Value) -> Value:
    """A timestamp with seconds and with an offset of hours and minutes, a colon between them: every engine reads it."""
    seconds = text.substr(16, 1) == ":"
    text = ibis.cases((seconds, text), else_=text.left(16).concat(":00", text.right(text.length() - 16)))
    return ibis.cases(
        (text.re_search("[+-][0-9]{2}$"), text.concat(":00")),
        (text.re_search("[+-][0-9]{4}$"), text.left(text.length() - 2).concat(":", text.right(2))),
        else_=text,
    )


def _local_code(attribute: Dated, column: Value) -> Value:
    """The code of a date, or of a timestamp without a zone. What is far out is not taken apart: it may be infinite."""
    if isinstance(attribute, Dates):
        first, after = (_literal(column.type(), edge) for edge in (attribute.edges[0], attribute.edges[-1]))
        outside = ((column < first, _int(attribute.regular)), (column >= after, _int(attribute.regular + 1)))
        if attribute.by in _MONTHS:
            start = attribute.edges[0]
            months = column.year().cast("int64") * 12 + column.month().cast("int64") - (start.year * 12 + start.month)
            return ibis.cases(*outside, else_=(months // _MONTHS[attribute.by]).cast("int64"))
        return ibis.cases(*outside, else_=_days_code(attribute, _number(column)))
    assert isinstance(attribute, DatePart)
    low, high = _literal(column.type(), date(1, 1, 1)), _literal(column.type(), date(9999, 12, 31), end=True)
    if attribute.part == "weekday":
        part = column.day_of_week.index()
    elif attribute.part == "month":
        part = column.month() - 1
    else:
        part = _int(0) if column.type().is_date() else column.hour()
    return ibis.cases(((column < low) | (column > high), _missing(attribute)), else_=part.cast("int64"))


def _instant_code(engine: str, attribute: Dated, column: Value) -> Value:
    """The code of an instant, in the attribute's time zone."""
    low, high = _literal(_INSTANT, date(1, 1, 1)), _literal(_INSTANT, date(9999, 12, 31), end=True)
    below, above = (
        (_int(attribute.regular), _int(attribute.regular + 1))
        if isinstance(attribute, Dates)
        else (_missing(attribute), _missing(attribute))
    )
    if engine == "pyspark":
        code = _spark_code(attribute, column)
    else:
        code = _local_code(attribute, _ZONED(ibis.literal(attribute.tz), column))
    return ibis.cases((column < low, below), (column > high, above), else_=code)


def _spark_code(attribute: Dated, column: Value) -> Value:
    """The code of an instant within the calendar. Spark shows instants in the zone of its session only: so it is taken
    apart by arithmetic on its local seconds."""
    shifted = _SPARK_SHIFTED(column.truncate("s"), ibis.literal(attribute.tz))
    seconds = _SPARK_SECONDS(shifted) + EPOCH * DAY
    days = (seconds // DAY).cast("int64")
    if isinstance(attribute, Dates):
        edges = [number(edge) for edge in attribute.edges]
        if attribute.by in _MONTHS:
            values = [_int(attribute.regular), *map(_int, range(attribute.regular)), _int(attribute.regular + 1)]
            return _bisect(edges, values, days)
        outside = (days < edges[0], _int(attribute.regular)), (days >= edges[-1], _int(attribute.regular + 1))
        return ibis.cases(*outside, else_=_days_code(attribute, days))
    assert isinstance(attribute, DatePart)
    if attribute.part == "hour":
        code = seconds % DAY // HOUR
    else:
        code = weekday_of(days) if attribute.part == "weekday" else (month_of(days) + 2) % 12
    inside = (days >= number(date(1, 1, 1))) & (days <= number(date(9999, 12, 31)))
    return ibis.cases((inside, code.cast("int64")), else_=_missing(attribute))


def _days_code(attribute: Dates, days: Value) -> Value:
    """The code of a day by its number, which lies within the range, for days and weeks."""
    past = days - number(attribute.edges[0])
    return (past // 7).cast("int64") if attribute.by == "week" else past.cast("int64")


def _number(column: Value) -> Value:
    """The number of a date, or of a timestamp's date."""
    year, month, day = (part.cast("int64") for part in (column.year(), column.month(), column.day()))
    return civil_number(year, month, day, ibis.cases((month < 3, _int(1)), else_=_int(0)))


def _bisect(bounds: Sequence[int], values: Sequence[Value], column: Value) -> Value:
    """The value behind the last bound that is not above the column; the first value if all are."""
    if not bounds:
        return values[0]
    middle = len(bounds) // 2
    low = _bisect(bounds[:middle], values[: middle + 1], column)
    high = _bisect(bounds[middle + 1 :], values[middle + 1 :], column)
    return (column < _int(bounds[middle])).ifelse(low, high)


def _literal(kind: dt.DataType, day: date, *, end: bool = False) -> Value:
    """The beginning, or the end, of a day as a literal of a column's type."""
    if kind.is_date():
        return ibis.literal(day, type="date")
    moment = datetime(day.year, day.month, day.day, *((23, 59, 59, 999_999) if end else ()))
    zone = "UTC" if has_zone(kind) else None
    return ibis.literal(moment, type=dt.Timestamp(timezone=zone))


def _missing(attribute: Dated) -> Value:
    code = attribute.missing_code
    assert code is not None
    return _int(code)


def _int(value: int) -> Value:
    return ibis.literal(value, type="int64")


def _computed(value: object) -> object:
    raise NotImplementedError("computed by the engine")


def _computed_with(value: object, other: object) -> object:
    raise NotImplementedError("computed by the engine")


_INSTANT = dt.Timestamp(timezone="UTC")
_ZONED = ibis.udf.scalar.builtin(_computed_with, name="timezone", signature=((dt.string, _INSTANT), dt.timestamp))
"""DuckDB and PostgreSQL: an instant as a clock in a time zone shows it."""
_SPARK_SHIFTED = ibis.udf.scalar.builtin(
    _computed_with, name="from_utc_timestamp", signature=((_INSTANT, dt.string), _INSTANT)
)
"""The instant at which a clock in UTC shows what one in the time zone shows at the given one."""
_SPARK_SECONDS = ibis.udf.scalar.builtin(_computed, name="unix_seconds", signature=((_INSTANT,), dt.int64))
_SPARK_LOCAL = ibis.udf.scalar.builtin(_computed, name="to_timestamp_ntz", signature=((dt.string,), dt.timestamp))
