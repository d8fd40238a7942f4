"""The public values of attributes, as SQL sees them.

A code of a category or of an integer stands for one value, so any expression of it can be computed: `computed` has
DuckDB do so for all values at once. A bin, and a cell for values not listed, stand for many; they have labels only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from treering.arrays import Flags
from treering.domain.attribute import Attribute, Bins, Categories
from treering.domain.schema import Schema
from treering.domain.text import identifier
from treering.errors import QueryError
from treering.sql.duck import run

MAX_VALUES: Final = 2**16
"""The most joint values that an expression is computed for."""


class Computed(NamedTuple):
    """An expression of some attributes, for each of their joint values in the order of their codes."""

    positions: tuple[int, ...]
    """The attributes, increasing."""
    values: list[Any]
    known: Flags
    """False where a code stands for many values: what is said there means nothing."""


def position_of(column: exp.Column, schema: Schema) -> int:
    """The attribute that a column names, whatever the case of its letters."""
    names = [name.lower() for name in schema.names]
    return names.index(column.name.lower())


def positions_of(node: exp.Expr, schema: Schema) -> tuple[int, ...]:
    """The attributes that an expression names, increasing."""
    return tuple(sorted({position_of(column, schema) for column in node.find_all(exp.Column)}))


def computed(node: exp.Expr, schema: Schema) -> Computed:
    """The values of an expression of attributes."""
    positions = positions_of(node, schema)
    shape = tuple(schema.shape[position] for position in positions)
    joint = math.prod(shape)
    if joint > MAX_VALUES:
        names = ", ".join(identifier(schema.names[position]) for position in positions)
        raise QueryError(
            f"{names} have {joint:,} values together; an expression is worked out for {MAX_VALUES:,} at most"
        )
    codes = np.unravel_index(np.arange(joint), shape) if shape else ()
    columns: dict[str, pa.Array] = {"place": pa.array(np.arange(joint))}
    known = np.ones(joint, dtype=np.bool_)
    for position, chosen in zip(positions, codes, strict=True):
        attribute = schema.attributes[schema.names[position]]
        columns[f"a{position}"] = _single_values(attribute).take(pa.array(chosen))
        known &= single(attribute)[chosen]
    written = _renamed(node, schema).sql(dialect="duckdb")
    found = run(f"SELECT {written} AS v FROM codes ORDER BY place", {"codes": pa.table(columns)})
    return Computed(positions, found["v"].to_pylist(), known)


def single(attribute: Attribute) -> Flags:
    """Which codes stand for one value; null is one."""
    flags = np.zeros(attribute.size, dtype=np.bool_)
    flags[: attribute.regular] = not isinstance(attribute, Bins)
    if attribute.missing_code is not None:
        flags[attribute.missing_code] = True
    return flags


def _single_values(attribute: Attribute) -> pa.Array:
    """The value of each code, null where it stands for many."""
    known = single(attribute)
    listed = [attribute.value(code) if known[code] else None for code in range(attribute.size)]
    return pa.array(listed, type=arrow_type(attribute))


def arrow_type(attribute: Attribute) -> pa.DataType:
    """The type of an attribute's column in SQL."""
    if isinstance(attribute, Categories):
        return pa.array(attribute.values[:1]).type
    return pa.float64() if isinstance(attribute, Bins) else pa.int64()


def _renamed(node: exp.Expr, schema: Schema) -> exp.Expr:
    def rename(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column):
            return exp.column(f"a{position_of(each, schema)}", quoted=True)
        return each

    return node.copy().transform(rename)


def text_type(labels: Sequence[Any]) -> pa.Array:
    """Labels as a column; as texts if they are of several types."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        return pa.array([None if label is None else str(label) for label in labels])
    return pa.array(labels)
