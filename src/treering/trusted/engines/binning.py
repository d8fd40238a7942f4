"""The count of every cell of a table in an engine: one Ibis expression, so one statement, so one snapshot.

The statement groups twice. The inner GROUP BY runs over the rows, and by each column's own values wherever there are
few enough of them: a CASE for each row costs more than to group by one more value. The outer one runs over the groups,
looks up the codes and numbers the cells. So the engine does little more than its own GROUP BY of the same columns
would. Beside the cells the statement counts the rows at or below the watermark, those past it and those whose order
value is null: all in one snapshot, because a statement has one.

A value means here exactly what it means to `trusted.rows.intake`: null and NaN are missing, what is neither listed nor
in range is other, and where the schema has no cell for it the row does not fit.

Texts are compared as bytes in every engine: equal bytes are equal texts. Otherwise a column's collation would decide,
which may ignore case, accents or trailing blanks, and every engine reads literals by its own rules for backslashes and
zero bytes. The functions are the engines' own; Ibis calls them by their names and takes the types from the Python
functions.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import ibis
import ibis.expr.datatypes as dt

from treering.domain.attribute import Attribute, Bins, Categories, Integers, Ordered
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.domain.sums import Grid, stored
from treering.errors import DataError, SchemaError
from treering.trusted.engines.moments import dated_code, has_zone, is_dated
from treering.trusted.rows.frames import NEEDS_ZONE, NO_HEADER

if TYPE_CHECKING:
    import ibis.expr.types as ir

    Table: TypeAlias = ir.Table
    Value: TypeAlias = ir.Value
    Flag: TypeAlias = ir.BooleanValue

Span: TypeAlias = tuple[int, int]
"""The lowest and the highest value that have a code."""

MOST_LISTED: Final = 2**12
"""The most categories, or bins, of an attribute that are written into a statement."""

FEW_GROUPS: Final = 2**15
"""Bins are grouped by value only up to this many groups. That saves DuckDB a third of the time at 2^12 groups, and
nothing at 2^16."""

WHOLE: Final = 2.0**53
"""Doubles beyond this are whole, and lie outside every range of integers."""

INVALID: Final = -1
"""The code of a value that does not fit. The cell of a row that does not fit is -1 minus its first bad column's
position."""


class Counted(IntEnum):
    """What a line of the result counts in ``rows``, and what its ``key`` is."""

    CELL = 0
    """The rows past the watermark in one cell; the cell's number, or -1 minus the position of a column that does not
    fit."""
    BELOW = 1
    """The rows at or below the watermark; the largest order value among them."""
    PAST = 2
    """The rows past the watermark; the largest order value."""
    UNPLACED = 3
    """The rows whose order value is null; without a watermark the smallest order value of all rows, otherwise 0."""


def check_table(table: Table, schema: Schema, order: str) -> None:
    """Refuse a table whose columns cannot hold the schema's values, or cannot be ordered."""
    types = table.schema()
    absent = [name for name in (*schema.columns, order) if name not in types]
    if absent:
        raise DataError(
            f"the table has no column {', '.join(map(repr, absent))} among its {len(types):,} ({NO_HEADER})",
            column=absent[0],
        )
    for source, attribute in zip(schema.sources, schema.attributes.values(), strict=True):
        _check_type(source, attribute, types[source])
    if not types[order].is_integer() or types[order].is_uint64():
        raise DataError(
            f"the order column {order!r} has type {types[order]}: rows are told apart by a unique integer that only "
            "grows, such as an identity column",
            column=order,
        )


def _check_type(name: str, attribute: Attribute, given: dt.DataType) -> None:
    """Refuse a column whose type cannot hold the attribute's values, as `trusted.rows.typed.check_type` does."""
    if isinstance(attribute, Dated) and has_zone(given) and attribute.tz is None:
        raise DataError(f"column {name!r} has timestamps with a time zone{NEEDS_ZONE}", column=name)
    if isinstance(attribute, Categories | Bins) and attribute.regular > MOST_LISTED:
        raise SchemaError(
            f"column {name!r}: an engine takes at most {MOST_LISTED:,} categories or bins of an attribute, not "
            f"{attribute.regular:,}; integers() has no such limit"
        )
    if given.is_null():
        return
    if isinstance(attribute, Dated):
        wanted, fits = "dates, timestamps or texts", is_dated(given)
    elif isinstance(attribute, Categories):
        wanted = type(attribute.values[0]).__name__
        fits = {"str": given.is_string(), "int": given.is_integer(), "bool": given.is_boolean()}[wanted]
    else:
        wanted = "int or float"
        fits = given.is_integer() or given.is_floating() or given.is_decimal()
    if not fits:
        raise DataError(f"column {name!r} has type {given}, the schema wants {wanted}", column=name)


