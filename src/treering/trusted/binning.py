"""A table in an engine → the count of every cell: one Ibis expression, so one statement, so one snapshot.

The statement groups twice. The inner GROUP BY runs over the rows and keeps each column's own value where that is
cheapest to group by (categories) and its code where that bounds the number of groups (integers, bins). The outer one
runs over the groups, looks up the categories and numbers the cells. So the engine does little more than its own GROUP
BY of the same columns would. Beside the cells the statement counts the rows at or below the watermark, those past it
and those without a place in the order: all of one snapshot, because a statement has one.

What a value means is decided here exactly as `trusted.columns` decides it: null and NaN are missing, what is neither
listed nor in range is other, and where the schema has no cell for it the row does not fit.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import ibis
import ibis.expr.datatypes as dt

from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.schema import Schema
from treering.errors import DataError, SchemaError
from treering.trusted.exact_text import as_bytes, literal_bytes

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table
    Value: TypeAlias = ir.Value
    Flag: TypeAlias = ir.BooleanValue

MOST_LISTED: Final = 2**12
"""The most categories, or bins, of an attribute that are written into a statement."""

INVALID: Final = -1
"""The code of what does not fit. The cell of a row that does not fit is -1 minus its first bad column's position."""


class Part(IntEnum):
    """What a line of the result speaks about: its ``key`` and ``rows`` are those of …"""

    CELL = 0
    """a cell past the watermark: its number, or -1 minus the position of a column that does not fit."""
    BELOW = 1
    """the rows at or below the watermark: the largest order value among them."""
    PAST = 2
    """the rows past the watermark: the largest order value."""
    FIRST = 3
    """the rows past the watermark: the smallest order value."""
    UNPLACED = 4
    """the rows whose order value is null: key 0."""


def check_table(table: Table, schema: Schema, order: str) -> None:
    """Refuse a table whose columns cannot hold the schema's values, or cannot be ordered."""
    types = table.schema()
    absent = [name for name in (*schema.names, order) if name not in types]
    if absent:
        raise DataError(
            f"the table has no column {', '.join(map(repr, absent))}; its columns are {', '.join(types)}",
            column=absent[0],
        )
    for name, attribute in schema.attributes.items():
        _check_type(name, attribute, types[name])
    if not types[order].is_integer() or types[order].is_uint64():
        raise DataError(
            f"the order column {order!r} has type {types[order]}: rows are told apart by a unique integer that only "
            "grows, such as an identity column",
            column=order,
        )


def _check_type(name: str, attribute: Attribute, given: dt.DataType) -> None:
    """`trusted.columns.check_type`, for a column in an engine."""
    if isinstance(attribute, Categories | Bins) and attribute.regular > MOST_LISTED:
        raise SchemaError(
            f"column {name!r}: an engine takes at most {MOST_LISTED:,} categories or bins of an attribute, not "
            f"{attribute.regular:,}; integers() has no such limit"
        )
    if given.is_null():
        return
    if isinstance(attribute, Categories):
        wanted = type(attribute.values[0]).__name__
        fits = {"str": given.is_string(), "int": given.is_integer(), "bool": given.is_boolean()}[wanted]
    else:
        wanted = "int or float"
        fits = given.is_integer() or given.is_floating()
    if not fits:
        raise DataError(f"column {name!r} has type {given}, the schema wants {wanted}", column=name)


def statement(table: Table, schema: Schema, order: str, after: int | None) -> Table:
    """What one refresh wants to know, as a table of ``part`` (see `Part`), ``key`` and ``rows``."""
    place = table[order]
    parts = [_summary(table.filter(place.isnull()), Part.UNPLACED, None)]
    if after is None:
        new = counted = table
        parts.append(_summary(table, Part.FIRST, place.min()))
    else:
        # The same rows, said in two ways: what a statement names twice, engines would store before they go on.
        new, counted = table.filter(place > _whole(after)), table.filter(~(place <= _whole(after)))
        below = table.filter(place <= _whole(after))
        parts.append(_summary(below, Part.BELOW, below[order].max()))
    return ibis.union(_cells(new, schema), _summary(counted, Part.PAST, counted[order].max()), *parts)


def distinct_places(table: Table, order: str, after: int | None, last: int) -> Value:
    """How many different order values there are past the watermark and up to another value."""
    place = table[order]
    within = place <= _whole(last) if after is None else (place > _whole(after)) & (place <= _whole(last))
    return table.filter(within)[order].nunique()


def _summary(table: Table, part: Part, key: Value | None) -> Table:
    """One line. Its key is 0 where there are no rows: a null would turn the column into floats on its way here."""
    found = table.aggregate(key=_whole(0) if key is None else key.cast("int64"), rows=table.count())
    return found.select(part=_whole(part), key=found.key.fill_null(_whole(0)), rows=found.rows.cast("int64"))


