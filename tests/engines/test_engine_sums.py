"""Every engine has the same sums of the same nasty rows, cell by cell, as typed rows have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import treering as tr
from support.coded import cells_of, sums_of
from support.engines import DuckDB, Stage
from support.nasty_sums import SCHEMA, rows
from treering.trusted.engines.source import Increment, Source
from treering.trusted.rows.typed import typed


def bulk(number: int) -> pa.Table:
    """Many rows, drawn: steps and the middles between them, and what lies around."""
    generator = np.random.default_rng(11)
    halves = generator.integers(-2000, 500_000, number) * 0.005
    return pa.table(
        {
            "id": pa.array(np.arange(number)),
            "a": pa.array(generator.choice(["x", "y"], number)),
            "cents": pa.array(halves),
            "single": pa.array(generator.normal(1, 1, number).astype(np.float32)),
            "whole": pa.array(generator.integers(-200, 200, number).astype(np.int16)),
            "huge": pa.array(generator.integers(-(2**63), 2**63, number)),
            "price": pa.array(generator.integers(-10_000, 300_000, number) / 1000).cast(pa.decimal128(9, 3)),
            "empty": pa.array(generator.random(number)),
        }
    )


def counted(increment: Increment) -> dict[int, tuple[int, ...]]:
    return by_cell(increment.cells, increment.counts, *increment.sums)


def by_cell(cells: Any, *columns: Any) -> dict[int, tuple[int, ...]]:
    return dict(zip(cells.tolist(), zip(*(column.tolist() for column in columns), strict=True), strict=True))


def expected(table: pa.Table) -> dict[int, tuple[int, ...]]:
    found = typed(table, SCHEMA)
    cells, place, counts = np.unique(cells_of(found, SCHEMA), return_inverse=True, return_counts=True)
    totals = [np.bincount(place, weights=column).astype(np.int64) for column in sums_of(found, SCHEMA)]
    return by_cell(cells, counts, *totals)


def test_nasty_rows_have_the_same_sums_in_every_engine(stage: Stage) -> None:
    table = rows()
    stage.create(table)
    increment = Source.of(stage.source, SCHEMA).increments(None)
    assert counted(increment) == expected(table)
    later = rows(200, 5000)
    stage.add(later)
    assert counted(Source.of(stage.source, SCHEMA).increments(increment.watermark)) == expected(later)


def test_many_rows_at_the_middles_between_steps(stage: Stage) -> None:
    table = bulk(20_000)
    stage.create(table)
    assert counted(Source.of(stage.source, SCHEMA).increments(None)) == expected(table)


def test_a_database_over_a_table_answers_sums(tmp_path: Path) -> None:
    table, stage = bulk(20_000), DuckDB(tmp_path)
    stage.create(table)
    db = tr.GrowingDatabase.from_table(stage.source, SCHEMA)
    rings = tr.Rings(db, 100.0, 1e-6, 1e-9)
    found = rings.mean("whole", "a = 'x'")
    values = np.clip(np.asarray(table["whole"]), -100, 100)[np.asarray(table["a"]) == "x"]
    assert found.value is not None
    assert found.error is not None
    assert abs(found.value - values.mean()) <= found.error
    assert found.error < 1
