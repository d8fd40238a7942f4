"""The public values of attributes, as SQL sees them.

A code of a category, an integer or a day stands for one value, so any expression of it can be computed: `computed` has
DuckDB do so for all values at once. A bin, a month, and a cell for values out of range stand for many; of these only
labels are known, and of a month the month, the quarter and the year.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from treering.arrays import Flags
from treering.deadline import check as check_deadline
from treering.domain.attribute import Attribute, Bins, Categories
from treering.domain.calendar import Dates
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError, TimeLimit
from treering.sql.duck import run

MAX_VALUES: Final = 2**16
"""The most joint values that an expression is computed for."""

MAX_CELLS: Final = 2**21
"""The most values, of all expressions together, that one run gives."""

_CODES: Final = "codes"

_WITHIN: Final = {
    "day": ("day", "week", "month", "quarter", "year"),
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}
"""For each unit, the units that it lies within."""


_CALLED: Final = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "hour": "hour",
    "dayofweek": "dow",
    "dayofweekiso": "isodow",
}
"""The units of functions that are named by them."""


class Computed(NamedTuple):
    """An expression of some attributes, for each of their joint values in the order of their codes."""

    positions: tuple[int, ...]
    """The attributes, increasing."""
    values: list[Any]
    known: Flags
    """False where a code stands for many values: what is said there means nothing."""


class Evaluated(NamedTuple):
    """The same as `Computed`, with its values in Arrow."""

    positions: tuple[int, ...]
    values: pa.ChunkedArray
    known: Flags


def position_of(column: exp.Column, schema: Schema) -> int:
    """The attribute that a column names, whatever the case of its letters."""
    found = _places(schema).get(column.name.lower())
    if found is None:
        raise QueryError(f"there is no attribute {column.name!r}; there are: {', '.join(schema.names)}")
    return found


def _places(schema: Schema) -> dict[str, int]:
    return {name.lower(): position for position, name in enumerate(schema.names)}


def attribute_of(column: exp.Column, schema: Schema) -> Attribute:
    """The attribute that a column names."""
    return schema.attributes[schema.names[position_of(column, schema)]]


def positions_of(node: exp.Expr, schema: Schema) -> tuple[int, ...]:
    """The attributes that an expression names, increasing."""
    return tuple(sorted({position_of(column, schema) for column in node.find_all(exp.Column)}))


def computed(node: exp.Expr, schema: Schema) -> Computed:
    """The values of an expression of attributes."""
    (outcome,) = evaluated([node], schema)
    if isinstance(outcome, QueryError):
        raise outcome
    return Computed(outcome.positions, [_plain(value) for value in outcome.values.to_pylist()], outcome.known)


def computed_at(node: exp.Expr, schema: Schema, position: int, numbers: Sequence[float]) -> list[Any]:
    """The values of an expression of one attribute where that is one of some numbers."""
    table = pa.table({"place": range(len(numbers)), f"a{position}": pa.array(numbers, pa.float64())})
    (column,) = _columns([_renamed(node, schema)], table)
    if isinstance(column, QueryError):
        raise column
    return [_plain(value) for value in column.to_pylist()]


def evaluated(nodes: Sequence[exp.Expr], schema: Schema) -> list[Evaluated | QueryError]:
    """The values of each expression of attributes, or why there are none: in one run for all expressions of the same
    attributes."""
    outcomes: dict[int, Evaluated | QueryError] = {}
    places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, node in enumerate(nodes):
        try:
            places[_checked_positions(node, schema)].append(place)
        except QueryError as refusal:
            outcomes[place] = refusal
    for positions, chosen in places.items():
        check_deadline()
        table, known = _joint_values(positions, schema)
        for place, column in zip(
            chosen, _columns([_renamed(nodes[each], schema) for each in chosen], table), strict=True
        ):
            is_error = isinstance(column, QueryError)
            outcomes[place] = column if is_error else Evaluated(positions, column, known)
    return [outcomes[place] for place in range(len(nodes))]


def constants(nodes: Sequence[exp.Expr]) -> list[Any]:
    """The value of each expression without columns, or the `QueryError` that refuses it; in one run."""
    columns = _columns([node.copy() for node in nodes], pa.table({"place": [0]}))
    return [column if isinstance(column, QueryError) else column[0].as_py() for column in columns]


def _columns(nodes: Sequence[exp.Expr], table: pa.Table) -> list[pa.ChunkedArray | QueryError]:
    """A column for each expression over a table, or why there is none."""
    most = max(1, MAX_CELLS // max(1, table.num_rows))
    found: list[pa.ChunkedArray | QueryError] = []
    for first in range(0, len(nodes), most):
        found += _halved(nodes[first : first + most], table)
    return found


def _halved(nodes: Sequence[exp.Expr], table: pa.Table) -> list[pa.ChunkedArray | QueryError]:
    """All expressions in one run; if one is refused, those of each half, so that the others are not."""
    check_deadline()
    try:
        result = run(_select(nodes), {_CODES: table})
    except TimeLimit:
        raise
    except QueryError as refusal:
        if len(nodes) == 1:
            return [refusal]
        half = len(nodes) // 2
        return [*_halved(nodes[:half], table), *_halved(nodes[half:], table)]
    return list(result.columns)


def _select(nodes: Sequence[exp.Expr]) -> exp.Select:
    """SELECT … AS v0, … AS v1 FROM codes ORDER BY place."""
    columns = [exp.alias_(node, f"v{number}", quoted=True) for number, node in enumerate(nodes)]
    source = exp.Table(this=exp.to_identifier(_CODES, quoted=True))
    return exp.select(*columns).from_(source).order_by(exp.column("place", quoted=True))


def _checked_positions(node: exp.Expr, schema: Schema) -> tuple[int, ...]:
    """The attributes that an expression names; refused where it cannot be worked out for each of their values."""
    positions = positions_of(node, schema)
    joint = math.prod(schema.shape[position] for position in positions)
    if joint > MAX_VALUES:
        names = ", ".join(identifier(schema.names[position]) for position in positions)
        raise QueryError(f"{names} have {joint:,} joint values: expressions are worked out for {MAX_VALUES:,} at most")
    _check_units(node, schema)
    return positions


def _joint_values(positions: tuple[int, ...], schema: Schema) -> tuple[pa.Table, Flags]:
    """The joint values of some attributes, and which of them stand for one value each."""
    shape = tuple(schema.shape[position] for position in positions)
    joint = math.prod(shape)
    codes = np.unravel_index(np.arange(joint), shape) if shape else ()
    columns: dict[str, pa.Array] = {"place": pa.array(np.arange(joint))}
    known = np.ones(joint, dtype=np.bool_)
    for position, chosen in zip(positions, codes, strict=True):
        attribute = schema.attributes[schema.names[position]]
        columns[f"a{position}"] = _single_values(attribute).take(pa.array(chosen))
        known &= single(attribute)[chosen]
    return pa.table(columns), known


def _plain(value: Any) -> Any:
    """A timestamp, such as date_trunc gives, is a date here."""
    return value.date() if isinstance(value, datetime) else value


def single(attribute: Attribute) -> Flags:
    """Which codes stand for one value, as far as expressions can tell; null is one."""
    flags = np.zeros(attribute.size, dtype=np.bool_)
    flags[: attribute.regular] = not isinstance(attribute, Bins)
    if attribute.missing_code is not None:
        flags[attribute.missing_code] = True
    return flags


def special(attribute: Attribute) -> Flags:
    """The codes of what is out of range, not listed or missing."""
    return np.arange(attribute.size) >= attribute.regular


@lru_cache(maxsize=64)
def _single_values(attribute: Attribute) -> pa.Array:
    """The value of each code, null where it stands for many."""
    known = single(attribute)
    listed = [attribute.value(code) if known[code] else None for code in range(attribute.size)]
    return pa.array(listed, type=arrow_type(attribute))


def arrow_type(attribute: Attribute) -> pa.DataType:
    """The type of an attribute's column in SQL."""
    if isinstance(attribute, Categories):
        return pa.array(attribute.values[:1]).type
    if isinstance(attribute, Dates):
        return pa.date32()
    return pa.float64() if isinstance(attribute, Bins) else pa.int64()


