"""Columns of the rows that attributes are made of: ``EXTRACT(hour FROM time_hour)`` is the attribute of the hours.

People know the columns of their table. Where several attributes come from one column of dates, an expression of the
column means one of them; one that needs more than they tell, such as the minute, is refused.

The column of persons is not kept, and no statement shows it, compares it or groups by it. What counts persons,
COUNT(DISTINCT person), is marked before columns are looked up; a cap on the rows of each person is a hint, ``SELECT /*+
PER_PERSON(3) */ …``, or comes with the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from treering.domain.calendar import UNITS, DatePart, Dates
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.values import unit_of

_TRUNCATED: Final = (exp.DateTrunc, exp.TimestampTrunc)
_MOMENTS: Final = (exp.DType.TIMESTAMP, exp.DType.DATETIME, exp.DType.TIMESTAMPNTZ)
_WEEKDAYS: Final = ("dow", "isodow", "dayofweek", "dayofweekiso", "weekday")
_UNITS: Final = {*UNITS, *_WEEKDAYS, "doy", "dayofyear", "isoyear", "yearweek"}
"""What EXTRACT and date_trunc can tell of a day."""
_OF_DAYS: Final = (
    *(exp.Date, exp.TsOrDsToDate, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day),
    *(exp.DayOfMonth, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Monthname, exp.Dayname),
)
"""Functions that depend on the day of a moment only."""
_MADE_OF: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.DPipe)
_LOGIC: Final = (exp.AggFunc, exp.Connector, exp.Predicate, exp.Not)
_DATE_WORDS: Final = frozenset("YymdjBbAauwUWGV%")
"""What may follow % or %- in a format that names no part of a day."""


def columns(schema: Schema) -> tuple[str, ...]:
    """The names that a statement may use: attributes, and the columns that they come from."""
    return tuple(dict.fromkeys([*schema.names, *schema.columns]))


def resolved(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """The tree with columns of the rows replaced by attributes."""
    for column, alone in list(_found(tree, schema)):
        source, outer = column.name.lower(), _around(column)
        part = _part(outer.parent, source, schema, alone=alone)
        if part is not None and outer.parent is not None:
            outer.parent.replace(_as(part, unit_of(outer.parent), column))
        elif source not in {name.lower() for name in schema.names}:
            days = _periods(column, source, schema)
            _check(outer, column, days)
            column.set("this", exp.to_identifier(days, quoted=True))
    return tree


def _found(tree: exp.Expr, schema: Schema) -> Iterator[tuple[exp.Column, bool]]:
    """The columns of dates that rows have, and whether an expression names each once. (A name without a table is that
    of a result.)"""
    sources = {name.lower() for name in schema.columns if _dated(name.lower(), schema)}
    for column in tree.find_all(exp.Column):
        source = column.name.lower()
        if column.table and source in sources:
            named = [each.name.lower() for each in _expression(column).find_all(exp.Column)]
            yield column, named.count(source) == 1


def _expression(node: exp.Expr) -> exp.Expr:
    """The largest expression around a node that is neither an aggregate nor a condition."""
    while isinstance(node.parent, (*_MADE_OF, exp.Func)) and not isinstance(node.parent, _LOGIC):
        node = node.parent
    return node


def _around(node: exp.Expr) -> exp.Expr:
    """A column with the parentheses around it, and the casts to a timestamp, of which a function is then taken."""
    parent = node.parent
    cast = isinstance(parent, exp.Cast) and parent.to.this in _MOMENTS and isinstance(parent.parent, exp.Func)
    return _around(parent) if parent is not None and (cast or isinstance(parent, exp.Paren)) else node


def _dated(source: str, schema: Schema) -> list[str]:
    """The attributes of dates that come from a column."""
    return [
        name
        for name, column in zip(schema.names, schema.sources, strict=True)
        if column.lower() == source and isinstance(schema.attributes[name], Dates | DatePart)
    ]


def _part(node: exp.Expr | None, source: str, schema: Schema, *, alone: bool) -> str | None:
    """The attribute of the part of a column's dates that an EXTRACT names. What a day tells is left to the day where an
    expression names the column again: it would be about two attributes."""
    unit = None if isinstance(node, _TRUNCATED) else unit_of(node)
    wanted = "weekday" if unit in _WEEKDAYS else unit
    attributes = {name: schema.attributes[name] for name in _dated(source, schema)}
    by_day = any(isinstance(each, Dates) and each.by == "day" for each in attributes.values())
    if not alone and by_day and unit in _UNITS:
        return None
    found = (name for name, each in attributes.items() if isinstance(each, DatePart) and each.part == wanted)
    return next(found, None)


def _as(name: str, unit: str | None, column: exp.Column) -> exp.Expr:
    """An attribute in the place of an EXTRACT; SQL's day of the week has Sunday as 0, ISO's as 7."""
    found = exp.column(exp.to_identifier(name, quoted=True), table=column.args["table"].copy())
    sundays = unit in ("dow", "dayofweek", "weekday")
    return exp.paren(exp.Mod(this=found, expression=exp.Literal.number(7))) if sundays else found


def _periods(column: exp.Column, source: str, schema: Schema) -> str:
    """The attribute that knows a column's dates best."""
    known = {
        name: attribute.by for name in _dated(source, schema) if isinstance(attribute := schema.attributes[name], Dates)
    }
    if not known:
        parts = ", ".join(_dated(source, schema))
        raise QueryError(f"of {column.name} only these are known: {parts}")
    return min(known, key=lambda name: UNITS.index(known[name]))


