"""Attributes of dates and timestamps: the periods between two ends, and parts such as the hour or the weekday.

Periods are days, weeks (from Monday on), months, quarters or years. Beside them there is always a cell for what lies
before the first, one for what lies after the last, and one for what is missing or no valid date: a table that grows
brings dates past every end, and no row may be refused for what is wrong with it in private.

*Time zones.* A timestamp without a zone is taken as it is. A timestamp with one is an instant, which has a date only
somewhere: ``tz`` says where, by a name of the IANA database such as ``America/New_York``. A column of such timestamps
is refused if the attribute has no ``tz``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from treering.domain.attribute import ABOVE, BELOW, MAX_VALUES, Label, Ordered, Outside, Value
from treering.errors import SchemaError

UNITS: Final = ("day", "week", "month", "quarter", "year")
"""The periods."""

PARTS: Final[dict[str, tuple[int, int]]] = {"hour": (0, 23), "weekday": (1, 7), "month": (1, 12)}
"""The parts, each with its least and its greatest value. Weekdays are numbered from Monday on, as in ISO 8601."""

EXTRACTED: Final = ("hour", "day", "dow", "isodow", "month", "quarter", "year")
"""What EXTRACT may ask for. As in SQL, dow is 0 on Sunday and isodow 7."""

FIRST_YEAR: Final = 2
LAST_YEAR: Final = 9998
"""The first and the last year that a period may lie in: there must be dates before and after it."""


@dataclass(frozen=True)
class Dated(Ordered):
    """What periods and parts share: the time zone, and cells for everything."""

    tz: str | None = None
    """The time zone in which instants have a date."""

    def __post_init__(self) -> None:
        if self.tz is not None:
            _check_zone(self.tz)
        super().__post_init__()

    def local(self, moment: datetime) -> datetime | None:
        """A timestamp without a zone: an instant as a clock in ``tz`` shows it, None if there is no ``tz``."""
        if moment.tzinfo is None:
            return moment
        if self.tz is None:
            return None
        try:
            return moment.astimezone(ZoneInfo(self.tz)).replace(tzinfo=None)
        except OverflowError:  # in the first or last hours of the calendar
            return None

    def _plain(self) -> dict[str, Any]:
        given = {"tz": self.tz, "column": self.column}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Dates(Dated):
    """The periods ``by`` day, week, month, quarter or year from that of ``first`` to that of ``last``."""

    first: date = date.min
    last: date = date.min
    by: str = "day"

    def __post_init__(self) -> None:
        if self.by not in UNITS:
            raise SchemaError(f"dates(): by is one of {', '.join(UNITS)}")
        for name in ("first", "last"):
            object.__setattr__(self, name, _day(name, getattr(self, name)))
        if self.first > self.last:
            raise SchemaError(f"dates('{self.first}', '{self.last}'): the first date must not be after the last")
        if self.first.year < FIRST_YEAR or self.last.year > LAST_YEAR:
            raise SchemaError(
                f"dates() takes years from {FIRST_YEAR} to {LAST_YEAR}; there are cells for what lies before and after"
            )
        if not self.other or not self.missing:
            raise SchemaError("dates() always has a cell before its ends, one after them, and one for missing values")
        super().__post_init__()

    @cached_property
    def edges(self) -> tuple[date, ...]:
        """The first day of each period, and the first after the last of them."""
        return self.periods

    @cached_property
    def periods(self) -> tuple[date, ...]:
        """The same, of whole periods."""
        edges = [floor(self.by, self.first)]
        while edges[-1] <= self.last and len(edges) <= MAX_VALUES + 1:
            edges.append(following(self.by, edges[-1]))
        return tuple(edges)

    @property
    def regular(self) -> int:
        """The number of periods."""
        return len(self.edges) - 1

    def regular_code(self, value: Value) -> int | None:
        """The period that a date lies in."""
        day = self._date(value)
        if day is None or not self.edges[0] <= day < self.edges[-1]:
            return None
        return bisect_right(self.edges, day) - 1

    def side(self, value: Value) -> Outside | None:
        """Before the first period, or after the last."""
        day = self._date(value)
        return None if day is None else BELOW if day < self.edges[0] else ABOVE if day >= self.edges[-1] else None

    def regular_value(self, code: int) -> Value:
        """The period's first day."""
        return self.edges[code]

    def bound(self, place: int) -> str:
        """The first day of a period."""
        return f"'{self.edges[place].isoformat()}'"

    def label(self, code: int) -> Label:
        """The period as ISO 8601 writes it, quarters as 2013-Q1.

        >>> [dates("2013-03-01", "2013-03-01", by=unit).label(0) for unit in UNITS]
        ['2013-03-01', '2013-W09', '2013-03', '2013-Q1', '2013']
        """
        return written(self.by, self.edges[code]) if code < self.regular else super().label(code)

    def describe(self) -> str:
        """The range, in words."""
        return f"the dates {self.edges[0]} to {self.edges[-1] - timedelta(days=1)}, by {self.by}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        ends = {"first": self.first.isoformat(), "last": self.last.isoformat(), "by": self.by}
        return {"kind": "dates", **ends, **self._plain()}

    def cut(self, bounds: Iterable[date]) -> CutDates:
        """The periods, cut at more moments."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "cuts"}
        return CutDates(**own, cuts=tuple(sorted({*map(midnight, bounds)} - {*map(midnight, self.edges)})))

    def _date(self, value: Value) -> date | None:
        """The date that a public value means, None if it means none."""
        if isinstance(value, str):
            value = read_moment(value)
        if isinstance(value, datetime):
            local = self.local(value)
            return None if local is None else local.date()
        return value if isinstance(value, date) else None


@dataclass(frozen=True)
class CutDates(Dates):
    """Periods that are cut at more moments: of a lens, not of a schema that is written down."""

    cuts: tuple[datetime, ...] = ()

    @cached_property
    def edges(self) -> tuple[date, ...]:
        """When each cell begins, and when the last ends."""
        return tuple(sorted({*map(midnight, self.periods), *self.cuts}))

    def cut(self, bounds: Iterable[date]) -> CutDates:
        """The same cells, cut at more moments."""
        return replace(self, cuts=tuple(sorted({*self.cuts, *map(midnight, bounds)} - {*map(midnight, self.periods)})))

    def bound(self, place: int) -> str:
        """When a cell begins."""
        moment = midnight(self.edges[place])
        plain = moment == midnight(moment.date())
        return f"'{moment.date() if plain else moment.isoformat(' ')}'"

    def label(self, code: int) -> Label:
        """The cell as an interval."""
        if code >= self.regular:
            return super().label(code)
        return f"[{self.bound(code)}, {self.bound(code + 1)})"

    def to_dict(self) -> dict[str, Any]:
        """A plain form, by which lenses are told apart."""
        return {**super().to_dict(), "cuts": [each.isoformat() for each in self.cuts]}

    def _date(self, value: Value) -> date | None:
        if isinstance(value, str):
            value = read_moment(value)
        if isinstance(value, datetime):
            return self.local(value)
        return midnight(value) if isinstance(value, date) else None


def midnight(day: date) -> datetime:
    """The moment at which a day begins; a moment as it is."""
    return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)


@dataclass(frozen=True)
class DatePart(Dated):
    """A part of dates or timestamps: the hour, the weekday (1 is Monday) or the month."""

    part: str = "hour"

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise SchemaError(f"dates(): part is one of {', '.join(PARTS)}")
        if self.other or not self.missing:
            raise SchemaError("a part of a date always has a cell for missing values, and none for other ones")
        super().__post_init__()

    @property
    def low(self) -> int:
        """The least value."""
        return PARTS[self.part][0]

    @property
    def high(self) -> int:
        """The greatest value."""
        return PARTS[self.part][1]

    @property
    def regular(self) -> int:
        """The number of values."""
        return self.high - self.low + 1

    @property
    def unfit_code(self) -> int | None:
        """What is no valid date counts as missing."""
        return self.missing_code

    def regular_code(self, value: Value) -> int | None:
        """The distance of a part, given as an integer, from the least one."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        return int(value) - self.low if value == int(value) else None

    def part_of(self, moment: date) -> int:
        """The part of a date or of a timestamp without a zone. A date has the hour 0."""
        if self.part == "hour":
            return moment.hour if isinstance(moment, datetime) else 0
        return moment.isoweekday() if self.part == "weekday" else moment.month

    def side(self, value: Value) -> Outside | None:
        """There is nothing outside."""
        return None

    def regular_value(self, code: int) -> Value:
        """The part, as an integer."""
        return self.low + code

    def bound(self, place: int) -> str:
        """A part."""
        return str(self.low + place)

    def describe(self) -> str:
        """The range, in words."""
        return f"the integers {self.low} to {self.high}"

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML."""
        return {"kind": "dates", "part": self.part, **self._plain()}


def dates(
    first: str | date | None = None,
    last: str | date | None = None,
    *,
    by: str | None = None,
    part: str | None = None,
    column: str | None = None,
    tz: str | None = None,
) -> Dates | DatePart:
    """An attribute of dates or timestamps: periods between two ends, or a part.

    ``first`` and ``last`` are the ends, both included; the periods ``by`` day (the default), week, month, quarter or
    year that they lie in are whole. With ``part``, which is hour, weekday (1 is Monday) or month, there are no ends.
    ``column`` names the column of the rows, so that several attributes can come from one. ``tz`` is the time zone in
    which timestamps that have one are dated; other timestamps are taken as they are.

    There is always a cell for what is missing or no valid date, and for periods one before the first and one after the
    last.

    >>> dates("2013-01-01", "2033-12-31", by="month").size
    255
    >>> dates(part="hour", column="time_hour").size
    25
    """
    if part is None:
        if first is None or last is None:
            raise SchemaError("dates() takes a first and a last date, or a part")
        ends: dict[str, Any] = {"first": first, "last": last}
        return Dates(other=True, missing=True, column=column, tz=tz, by="day" if by is None else by, **ends)
    if first is not None or last is not None or by is not None:
        raise SchemaError("dates(): a part has no ends, and is by nothing else")
    return DatePart(missing=True, column=column, tz=tz, part=part)


# -- the calendar ------------------------------------------------------------------------------------------------------


def floor(unit: str, day: date) -> date:
    """The first day of the period that a day lies in."""
    starts: dict[str, Callable[[], date]] = {
        "day": lambda: day,
        "week": lambda: day - timedelta(days=day.weekday()),
        "month": lambda: day.replace(day=1),
        "quarter": lambda: date(day.year, 1 + (day.month - 1) // 3 * 3, 1),
        "year": lambda: date(day.year, 1, 1),
    }
    return starts[unit]()


def following(unit: str, start: date) -> date:
    """The first day of the next period."""
    if unit in ("day", "week"):
        return start + timedelta(days=1 if unit == "day" else 7)
    months = start.month - 1 + {"month": 1, "quarter": 3, "year": 12}[unit]
    return date(start.year + months // 12, 1 + months % 12, 1)


def ceiling(unit: str, moment: datetime) -> datetime:
    """The first beginning of a period that is not before a moment."""
    start = floor(unit, moment.date())
    begin = datetime(start.year, start.month, start.day)
    if begin == moment:
        return begin
    after = following(unit, start)
    return datetime(after.year, after.month, after.day)


def extracted(part: str, day: date) -> int:
    """What EXTRACT gives for a day."""
    values = {"day": day.day, "dow": day.isoweekday() % 7, "isodow": day.isoweekday(), "month": day.month}
    return {**values, "quarter": (day.month + 2) // 3, "year": day.year}[part]


def written(unit: str, start: date) -> str:
    """A period, given by its first day, in words that `read_period` reads."""
    if unit == "week":
        year, week, _ = start.isocalendar()
        return f"{year:04}-W{week:02}"
    if unit == "quarter":
        return f"{start.year:04}-Q{1 + start.month // 3}"
    return start.isoformat()[: {"day": 10, "month": 7, "year": 4}[unit]]


_PERIOD: Final = re.compile(r"(\d{4})(?:-(?:(\d{2})(?:-(\d{2}))?|Q([1-4])|W(\d{2})))?", re.ASCII)


def read_period(text: str) -> tuple[str, date] | None:
    """The unit and the first day of a period: 2013-03-01, 2013-03, 2013-Q1, 2013-W09 or 2013; None for other texts."""
    match = _PERIOD.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, quarter, week = (None if each is None else int(each) for each in match.groups())
    try:
        if week is not None:
            return "week", date.fromisocalendar(year or 0, week, 1)
        if quarter is not None:
            return "quarter", date(year or 0, 3 * quarter - 2, 1)
        unit = "year" if month is None else "month" if day is None else "day"
        return unit, date(year or 0, month or 1, day or 1)
    except ValueError:
        return None


_MOMENT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?", re.ASCII
)


def read_moment(text: str) -> date | None:
    """A date, or a timestamp with or without an offset, as ISO 8601 writes them; None for other texts."""
    text = text.strip()
    if not _MOMENT.fullmatch(text):
        return None
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError:
        return None


def _day(name: str, given: object) -> date:
    """One end of the range, as a date."""
    found = read_moment(given) if isinstance(given, str) else given
    if not isinstance(found, date) or isinstance(found, datetime):
        raise SchemaError(f"dates(): {name} is a date such as '2013-01-01', not {given!r}")
    return found


@lru_cache(maxsize=64)
def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, TypeError, OSError, KeyError):  # (what it raises depends on what is wrong with the name)
        problem = f"dates(): {name!r} is no time zone; give a name such as 'Europe/Berlin' or 'UTC'"
    else:
        return
    raise SchemaError(problem)
