"""Taking in a Parquet file against DuckDB's own GROUP BY of the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Result, ratio
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.trusted.engines.source import Source
from treering.trusted.rows.kept import Rows

ROWS = 10_000_000
ORIGINS = ("EWR", "JFK", "LGA", "BOS")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
SCHEMA = Schema(
    {
        "origin": categories(*ORIGINS, other=True),
        "carrier": categories(*CARRIERS, other=True),
        "month": integers(1, 12),
        "hour": bins([0, 6, 12, 18, 24], missing=True),
    }
)
BLOCK = 1_000_000
REPEATS = 21
"""More than usual: single ratios of a few tenths of a second, on all processors, vary with all else that runs."""


def write(path: Path, rows: int) -> None:
    """Rows with an identity, texts, integers, and as many nulls as real tables have."""
    generator = np.random.default_rng(2013)
    names = [np.array(ORIGINS), np.array(CARRIERS)]
    writer: pq.ParquetWriter | None = None
    for start in range(0, rows, BLOCK):
        size = min(BLOCK, rows - start)
        block = pa.table(
            {
                "id": np.arange(start, start + size),
                "origin": names[0][generator.integers(0, 4, size)],
                "carrier": names[1][generator.integers(0, 16, size)],
                "month": generator.integers(1, 13, size),
                "hour": pa.array(generator.integers(0, 24, size), mask=generator.random(size) < 0.02),
            }
        )
        writer = writer or pq.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def results() -> Iterator[Result]:
    """10 million rows of two text columns and two of integers, into new `Rows`, the watermark and all checks."""
    with TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "rows.parquet"
        write(path, ROWS)
        source = Source.of(f"parquet://{path}", SCHEMA)

        def ours() -> int:
            increment = source.increments(None)
            rows = Rows(SCHEMA)
            rows.add_cells(increment.cells, increment.counts)
            return rows.size

        def reference() -> int:
            with duckdb.connect() as connection:
                groups = connection.sql(
                    f"SELECT origin, carrier, month, hour, count(*) AS rows FROM read_parquet('{path}') GROUP BY ALL"
                ).to_arrow_table()
            return int(np.asarray(groups["rows"]).sum())

        if not ours() == reference() == ROWS:
            raise AssertionError("the two sides must count the same rows")
        name = "ingest 10M Parquet rows / DuckDB's own GROUP BY"
        yield ratio(name, ours, reference, limit=1.5, repeats=REPEATS)
        yield ratio(f"{name}, CPU", ours, reference, limit=1.5, repeats=REPEATS, clock=process_time)
