"""PRIVATE: which columns have few distinct values, by a sample. DuckDB groups by such a column as it is, which is
faster than by any expression of it, and classes are looked up once for each group.

A sample proves nothing. What is decided by it changes how long counting takes, never what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SAMPLE: Final = 2**12
"""The most rows of a sample: several are taken, which lie far apart, and looked at together."""
MOST_DISTINCT: Final = 64
"""The most distinct values, in samples, of a column that has few."""
RECURRING: Final = 4
"""How often values recur, at least, on average, in samples of a column that has few."""
MOST_JOINT: Final = 2**12
"""The most joint values, by samples, of columns that rows are grouped by together."""


def few_valued(contents: Sequence[pa.Table | Path], columns: Sequence[str]) -> frozenset[str]:
    """Columns that seem to have few distinct values, so few that they have few joint ones, too."""
    places = sorted({0, len(contents) // 2, len(contents) - 1})
    samples = [each for place in places if columns for each in _samples(contents[place], list(columns))]
    if not samples:
        return frozenset()
    try:
        sample = pa.concat_tables(samples)
    except pa.ArrowException:  # Files may pack one type in different ways.
        return frozenset()
    counts = {name: pc.count_distinct(sample.column(name), mode="all").as_py() for name in sample.column_names}
    joint, few = 1, set()
    for name, number in sorted(counts.items(), key=lambda each: each[1]):
        joint *= number
        if number <= MOST_DISTINCT and RECURRING * number <= sample.num_rows and joint <= MOST_JOINT:
            few.add(name)
    return frozenset(few)


def _samples(content: pa.Table | Path, columns: list[str]) -> list[pa.Table]:
    """Rows from the beginning, the middle and the end. A file that cannot be read has none: counting it will say so."""
    if isinstance(content, pa.Table):
        starts = (0, content.num_rows // 2, content.num_rows - SAMPLE)
        return [content.select(columns).slice(max(0, start), SAMPLE) for start in starts]
    with suppress(pa.ArrowException, OSError, StopIteration), pq.ParquetFile(content, pre_buffer=False) as file:
        groups = sorted({0, file.num_row_groups // 2, file.num_row_groups - 1})
        batches = [next(file.iter_batches(SAMPLE, row_groups=[group], columns=columns)) for group in groups]
        return [pa.Table.from_batches([each]).replace_schema_metadata() for each in batches]
    return []
