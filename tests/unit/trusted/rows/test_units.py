"""What rows add to sums: the same from every kind of column, 0 where there is no value, and never a fault."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import treering as tr
from treering.trusted.rows.batches import Batch, read_batch, take_in
from treering.trusted.rows.encode import encode_rows
from treering.trusted.rows.units import half_steps

SCHEMA = tr.Schema({"a": tr.categories("x", "y"), "v": tr.numbers(-10, 10, step=0.25, edges=[-10, 0, 10], column="w")})
VALUES = [0.1, 0.125, -0.125, -9.9, 10.0, 11.0, -math.inf, math.inf, math.nan, None]
UNITS = [0, 2, 0, -80, 80, 80, -80, 80, 0, 0]


@pytest.mark.parametrize(
    "frame",
    [
        pa.table({"a": ["x"] * 10, "w": pa.array(VALUES, pa.float64())}),
        pa.table({"a": ["x"] * 10, "w": pa.chunked_array([VALUES[:3], VALUES[3:]], pa.float32())}),
        pa.table({"a": ["x"] * 10, "w": pa.array(VALUES, pa.float64()).dictionary_encode()}),
        pd.DataFrame({"a": ["x"] * 10, "w": VALUES}),
        pl.DataFrame({"a": ["x"] * 10, "w": VALUES}),
        [{"a": "x", "w": value} for value in VALUES],
        [{"a": "x", "w": None if value is None else np.float64(value)} for value in VALUES],
    ],
    ids=["arrow", "single precision, in parts", "dictionary", "pandas", "polars", "dicts", "numpy scalars"],
)  # fmt: skip
def test_units_of_floats(frame: Any) -> None:
    rows, dropped = encode_rows(frame, SCHEMA, drop=False)
    assert dropped == 0
    assert rows.sums[0].tolist() == UNITS


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, -11, 2**62, None], pa.int64()),
        pa.array([3, -11, 100, None], pa.int8()),
        pa.array([Decimal("3.00"), Decimal("-11.5"), Decimal("99999.99"), None], pa.decimal128(10, 2)),
        pa.array([3.0, -11.0, 1e300, None]),
    ],
    ids=str,
)
def test_units_of_other_numbers(column: pa.Array) -> None:
    rows, _ = encode_rows(pa.table({"a": ["y"] * 4, "w": column}), SCHEMA, drop=False)
    assert rows.sums[0].tolist() == [24, -80, 80, 0]


def test_a_single_is_the_double_that_it_is_and_not_the_one_that_is_written_alike() -> None:
    schema = tr.Schema({"v": tr.numbers(0, 3, step=0.1, edges=[1, 2])})
    half = np.array([0.15], dtype=np.float32)
    units = [half_steps(pa.table({"v": each}), schema)[0].tolist() for each in (half, half.astype(float), [0.15])]
    assert units == [[-26], [-26], [-28]]


def test_an_unsigned_integer_beyond_64_bits_and_one_beyond_all_doubles_are_clipped() -> None:
    table = pa.table({"a": ["x"], "w": pa.array([2**64 - 1], pa.uint64())})
    assert encode_rows(table, SCHEMA, drop=False)[0].sums[0].tolist() == [80]
    rows = [{"a": "x", "w": 10**400}, {"a": "x", "w": -(10**400)}]
    assert half_steps(rows, SCHEMA)[0].tolist() == [80, -80]


def test_a_column_of_nulls_has_no_sums_and_rows_that_do_not_fit_are_left_out() -> None:
    assert half_steps(pa.table({"a": ["x"] * 2, "w": pa.nulls(2)}), SCHEMA)[0].tolist() == [0, 0]
    rows, dropped = encode_rows(
        [{"a": "x", "w": 1.0}, {"a": "z", "w": 9.0}, {"a": "y", "w": "many"}, {"a": "y", "w": -1.0}], SCHEMA, drop=True
    )
    assert (rows.sums[0].tolist(), dropped) == ([8, -8], 2)


def test_a_batch_adds_up_the_units_of_each_cell_and_survives_its_file() -> None:
    frame = [{"a": "x", "w": value} for value in (1.0, 1.5, -2.0, None)] + [{"a": "y", "w": 5.0}]
    batch, _ = take_in(frame, SCHEMA, None, drop=False)
    assert (batch.counts.tolist(), batch.sums[0].tolist()) == ([1, 2, 1, 1], [-16, 20, 0, 40])
    again = read_batch(batch.packed(), "part", sums=1)
    assert (again.counts.tolist(), again.sums[0].tolist()) == (batch.counts.tolist(), batch.sums[0].tolist())
    for sums in (0, 2):
        with pytest.raises(tr.DamagedVault):
            read_batch(batch.packed(), "part", sums=sums)
    plain = Batch.of(np.array([1, 1, 2]))
    assert read_batch(plain.packed(), "part").sums == ()
