"""Encoding rows against numpy's own `ravel_multi_index` on integers that are coded already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.harness import Result, ratio
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.trusted.rows.encode import encode

ROWS = 10_000_000
ORIGINS = ("EWR", "JFK", "LGA", "BOS")
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
SCHEMA = Schema(
    {
        "origin": categories(*ORIGINS),
        "carrier": categories(*CARRIERS),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440]),
    }
)


def results() -> Iterator[Result]:
    """One text column, one dictionary column, one of integers, one of floats; 10 million rows, all of them valid."""
    generator = np.random.default_rng(2013)
    codes = [generator.integers(0, size, ROWS) for size in SCHEMA.shape]
    lows = np.array([-1440.0, 0.0, 15.0, 60.0])
    table = pa.table(
        {
            "origin": pa.DictionaryArray.from_arrays(codes[0], list(ORIGINS)).dictionary_decode(),
            "carrier": pa.DictionaryArray.from_arrays(codes[1].astype(np.int8), list(CARRIERS)),
            "month": codes[2] + 1,
            "delay": lows[codes[3]] + generator.random(ROWS),
        }
    )
    cells, _ = encode(table, SCHEMA, drop=False)
    if not np.array_equal(cells, np.ravel_multi_index(codes, SCHEMA.shape)):
        raise AssertionError("the two sides must compute the same cells")
    yield ratio(
        "encode 10M rows x 4 attributes / ravel_multi_index",
        lambda: encode(table, SCHEMA, drop=False),
        lambda: np.ravel_multi_index(codes, SCHEMA.shape),
        limit=3,
    )
