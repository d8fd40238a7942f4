"""The lens: typed rows and SQL give the codes and the sums that attributes and grids have, value by value."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.coded import plain_code
from support.schemas import schemas
from treering.arrays import Ints
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.axis import EMPTY, Axis, scalar_of
from treering.domain.calendar import Dated
from treering.domain.sums import Grid
from treering.trusted.dialect import MOST_CUTS
from treering.trusted.rows.lens import half_steps, key_of
from treering.trusted.rows.typed import typed

CONNECTION = duckdb.connect(":memory:")


def column_for(attribute: Attribute, generator: np.random.Generator, rows: int) -> pa.Array:
    """Values of all sorts that an attribute may meet."""
    if isinstance(attribute, Categories):
        kind = type(attribute.values[0])
        others: dict[type, list[Any]] = {str: ["", "else", "\x00", "ß"], int: [-77, 10**12], bool: []}
        pool = [None, *attribute.values, *others[kind]]
        return pa.array([pool[each] for each in generator.integers(0, len(pool), rows)], column_type(kind))
    if isinstance(attribute, Dated):
        start = datetime(1, 1, 1)
        days = generator.integers(0, 3_652_058, rows)
        near = generator.integers(0, 2, rows).astype(bool)
        moments = [
            (datetime(2013, 1, 1) + timedelta(days=int(day) % 3000, microseconds=int(day) * 977_777))
            if close
            else start + timedelta(days=int(day), hours=int(day) % 24)
            for day, close in zip(days, near, strict=True)
        ]
        return pa.array([None if number % 17 == 0 else each for number, each in enumerate(moments)], pa.timestamp("us"))
    if isinstance(attribute, Integers):
        low, high = max(-(2**62), attribute.low - 3), min(2**62, attribute.high + 3)
        values = generator.integers(low, high, rows, endpoint=True)
        return pa.array(values, mask=generator.random(rows) < 0.1)
    assert isinstance(attribute, Bins)
    edges = np.array(attribute.edges)
    values = np.concatenate(
        [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), [np.nan, np.inf, -np.inf]]
    )
    return pa.array(generator.choice(values, rows), mask=generator.random(rows) < 0.1)


def column_type(kind: type) -> pa.DataType:
    return {str: pa.string(), int: pa.int64(), bool: pa.bool_()}[kind]


def codes_of(name: str, attribute: Attribute, column: pa.Array) -> Ints:
    """The codes by the lens: each row's key, in order, and what it stands for; `EMPTY` where the row does not fit."""
    schema = tr.Schema({name: attribute})
    rows = typed(pa.table({attribute.column or name: column}), schema)
    axis = Axis.of(name, attribute)
    key = key_of(axis, "listed")
    rows = rows.append_column("place", pa.array(np.arange(rows.num_rows)))
    cursor = CONNECTION.cursor()
    cursor.register("rows", rows)
    join = ""
    if key.listed is not None:
        cursor.register("listed", key.listed)
        join = f'LEFT JOIN "listed" ON "listed".value = rows."{rows.column_names[0]}"'
    text = f"SELECT {key.expression} AS k FROM rows {join} ORDER BY place"
    keys = cursor.sql(text, params=dict(key.parameters)).to_arrow_table()
    return key.classify(keys.column("k"))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_lens_gives_the_codes_of_the_attribute(data: st.DataObject) -> None:
    schema = data.draw(schemas(most_attributes=1, most_values=40))
    (name,) = schema.names
    attribute = schema.attributes[name]
    column = column_for(attribute, np.random.default_rng(data.draw(st.integers(0, 2**32))), 300)
    expected = [plain_code(attribute, value) for value in column.to_pylist()]
    assert codes_of(name, attribute, column).tolist() == expected


@pytest.mark.parametrize(
    "attribute",
    [
        tr.bins([float(edge) ** 1.5 for edge in range(MOST_CUTS)], other=True, missing=True),
        tr.bins([float(edge) ** 1.5 for edge in range(200)], other=True, missing=True),
        tr.integers(-5, 5, other=True, missing=True),
        tr.dates("2013-01-01", "2019-12-31", by="month"),
        tr.dates("2013-01-01", "2013-02-28", by="day"),
        *(tr.dates(part=part) for part in ("hour", "weekday", "month")),
        tr.categories("a'; DROP TABLE rows; --", '"', "\\", other=True, missing=True),
        tr.categories(*range(0, 4000, 3), other=True, missing=True),
    ],
)
def test_every_way_to_write_a_key(attribute: Attribute) -> None:
    column = column_for(attribute, np.random.default_rng(1), 5000)
    expected = [plain_code(attribute, value) for value in column.to_pylist()]
    assert EMPTY not in expected
    assert codes_of("x", attribute, column).tolist() == expected


@pytest.mark.parametrize("attribute", [tr.numbers(-3, 500, step=0.01, edges=[0, 1, 100]), tr.numbers(0, 1, step=1 / 8)])
def test_half_steps_are_those_of_the_grid(attribute: Bins) -> None:
    grid = Grid.of(attribute)
    assert grid is not None
    generator = np.random.default_rng(2)
    values = np.concatenate([generator.uniform(-10, 510, 5000), np.arange(-4, 501, 0.005), [np.inf, -np.inf, np.nan]])
    rows = typed(pa.table({"x": values}), tr.Schema({"x": attribute}))
    cursor = CONNECTION.cursor()
    cursor.register("rows", rows.append_column("place", pa.array(np.arange(len(values)))))
    expression = half_steps(scalar_of("x", attribute), grid)
    found = cursor.sql(f"SELECT {expression} AS u FROM rows ORDER BY place").to_arrow_table()["u"]
    expected = np.where(np.isnan(values), 0, grid.half_steps(np.nan_to_num(values, nan=0.0, posinf=1e9, neginf=-1e9)))
    assert found.to_pylist() == expected.tolist()


def test_dates_before_and_after_all_years_are_kept_on_their_side() -> None:
    column = pa.array([-(10**8), 0, 10**8], pa.int32()).cast(pa.date32())
    attribute = tr.dates("2013-01-01", "2013-12-31", by="year")
    assert codes_of("x", attribute, column).tolist() == [attribute.regular, attribute.regular, attribute.regular + 1]
    assert codes_of("x", tr.dates(part="month"), column).tolist() == [12, 0, 12]
    assert codes_of("x", attribute, pa.array([date(2013, 5, 5)])).tolist() == [0]