def statement(table: Table, schema: Schema, order: str, after: int | None) -> Table:
    """The query of one refresh: a table of ``key``, ``part`` (a `Counted`), ``rows`` and, for each attribute whose sums
    are stored, the sum of u over the rows (0 in lines that are no cell's)."""
    place, sums = table[order], len(stored(schema))
    if after is None:
        unplaced = _line(Counted.UNPLACED, table, place.min(), sums, table.count() - place.count())
        return ibis.union(_cells(table, schema), _line(Counted.PAST, table, place.max(), sums), unplaced)
    # The same rows by two expressions: a subquery that a statement uses twice would be materialised by engines.
    new, counted = table.filter(place > _whole(after)), table.filter(~(place <= _whole(after)))
    below = table.filter(place <= _whole(after))
    return ibis.union(
        _cells(new, schema),
        _line(Counted.PAST, counted, counted[order].max(), sums),
        _line(Counted.BELOW, below, below[order].max(), sums),
        _line(Counted.UNPLACED, table.filter(place.isnull()), _whole(0), sums),
    )


def distinct_places(table: Table, order: str, after: int | None, last: int) -> Value:
    """How many different order values there are past the watermark and up to ``last``."""
    place = table[order]
    within = place <= _whole(last) if after is None else (place > _whole(after)) & (place <= _whole(last))
    return table.filter(within)[order].nunique()


def _line(part: Counted, table: Table, key: Value, sums: int, rows: Value | None = None) -> Table:
    """One line of the result. Its key is 0 if there are no rows: a null would turn the column into floats."""
    rows = table.count() if rows is None else rows
    zeros = {f"s{column}": ibis.literal(0, type="int64") for column in range(sums)}
    return table.aggregate(key=key.fill_null(_whole(0)).cast("int64"), part=_whole(part), rows=rows, **zeros)


def _cells(table: Table, schema: Schema) -> Table:
    """The counts of the cells, with the sums of u; and of the rows that do not fit, by their first bad column."""
    engine, spans = table.get_backend().name, grouped_by_value(table, schema)
    columns = {
        f"k{place}": (_plain(table[source]), attribute, spans.get(name))
        for place, (source, (name, attribute)) in enumerate(zip(schema.sources, schema.attributes.items(), strict=True))
    }
    keys = {key: _group_key(engine, *column) for key, column in columns.items()}
    summed = [columns[f"k{position}"][:2] for position in stored(schema)]
    sums = {f"s{place}": _half_steps(*column).sum().cast("int64") for place, column in enumerate(summed)}
    groups = table.group_by(**keys).aggregate(rows=table.count(), **sums)
    found = {key: _code(engine, groups[key], *column) for key, column in columns.items()}
    kept = {name: groups[name] for name in ("rows", *sums)}
    coded = groups.select(**{key: code.cast("int64") for key, code in found.items()}, **kept)
    codes = [coded[key] for key in keys]
    digits = zip(codes[1:], schema.shape[1:], strict=True)
    cell = reduce(lambda above, digit: above * _whole(digit[1]) + digit[0], digits, codes[0])
    unfit = [(code == _whole(INVALID), _whole(-1 - place)) for place, code in enumerate(codes)]
    numbered = coded.group_by(key=ibis.cases(*unfit, else_=cell))
    totals = {name: coded[name].sum().cast("int64") for name in sums}
    return numbered.aggregate(part=_whole(Counted.CELL), rows=coded.rows.sum(), **totals)


