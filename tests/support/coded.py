"""Rows as the cells and half steps that they are counted in: typed by the intake, sorted by the axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.domain.attribute import Attribute
from treering.domain.axis import EMPTY, Axis, scalar_of
from treering.domain.calendar import DatePart
from treering.domain.numeric import Numbers
from treering.domain.schema import Schema
from treering.domain.sums import Grid
from treering.trusted.rows.intake import Intake, typed_blocks
from treering.trusted.rows.lens import classes_of, units_of
from treering.trusted.rows.persons import Persons
from treering.trusted.rows.typed import typed


def taken(frame: Any, schema: Schema, persons: Persons | None = None, *, drop: bool = False) -> tuple[pa.Table, Intake]:
    """The rows of a frame as one typed table, and what was read."""
    intake = Intake()
    return pa.concat_tables(list(typed_blocks(frame, schema, persons, drop=drop, intake=intake))), intake


def cells_of(table: pa.Table, schema: Schema) -> Ints:
    """The cell of each row of a typed table; `EMPTY` for a row that a strict attribute refuses."""
    cells = np.zeros(table.num_rows, dtype=np.int64)
    for name, attribute in schema.attributes.items():
        codes = classes_of(Axis.of(name, attribute), table)
        cells = np.where((codes == EMPTY) | (cells == EMPTY), EMPTY, cells * attribute.size + codes)
    return cells


def sums_of(table: pa.Table, schema: Schema) -> tuple[Ints, ...]:
    """u of each row of a typed table, for each attribute of `numbers`."""
    found = []
    for name, attribute in schema.attributes.items():
        if isinstance(attribute, Numbers):
            grid = Grid.of(attribute)
            assert grid is not None
            found.append(units_of(scalar_of(name, attribute), grid, table))
    return tuple(found)


def coded(frame: Any, schema: Schema, *, drop: bool = False) -> tuple[Ints, int]:
    """The cells of the rows of a frame that fit, and how many do not (only with ``drop``)."""
    table, intake = taken(frame, schema, drop=drop)
    return cells_of(table, schema), intake.dropped


def codes_of(attribute: Attribute, column: pa.Array, *, texts: bool = False) -> Ints:
    """The codes of the values of a column; `EMPTY` for those that a strict attribute refuses."""
    schema = Schema({"x": replace(attribute, column=None)})
    table = pa.table({"x": column})
    return cells_of(typed(table, schema, texts=texts), schema)


def code_of(attribute: Attribute, value: Any) -> int:
    """The code of a value as Python has it, in a row that is a dict."""
    return int(coded([{"x": value}], Schema({"x": replace(attribute, column=None)}))[0][0])


def plain_code(attribute: Attribute, value: Any) -> int:
    """The code of a typed value by the attribute's own words for public values; `EMPTY` if it has none."""
    if isinstance(attribute, DatePart) and value is not None:
        value = attribute.part_of(value)
    if value is None or value != value:
        code = attribute.missing_code
    else:
        code = attribute.regular_code(value)
        code = attribute.outside_code(value) if code is None else code
    return EMPTY if code is None else code