def _check(node: exp.Expr, column: exp.Column, days: str) -> None:
    """Refuse what the day of a moment does not tell."""
    if node.parent is not None and not _told_by_days(node):
        known = f"of {identifier(column.name)} the date is known, as {identifier(days)}"
        raise QueryError(f"{known}, which does not tell {node.parent.sql()}")


def _told_by_days(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return bool(parent.to.this == exp.DType.DATE)
    if isinstance(parent, exp.TimeToStr):
        return _dates_only(parent.args["format"].name)
    if isinstance(parent, (*_TRUNCATED, exp.Extract)):
        return unit_of(parent) in _UNITS
    if isinstance(parent, (*_OF_DAYS, *_LOGIC)):
        return True
    return not isinstance(parent, (exp.Func, *_MADE_OF))


def _dates_only(words: str) -> bool:
    """Whether a format of strftime names no part of a day."""
    place = words.find("%")
    while place >= 0:
        place += 2 if words.startswith("%-", place) else 1
        if words[place : place + 1] not in _DATE_WORDS:
            return False
        place = words.find("%", place + 1)
    return True


# -- persons -----------------------------------------------------------------------------------------------------------

_MARK: Final = "\0person"
"""Stands for the column of persons where they are counted."""

_HINT: Final = re.compile(r"/\*\+\s*PER_PERSON\s*\(\s*([0-9]{1,9})\s*\)\s*\*/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class People:
    """Whose the rows are."""

    column: str
    """The column of persons."""
    limit: int
    """The most rows that each can have."""


def hinted(text: str) -> tuple[str, int | None]:
    """A text without its hint, and the cap that it states.

    >>> hinted("SELECT /*+ PER_PERSON(3) */ COUNT(*) FROM t")
    ('SELECT  COUNT(*) FROM t', 3)
    """
    caps = {int(each) for each in _HINT.findall(text)}
    if len(caps) > 1:
        raise QueryError("PER_PERSON is stated once: one cap is for the whole statement")
    return _HINT.sub("", text), caps.pop() if caps else None


def marked(tree: exp.Expr, person: str) -> exp.Expr:
    """The tree with COUNT(DISTINCT person) marked: no column stands there any more."""
    for node in list(tree.find_all(exp.Count)):
        named = _counted(node)
        if isinstance(named, exp.Column) and named.name.lower() == person.lower():
            node.set("this", exp.Distinct(expressions=[exp.Literal.string(_MARK)]))
    return tree


def counts_persons(node: exp.Expr) -> bool:
    """Whether an aggregate counts persons."""
    named = _counted(node)
    return isinstance(named, exp.Literal) and named.is_string and named.this == _MARK


def check_outside(tree: exp.Expr) -> None:
    """Refuse persons counted in what is worked out from released numbers."""
    if any(counts_persons(node) for node in tree.find_all(exp.Count)):
        raise QueryError(
            "persons are counted where rows are, by COUNT(DISTINCT …) with WHERE, GROUP BY and HAVING: not as a window "
            "function, and not among released groups (a person may be in several)"
        )


def _counted(node: exp.Expr) -> exp.Expr | None:
    """The one expression of a COUNT(DISTINCT …)."""
    inner = node.this if isinstance(node, exp.Count) else None
    if not isinstance(inner, exp.Distinct) or len(inner.expressions) != 1 or node.expressions:
        return None
    named: exp.Expr = inner.expressions[0].unnest()
    return named