def _half_steps(column: Value, attribute: Attribute) -> Value:
    """u of a value, 0 where there is none: the operations of `treering.domain.sums.Grid.half_steps`, in doubles."""
    grid = Grid.of(attribute)
    assert grid is not None
    if column.type().is_null():
        return column.cast("int64").fill_null(_whole(0))
    real, steps = column.cast("float64"), _whole(grid.steps)
    absent = [(column.isnan(), _whole(0))] if column.type().is_floating() else []
    within = ((real - _real(grid.low)) / _real(grid.step) + _real(0.5)).floor().cast("int64")
    return ibis.cases(
        *absent,
        (real.isnull(), _whole(0)),
        (real <= _real(grid.low), -steps),
        (real >= _real(grid.high), steps),
        else_=_whole(2) * within - steps,
    )


def grouped_by_value(table: Table, schema: Schema) -> dict[str, Span]:
    """The columns of numbers that are grouped by value, and which values have a code: all columns of `integers`.

    A column of integers that is binned has more values than codes: it is grouped by value if that makes few groups.
    """
    groups, spans = schema.cells, dict[str, Span]()
    for name, attribute in schema.attributes.items():
        if isinstance(attribute, Integers):
            spans[name] = attribute.low, attribute.high
        elif isinstance(attribute, Bins) and table[attribute.column or name].type().is_integer():
            last = attribute.edges[-1]
            low, high = math.ceil(attribute.edges[0]), math.floor(last) if attribute.closed else math.ceil(last) - 1
            wider = groups // attribute.size * (high - low + 3)
            # Bins compare doubles, and their edges lie within ±2^53: there, doubles compare as their integers do.
            if wider <= FEW_GROUPS:
                groups, spans[name] = wider, (low, high)
    return spans


def _plain(column: Value) -> Value:
    """A column of decimals as doubles, others as they are."""
    return column.cast("float64") if column.type().is_decimal() else column


def _group_key(engine: str, column: Value, attribute: Attribute, span: Span | None) -> Value:
    """The key that rows are grouped by. For numbers, null is missing, and one below the lowest value (or one above the
    highest) is outside."""
    kind = column.type()
    if kind.is_null():
        return _whole(_missing(attribute))
    if isinstance(attribute, Categories):
        return as_bytes(engine, column) if kind.is_string() else column
    if isinstance(attribute, Dated):
        return dated_code(engine, attribute, column)
    assert isinstance(attribute, Ordered)
    # NaN goes first: every engine orders it differently, and turning it into an integer is an error.
    absent = [(column.isnan(), ibis.null("int64"))] if kind.is_floating() else []
    if span is not None:
        # A null is not outside, so it stays null: the CASE has one arm less, and its conditions seldom hold.
        return ibis.cases(*absent, *_outside(attribute, span, column), else_=column.cast("int64"))
    assert isinstance(attribute, Bins)
    column = column.cast("float64")
    last = _real(attribute.edges[-1])
    beyond = column > last if attribute.closed else column >= last
    outside = [(column < _real(attribute.edges[0]), _whole(-1)), (beyond, _whole(_above(attribute, -1)))]
    code = _bin(attribute.edges, column, 0, attribute.regular)
    return ibis.cases(*absent, (column.isnull(), ibis.null("int64")), *outside, else_=code)


def _outside(attribute: Ordered, span: Span, column: Value) -> list[tuple[Flag, Value]]:
    """Arms of a CASE: far below, far above, not whole, below, above. It stops at the first that holds, so infinity is
    never made an integer. (What is not whole is on neither side, wherever it lies.)"""
    low, high = span
    under, over = _whole(low - 1), _whole(high + 1 if attribute.other else low - 1)
    if not column.type().is_floating():
        return [(column < _long(low), under), (column > _long(high), over)]
    column = column.cast("float64")
    broken = ibis.null("int64") if attribute.other else under
    return [
        (column < _real(-WHOLE), under),
        (column > _real(WHOLE), over),
        (column != column.floor().cast("float64"), broken),
        (column < _real(float(low)), under),
        (column > _real(float(high)), over),
    ]


def _bin(edges: tuple[float, ...], column: Value, low: int, high: int) -> Value:
    """The bin among ``low`` … ``high - 1`` that a value within the edges falls into, by bisection."""
    if high - low == 1:
        return _whole(low)
    middle = (low + high) // 2
    return (column < _real(edges[middle])).ifelse(_bin(edges, column, low, middle), _bin(edges, column, middle, high))