def _cells(table: Table, schema: Schema) -> Table:
    """The counts of the cells, and of the rows that do not fit, by their first bad column."""
    engine = table.get_backend().name
    columns = list(schema.attributes.items())
    keys = {f"k{place}": _group_key(engine, attribute, table[name]) for place, (name, attribute) in enumerate(columns)}
    groups = table.group_by(**keys).aggregate(rows=table.count())
    coded = groups.select(
        **{
            f"k{place}": _code(engine, attribute, groups[f"k{place}"], table[name].type().is_null())
            for place, (name, attribute) in enumerate(columns)
        },
        rows=groups.rows,
    )
    codes = [coded[key] for key in keys]
    digits = zip(codes[1:], schema.shape[1:], strict=True)
    cell = reduce(lambda above, digit: above * _whole(digit[1]) + digit[0], digits, codes[0])
    unfit = [(code == _whole(INVALID), _whole(-1 - place)) for place, code in enumerate(codes)]
    numbered = coded.select(key=ibis.cases(*unfit, else_=cell).cast("int64"), rows=coded.rows)
    totals = numbered.group_by("key").aggregate(rows=numbered.rows.sum())
    return totals.select(part=_whole(Part.CELL), key=totals.key, rows=totals.rows.cast("int64"))


def _group_key(engine: str, attribute: Attribute, column: Value) -> Value:
    """What the rows are grouped by: the value itself for categories, the code for numbers."""
    if column.type().is_null():
        return _whole(_missing(attribute))
    if isinstance(attribute, Categories):
        return as_bytes(engine, column) if column.type().is_string() else column
    # NaN goes first: every engine orders it differently, and turning it into an integer is an error.
    first = [(column.isnan(), _whole(_missing(attribute)))] if column.type().is_floating() else []
    absent = (column.isnull(), _whole(_missing(attribute)))
    if isinstance(attribute, Integers):
        outside = _outside_integers(attribute, column)
        inside = column.cast("int64") - _whole(attribute.low)
    else:
        assert isinstance(attribute, Bins)
        column = column.cast("float64")
        outside = [(column < _real(attribute.edges[0])) | (column > _real(attribute.edges[-1]))]
        inside = _bin(attribute.edges, column, 0, attribute.regular)
    return ibis.cases(*first, absent, *((flag, _whole(_other(attribute))) for flag in outside), else_=inside)


def _outside_integers(attribute: Integers, column: Value) -> list[Flag]:
    """Out of range, then not whole: a CASE stops at the first that holds, so no engine makes an integer of infinity."""
    if not column.type().is_floating():
        return [(column < _whole(attribute.low)) | (column > _whole(attribute.high))]
    column = column.cast("float64")
    outside = (column < _real(float(attribute.low))) | (column > _real(float(attribute.high)))
    return [outside, column != column.floor().cast("float64")]


def _bin(edges: tuple[float, ...], column: Value, low: int, high: int) -> Value:
    """The bin among ``low`` … ``high - 1`` that a value within the edges falls into: halving, so log(bins) deep."""
    if high - low == 1:
        return _whole(low)
    middle = (low + high) // 2
    return (column < _real(edges[middle])).ifelse(_bin(edges, column, low, middle), _bin(edges, column, middle, high))


def _code(engine: str, attribute: Attribute, key: Value, nothing: bool) -> Value:
    """The code behind what was grouped by."""
    if not isinstance(attribute, Categories) or nothing:
        return key
    listed = [
        (key == literal, _whole(code))
        for code, value in enumerate(attribute.values)
        if (literal := _listed(engine, value, key.type())) is not None
    ]
    return ibis.cases((key.isnull(), _whole(_missing(attribute))), *listed, else_=_whole(_other(attribute)))


def _listed(engine: str, value: str | int | bool, kind: dt.DataType) -> Value | None:
    """A category as the engine writes it; None if the column's type cannot hold it, so that no value equals it."""
    if isinstance(value, bool):
        return ibis.literal(value, type="boolean")
    if isinstance(value, int):
        return ibis.literal(value, type=kind) if kind.bounds.lower <= value <= kind.bounds.upper else None
    return literal_bytes(engine, value)


def _missing(attribute: Attribute) -> int:
    return INVALID if attribute.missing_code is None else attribute.missing_code


def _other(attribute: Attribute) -> int:
    return INVALID if attribute.other_code is None else attribute.other_code


def _whole(number: int) -> Value:
    """A 64-bit integer: engines take a short literal for a narrow type, whose products overflow."""
    if -(2**31) <= number < 2**31:
        return ibis.literal(int(number), type="int32").cast("int64")
    return ibis.literal(int(number), type="int64")


def _real(number: float) -> Value:
    """A double, by way of its text: a decimal literal is rounded once more on its way to a double."""
    assert math.isfinite(number)
    return ibis.literal(repr(number)).cast("float64")
