"""Rows as what they add to sums: u of each value, in half steps (``domain/sums.py``).

A value is made a double first, and a double is counted in steps by the same operations here and in every engine
(``engines/binning.py``), so every engine has the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.schema import Schema
from treering.domain.sums import Grid, stored
from treering.trusted.rows.texts import typed


def half_steps(frame: Any, schema: Schema, *, texts: bool = False) -> tuple[Ints, ...]:
    """PRIVATE: for each attribute whose sums are stored, u of each row of ``frame`` (an Arrow table or a sequence of
    dicts that was encoded): 0 where there is no value. ``texts``: all columns are texts of a file."""
    return tuple(_column(frame, schema, position, texts) for position in stored(schema))


def _column(frame: Any, schema: Schema, position: int, texts: bool) -> Ints:
    source, attribute = schema.sources[position], schema.attributes[schema.names[position]]
    grid = Grid.of(attribute)
    assert grid is not None
    if isinstance(frame, pa.Table):
        column = frame.column(source)
        if texts:
            column = pa.chunked_array([typed(attribute, chunk) for chunk in column.chunks], pa.float64())
        values = doubles(column)
    else:
        values = _listed([row[source] for row in frame])
    absent = np.isnan(values)
    if not absent.any():
        return grid.half_steps(values)
    units = grid.half_steps(np.where(absent, grid.low, values))
    units[absent] = 0
    return units


def doubles(column: pa.ChunkedArray) -> Floats:
    """PRIVATE: a column of numbers as doubles, NaN where there is none."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    missing = np.asarray(column.is_null())
    plain = decimals_as_doubles(column) if pa.types.is_decimal(column.type) else column
    found = np.asarray(plain.fill_null(0)).astype(np.float64)
    found[missing] = np.nan
    return found


def decimals_as_doubles(column: Any) -> Any:
    """PRIVATE: decimals as the doubles nearest to them, as engines have them. (Arrow's own cast multiplies by a rounded
    power of ten; its text of a decimal is exact, and its reading of that text is right.)"""
    return column.cast(pa.string()).cast(pa.float64())


def _listed(values: Sequence[Any]) -> Floats:
    return np.array([_double(value.item() if isinstance(value, np.generic) else value) for value in values], float)


def _double(value: Any) -> float:
    """A single value as a double, NaN for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # An integer beyond all doubles is beyond all bounds.
        return math.inf if value > 0 else -math.inf