def _code(engine: str, key: Value, column: Value, attribute: Attribute, span: Span | None) -> Value:
    """The code of a group's key."""
    if column.type().is_null() or isinstance(attribute, Dated):
        return key
    if isinstance(attribute, Categories):
        other = _whole(_or_invalid(attribute.other_code))
        literals = [(_listed(engine, value, key.type()), _whole(code)) for code, value in enumerate(attribute.values)]
        listed = [(literal, code) for literal, code in literals if literal is not None]
        found = key.cases(*listed, else_=other) if listed else other
    else:
        assert isinstance(attribute, Ordered)
        found = _ordered_code(key, attribute, span)
    return ibis.cases((key.isnull(), _whole(_missing(attribute))), else_=found)


def _ordered_code(key: Value, attribute: Ordered, span: Span | None) -> Value:
    """The code of a key that is not null: the key is a value within a span, or a code, and lies outside if outside."""
    low, high = (0, attribute.regular - 1) if span is None else span
    if isinstance(attribute, Integers):
        code = key - _whole(low)
    else:
        assert isinstance(attribute, Bins)
        code = key if span is None else _bin(attribute.edges, key.cast("float64"), 0, attribute.regular)
    below = (key < _whole(low), _whole(_or_invalid(attribute.below_code)))
    above = (key > _whole(high), _whole(_or_invalid(attribute.above_code)))
    return ibis.cases(below, *([above] if attribute.other else []), else_=code)


def _listed(engine: str, value: str | int | bool, kind: dt.DataType) -> Value | None:
    """A category as a literal of the engine; None if the column's type cannot hold it, so that no value equals it."""
    if isinstance(value, bool):
        return ibis.literal(value, type="boolean")
    if isinstance(value, int):
        return ibis.literal(value, type=kind) if kind.bounds.lower <= value <= kind.bounds.upper else None
    return literal_bytes(engine, value)


def _missing(attribute: Attribute) -> int:
    return _or_invalid(attribute.missing_code)


def _above(attribute: Ordered, below: int) -> int:
    """The key of values above the range; ``below`` is that of values below it, if neither has a cell."""
    return attribute.regular if attribute.other else below


def _or_invalid(code: int | None) -> int:
    return INVALID if code is None else code


def _whole(number: int) -> Value:
    """An integer literal with the type that engines give it: products of short integers overflow."""
    return ibis.literal(int(number), type="int32" if -(2**31) < number < 2**31 else "int64")


def _long(number: int) -> Value:
    """A 64-bit integer literal, written as text: Ibis does not compare negative literals with unsigned columns."""
    return ibis.literal(str(number)).cast("int64")


def _real(number: float) -> Value:
    """A double literal, written as text: a decimal literal would be rounded once more on its way to a double."""
    assert math.isfinite(number)
    return ibis.literal(repr(number)).cast("float64")


# -- texts as bytes ----------------------------------------------------------------------------------------------------


def _text_bytes(text: str) -> bytes:
    raise NotImplementedError("computed by the engine")


def _text_bytes_as(text: str, encoding: str) -> bytes:
    raise NotImplementedError("computed by the engine")


_DUCKDB_BYTES = ibis.udf.scalar.builtin(_text_bytes, name="encode")
_POSTGRES_BYTES = ibis.udf.scalar.builtin(_text_bytes_as, name="convert_to")
_POSTGRES_DIGITS = ibis.udf.scalar.builtin(_text_bytes_as, name="decode")
_SPARK_BYTES = ibis.udf.scalar.builtin(_text_bytes_as, name="encode")


def as_bytes(engine: str, column: Value) -> Value:
    """A column of texts, each as its bytes in UTF-8."""
    if engine == "duckdb":
        return _DUCKDB_BYTES(column)
    return _POSTGRES_BYTES(column, "UTF8") if engine == "postgres" else _SPARK_BYTES(column, "UTF-8")


def literal_bytes(engine: str, text: str) -> Value:
    """A literal: the bytes of ``text`` in UTF-8."""
    plain = text.encode()
    return _POSTGRES_DIGITS(plain.hex(), "hex") if engine == "postgres" else ibis.literal(plain, type="binary")