def label(attribute: Attribute, code: int) -> Any:
    """The label of a group: a date as such, everything else as people read it."""
    value = attribute.value(code)
    return value if isinstance(value, date) else attribute.label(code)


def _renamed(node: exp.Expr, schema: Schema) -> exp.Expr:
    def rename(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column):
            return exp.column(f"a{position_of(each, schema)}", quoted=True)
        return each

    return node.copy().transform(rename)


# -- dates that are known by weeks, months, quarters or years ----------------------------------------------------------


def _check_units(node: exp.Expr, schema: Schema) -> None:
    """Refuse what cannot be told of a period: the day of a month, say."""
    for column in node.find_all(exp.Column):
        attribute = attribute_of(column, schema)
        if not isinstance(attribute, Dates) or attribute.by == "day":
            continue
        if unit_of(column.parent) not in _WITHIN[attribute.by]:
            raise QueryError(
                f"{identifier(column.name)} is known by {attribute.by} only: group by it, or by "
                f"date_trunc('{_WITHIN[attribute.by][-1]}', {identifier(column.name)})"
            )


def unit_of(node: exp.Expr | None) -> str | None:
    """The unit of a date_trunc or EXTRACT."""
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return str(node.args["unit"].name).lower()
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower()
    return _CALLED.get(node.key) if node is not None else None
