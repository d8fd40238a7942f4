"""The public histogram → rows: an Arrow table in the schema's own values."""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.attribute import Attribute, Bins, Categories, Integers, Value
from treering.domain.schema import Schema

_SLICE: Final = 2**20
"""So many cells are looked at together."""

_TYPES: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64()}


def cells_at(places: Floats, cells: int, vector: Floats | None, slope: float, level: float) -> Ints:
    """The cells at increasing places of a cumulative distribution: slope·vector + level, or the uniform one."""
    if vector is None:
        return np.minimum(places * cells, cells - 1).astype(np.int64)
    found = np.empty(len(places), dtype=np.int64)
    done, below = 0, 0.0
    for start in range(0, cells, _SLICE):
        shares = slope * vector[start : start + _SLICE] + level
        above = below + float(shares.sum())
        end = int(np.searchsorted(places, above)) if start + len(shares) < cells else len(places)
        within = np.searchsorted(np.cumsum(shares), places[done:end] - below, side="right")
        found[done:end] = start + np.minimum(within, len(shares) - 1)
        done, below = end, above
    return found


def rows_of(schema: Schema, cells: Ints) -> pa.Table:
    """One row for each cell, with a value that belongs to the cell in each column.

    Categories and integers are themselves, a bin is the number in its middle, a missing value is null, and the cell of
    values not listed is a value that is not (`stand_in`): encoded again, the rows give the same cells.
    """
    columns: dict[str, pa.Array] = {}
    for name, attribute in reversed(list(schema.attributes.items())):
        cells, codes = np.divmod(cells, attribute.size)
        columns[name] = _values(attribute).take(pa.array(codes))
    return pa.table({name: columns[name] for name in schema.names})


def stand_in(attribute: Attribute) -> Value:
    """A value that is not listed, for the cell of all that are not.

    For texts it is OTHER (with as many underscores as it takes), for a range of integers the one after, for integer
    categories the first one unused, for bins a number beyond the last edge. Where both booleans are listed no row can
    be in that cell: there it is null.
    """
    if isinstance(attribute, Integers):
        return attribute.high + 1
    if isinstance(attribute, Bins):
        return attribute.edges[-1] + 1
    assert isinstance(attribute, Categories)
    listed = set(attribute.values)
    if isinstance(attribute.values[0], bool):
        return next((value for value in (False, True) if value not in listed), None)
    if isinstance(attribute.values[0], int):
        return next(value for value in count() if value not in listed)
    return next(text for text in ("OTHER" + "_" * length for length in count()) if text not in listed)


def _values(attribute: Attribute) -> pa.Array:
    """The value of each code."""
    values = [attribute.value(code) for code in range(attribute.size)]
    if attribute.other:
        values[attribute.regular] = stand_in(attribute)
    return pa.array(values, _TYPES[type(attribute.regular_value(0))])
