"""PRIVATE: the schema as a lens: an axis as an expression of SQL over typed columns, by which an engine groups rows.

The columns are those of the rows that a store keeps, or of a subquery that types the rows of an engine
(``engines/columns.py``): the expression is the same, spelled as the engine spells it (``engines/dialect.py``).

An expression gives a *key* for each row, and `Key.classify` says which class of the axis each key stands for. What is
cheap for an engine is written into the expression; the rest is looked up once for each group:

- few distinct values, as a caller knows (``trusted/distinct.py``): the value itself;
- one cut, or one listed value: a comparison;
- an even grid of integers (months, hours, cells of one width): arithmetic;
- at most `MOST_CUTS` cuts: a CASE that bisects;
- more cuts: the value itself, as long as it is grouped anyway; or a look-up, where the engine has one;
- at most `MOST_LISTED` listed values: the place in a list;
- more listed values: a join with a small table of them.

Listed values are parameters, tables, or bytes written as digits: no text of a schema is ever part of a statement. Only
numbers of ours and names of columns, quoted, are written into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Ints
from treering.domain.axis import Axis, Cuts, Scalar
from treering.domain.sums import Grid
from treering.trusted.dialect import EMBEDDED, MOST_CUTS, Dialect, bisected
from treering.trusted.rows.moments import DAY, EPOCH, FIRST, LAST, MICROSECONDS, month_of, weekday_of
from treering.trusted.rows.typed import TYPES, field_of, kept

MOST_LISTED: Final = 32
"""The most values that are looked for in a list: its time grows with them, that of a join does not."""

_FIRST_MOMENT: Final = (FIRST - EPOCH) * DAY * MICROSECONDS
_AFTER_LAST: Final = (LAST + 1 - EPOCH) * DAY * MICROSECONDS


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by for one axis."""

    expression: str
    classify: Callable[[Any], Ints] = field(repr=False)
    """The class of each key, which come as an Arrow array."""
    listed: pa.Table | None = None
    """If there is one, the expression is the column ``piece`` of a join with this table, on its column ``value``."""
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The values of the parameters that the expression names."""


def key_of(axis: Axis, alias: str, dialect: Dialect = EMBEDDED, *, few: bool = False) -> Key:
    """The key of an axis; ``alias`` names its listed values in the statement, as table or parameter. ``few``: the
    column has few distinct values."""
    value, width = value_of(axis.scalar, dialect), _even(axis.cuts)
    if few:
        return Key(value, lambda keys: _classes_of_values(axis, keys))
    if axis.by_list:
        return _listed(axis, alias, value, dialect)
    cuts = [dialect.literal(cut) for cut in axis.cuts.tolist()]
    if width is not None:
        expression = _grid(value, axis.cuts, width, dialect)
    elif len(cuts) == 1:
        expression = f"{value} >= {cuts[0]}"
    elif len(cuts) <= MOST_CUTS:
        pieces = bisected(value, cuts, [str(piece) for piece in range(len(cuts) + 1)])
        expression = f"CASE WHEN {value} IS NULL THEN NULL ELSE {pieces} END"
    elif dialect.place is not None:
        expression = f"CASE WHEN {value} IS NULL THEN NULL ELSE {dialect.place(value, cuts)} END"
    else:
        return Key(value, lambda keys: _classes(axis, keys, _searched(axis.cuts)))
    return Key(expression, lambda keys: _classes(axis, keys, np.asarray))


def value_of(scalar: Scalar, dialect: Dialect = EMBEDDED) -> str:
    """The value of a scalar; null where there is none."""
    column = dialect.quoted(field_of(kept(scalar)))
    if scalar.kind != "moment" and scalar.part is None:
        return column
    moment = dialect.moment.format(column)
    return moment if scalar.part is None else _part(moment, scalar.part, dialect)


def half_steps(scalar: Scalar, grid: Grid, dialect: Dialect = EMBEDDED) -> str:
    """u of a value (``domain/sums.py``), 0 where there is none: the operations of `Grid.half_steps`, in doubles, one by
    one. (What rounds to no step is told before it is divided: PostgreSQL refuses quotients that are too small.)"""
    value = f"CAST({value_of(scalar, dialect)} AS {dialect.double})"
    low, high, step, half = (dialect.literal(float(each)) for each in (grid.low, grid.high, grid.step, 0.5))
    near = dialect.literal(float(grid.step) / 4)
    steps = f"CAST(floor(({value} - {low}) / {step} + {half}) AS BIGINT)"
    return (
        f"CASE WHEN {value} IS NULL THEN 0 WHEN {value} <= {low} THEN {-grid.steps} "
        f"WHEN {value} >= {high} THEN {grid.steps} WHEN {value} - {low} < {near} THEN {-grid.steps} "
        f"ELSE 2 * {steps} - {grid.steps} END"
    )


# -- what is cut -------------------------------------------------------------------------------------------------------


def _even(cuts: Cuts) -> int | None:
    """The width of the cells of an even grid of integers; None if it is none."""
    if cuts.dtype.kind != "i" or len(cuts) < 2:
        return None
    widths = np.diff(cuts)
    return int(widths[0]) if (widths == widths[0]).all() else None


def _grid(value: str, cuts: Cuts, width: int, dialect: Dialect) -> str:
    """The piece of a value, by arithmetic: nothing within the grid is negative, so that rounding is the same in all
    engines."""
    first, last = int(cuts[0]), int(cuts[-1])
    piece = f"{value} - ({first})" if width == 1 else dialect.divided(f"{value} - ({first})", width)
    return (
        f"CASE WHEN {value} >= {first} AND {value} < {last} THEN {piece} + 1 "
        f"WHEN {value} < {first} THEN 0 WHEN {value} >= {last} THEN {len(cuts)} END"
    )


def _searched(cuts: Cuts) -> Callable[[Any], Ints]:
    return lambda values: np.searchsorted(cuts, np.asarray(values), side="right")


def _classes(axis: Axis, keys: Any, piece: Callable[[Any], Ints]) -> Ints:
    """The class of each key: of null, that of missing values."""
    absent = np.asarray(keys.is_null())
    pieces = np.asarray(piece(keys.fill_null(pa.scalar(0).cast(keys.type))), dtype=np.int64)
    return axis.classes[np.where(absent, len(axis.classes) - 2, pieces)]


# -- what is listed ----------------------------------------------------------------------------------------------------


def _listed(axis: Axis, alias: str, value: str, dialect: Dialect) -> Key:
    """The place of a value. One that is not listed has the place after all of them; null stays null, where the key does
    not say otherwise."""
    number = len(axis.listed)
    if not number:
        return Key(f"CASE WHEN {value} IS NOT NULL THEN 0 END", lambda keys: _classes(axis, keys, np.asarray))
    if number == 1 and dialect.text:
        expression = f"{value} <> {dialect.literal(axis.listed[0])}"
        return Key(expression, lambda keys: _classes(axis, keys, np.asarray))
    if number == 1:
        return Key(f"{value} <> ${alias}", lambda keys: _classes(axis, keys, np.asarray), None, {alias: axis.listed[0]})
    if number <= MOST_LISTED and not dialect.text:
        expression = f"list_position(CAST(${alias} AS {_SQL_TYPES[axis.scalar.kind]}[]), {value})"
        return Key(expression, lambda keys: _found(axis, keys), None, {alias: [*axis.listed, None]})
    values = pa.array(axis.listed, TYPES[axis.scalar.kind])
    table = pa.table({"value": values, "piece": pa.array(np.arange(number))})
    expression = f"CASE WHEN {value} IS NULL THEN NULL ELSE coalesce({dialect.quoted(alias)}.piece, {number}) END"
    return Key(expression, lambda keys: _classes(axis, keys, np.asarray), table)


_SQL_TYPES: Final = {"text": "VARCHAR", "boolean": "BOOLEAN", "code": "BIGINT"}


def _found(axis: Axis, keys: Any) -> Ints:
    """The class of each place, from 1 on, in the list of values with null after them; null: not in it."""
    number = len(axis.listed)
    places = np.asarray(keys.fill_null(number + 2), dtype=np.int64) - 1
    return axis.classes[np.where(places == number, number + 1, np.where(places > number, number, places))]


# -- parts of moments --------------------------------------------------------------------------------------------------


def _part(moment: str, part: str, dialect: Dialect) -> str:
    """A part of a moment. Days are numbered as in ``moments``, so that nothing is negative."""
    gone = f"{moment} - ({_FIRST_MOMENT})"
    days = f"({dialect.divided(gone, DAY * MICROSECONDS)})"
    if part == "hour":
        value = f"({dialect.divided(gone, 3_600 * MICROSECONDS)}) % 24"
    elif part == "weekday":
        value = f"({days} + {FIRST + 2}) % 7 + 1"
    else:
        value = dialect.month.format(days)
    return f"CASE WHEN {moment} >= {_FIRST_MOMENT} AND {moment} < {_AFTER_LAST} THEN {value} END"


# -- the same without an engine ----------------------------------------------------------------------------------------


def classes_of(axis: Axis, table: pa.Table) -> Ints:
    """The class of each row of a typed table: what the key of `key_of` stands for, computed here. It is for tables so
    small that a statement would take longer than its rows."""
    return _classes_of_values(axis, values_of(axis.scalar, table))


def _classes_of_values(axis: Axis, values: pa.Array) -> Ints:
    if not axis.by_list:
        return _classes(axis, values, _searched(axis.cuts))
    listed = pa.array(axis.listed, TYPES[axis.scalar.kind]).cast(values.type)  # An engine's texts are bytes.
    places = pc.index_in(values, value_set=listed).fill_null(len(listed))
    return axis.classes[np.where(np.asarray(values.is_null()), len(axis.classes) - 2, np.asarray(places))]


def units_of(scalar: Scalar, grid: Grid, table: pa.Table) -> Ints:
    """u of the value of each row of a typed table (`half_steps`), 0 where there is none."""
    values = values_of(scalar, table).cast(pa.float64(), safe=False)
    units = grid.half_steps(np.asarray(values.fill_null(grid.low)))
    units[np.asarray(values.is_null())] = 0
    return units


def values_of(scalar: Scalar, table: pa.Table) -> pa.Array:
    """The values of a scalar in a typed table: moments as numbers of microseconds."""
    column = table.column(field_of(kept(scalar))).combine_chunks()
    if scalar.kind != "moment" and scalar.part is None:
        return column
    moments = column.cast(pa.int64())
    return moments if scalar.part is None else _parts(moments, scalar.part)


def _parts(moments: pa.Array, part: str) -> pa.Array:
    """A part of each moment, as `_part` writes it."""
    numbers = np.asarray(moments.fill_null(_AFTER_LAST))
    inside = (numbers >= _FIRST_MOMENT) & (numbers < _AFTER_LAST)
    gone = np.where(inside, numbers, _FIRST_MOMENT) - _FIRST_MOMENT
    days = gone // (DAY * MICROSECONDS) + FIRST
    if part == "hour":
        values = gone // (3_600 * MICROSECONDS) % 24
    elif part == "weekday":
        values = weekday_of(days) + 1
    else:
        values = (month_of(days) + 2) % 12 + 1
    return pa.array(values, mask=~inside)
