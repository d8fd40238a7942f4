"""Rows that stay in a Parquet file at an address: a refresh, and a new series, against DuckDB's own GROUP BY.

A claim "at most 1.5 times the reference, plus 20 ms" is measured with those milliseconds, divided by the limit, in the
reference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Action, Result, ratio
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.mechanisms.rings import Rings
from treering.trusted.engines.source import Source
from treering.trusted.store import GrowingDatabase

ROWS = 10_000_000
ORIGINS = ("EWR", "JFK", "LGA", "BOS")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
SCHEMA = Schema(
    {
        "origin": categories(*ORIGINS, other=True, missing=True),
        "carrier": categories(*CARRIERS, other=True, missing=True),
        "month": integers(1, 12, other=True, missing=True),
        "hour": bins([0, 6, 12, 18, 24], other=True, missing=True),
    }
)
STRICT = Schema(
    {
        "origin": categories(*ORIGINS, other=True),
        "carrier": categories(*CARRIERS, other=True),
        "month": integers(1, 12),
        "hour": bins([0, 6, 12, 18, 24], missing=True),
    }
)
"""Rows without an origin, a carrier or a month do not fit, nor months and hours that there are not."""
BLOCK = 1_000_000
LIMIT = 1.5
FIXED = 0.02
"""Seconds that are no part of the ratio: a connection is opened for each statement."""


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
    """10 million rows of two text columns and two of integers."""
    with TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "rows.parquet"
        write(path, ROWS)
        question = _grouping(path, "carrier = 'AA' AND month <= 6 AS g")
        yield _claim("refresh over 10M Parquet rows", _refreshing(path, SCHEMA), question)
        every = _grouping(path, "origin, carrier, month, hour")
        yield _claim("refresh that refuses values", _refreshing(path, STRICT), every)
        db = GrowingDatabase.from_table(f"parquet://{path}", SCHEMA)

        def opened() -> None:
            rings = Rings(db, 1000.0, 1e-6)
            if rings.ask("carrier = 'AA' AND month <= 6").size != ROWS or len(rings.series) != 1:
                raise AssertionError("a new series was to be opened")

        yield _claim("opening a series over 10M Parquet rows", opened, question)


def _claim(name: str, ours: Action, reference: Action) -> Result:
    return ratio(f"{name} / DuckDB's own GROUP BY + 20 ms", ours, reference, limit=LIMIT, repeats=9)


def _refreshing(path: Path, schema: Schema) -> Action:
    source = Source.of(f"parquet://{path}", schema)

    def refresh() -> None:
        if source.increment(None).rows != ROWS:
            raise AssertionError("all rows were to be taken in")

    return refresh


def _grouping(path: Path, columns: str) -> Action:
    """DuckDB's own GROUP BY, over a connection that is open."""
    connection = duckdb.connect(":memory:")

    def group() -> None:
        text = f"SELECT {columns}, count(*) FROM read_parquet('{path}') GROUP BY ALL"
        if sum(line[-1] for line in connection.execute(text).fetchall()) != ROWS:
            raise AssertionError("the two sides must count the same rows")
        time.sleep(FIXED / LIMIT)

    return group
