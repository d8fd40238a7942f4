"""Persons: a series of flags opened, and its next leaf; against DuckDB's own GROUP BY person, group.

Ten million rows of 300,000 persons, in 36 groups: as a vault keeps them, and read by the same engine on either side.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Action, Result, ratio
from treering.domain.attribute import categories, integers
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Capped
from treering.trusted.operations.firsts import Book
from treering.trusted.rows.intake import PERSON, batch_schema
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.tally import Engine

ROWS: Final = 10_000_000
PERSONS: Final = 300_000
LEAF: Final = ROWS // 100
WARDS: Final = ("north", "south", "west")
SCHEMA: Final = Schema({"ward": categories(*WARDS), "month": integers(1, 12)})
GROUPS: Final = Groups.of([Query.where(SCHEMA, ward=ward, month=month) for ward in WARDS for month in range(1, 13)])
FLAGS: Final = Capped(1, 36, 100, Fraction(1))


def results() -> Iterator[Result]:
    """Opening a series of flags by 36 groups, and a leaf of one row in a hundred."""
    with tempfile.TemporaryDirectory() as folder:
        rows, engine, file = kept(Path(folder))
        reference = grouping(engine, file)
        name = "a series of flags opened / DuckDB's own GROUP BY person, group"
        yield ratio(name, lambda: Book(GROUPS, FLAGS).count(rows, (0, ROWS)), reference, limit=2, repeats=3)
        yield leaf(rows, reference)


def kept(folder: Path) -> tuple[Rows, Engine, Path]:
    """Visits, as a store keeps them: two parts, the second of which is a leaf."""
    drawn = np.random.default_rng(7)
    digests = drawn.bytes(16 * PERSONS)
    whose = drawn.integers(0, PERSONS, ROWS)
    words = np.frombuffer(digests, dtype="V16")[whose]
    person = pa.Array.from_buffers(pa.binary(16), ROWS, [None, pa.py_buffer(words.tobytes())])
    ward = pa.DictionaryArray.from_arrays(drawn.integers(0, 3, ROWS), list(WARDS)).dictionary_decode()
    schema = batch_schema(SCHEMA, persons=True)
    columns = {"ward": ward, "month": pa.array(drawn.integers(1, 13, ROWS)), PERSON: person}
    arrays = [
        columns[each.name.partition(":")[0] if each.name != PERSON else PERSON].cast(each.type) for each in schema
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    engine = Engine(folder)
    rows, file = Rows(SCHEMA, lambda: engine), folder / "all.parquet"
    pq.write_table(table, file, compression="lz4", row_group_size=2**17)
    for number, (start, end) in enumerate(itertools.pairwise((0, ROWS - LEAF, ROWS))):
        part = folder / f"part-{number}.parquet"
        pq.write_table(table.slice(start, end - start), part, compression="lz4", row_group_size=2**17)
        rows.add_file(part, end - start)
    return rows, engine, file


def grouping(engine: Engine, file: Path) -> Action:
    """DuckDB's own pass: the least position of each person and group."""
    names = [each.name for each in batch_schema(SCHEMA, persons=True)]
    by = ", ".join(f'"{name}"' for name in names)
    text = f"SELECT {by}, min(file_row_number) FROM read_parquet($file, file_row_number = true) GROUP BY {by}"

    def run() -> object:
        with engine.cursor() as cursor:
            return cursor.sql(text, params={"file": str(file)}).to_arrow_table().num_rows

    return run


def leaf(rows: Rows, reference: Action) -> Result:
    """The newest rows, by books that have seen the others."""
    times: list[float] = []
    for _ in range(3):
        book = Book(GROUPS, FLAGS)
        book.count(rows, (0, ROWS - LEAF))
        start = time.perf_counter()
        book.count(rows, (ROWS - LEAF, ROWS))
        times.append(time.perf_counter() - start)
    measured = iter([min(times), *times, *times])
    name = "the flags of the newest 1% / the same"
    return ratio(name, lambda: time.sleep(next(measured)), reference, limit=0.1, repeats=3, minimum_seconds=0)
