"""What a row and a cell cost on each engine: ``PYTHONPATH=tests python -m benchmarks.scale_engines`` prints a table.

Rows are taken in from a Parquet file by DuckDB and by Spark (local mode), and from a table by PostgreSQL, all on this
machine. A row's cost is the slope between two tables of different length with the same few cells; a cell's cost is the
slope between two tables of the same length, one of them with a cell for almost every row. Each time is the best of
three, so that what else the machine does counts least.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from support.engines import histogram, postgres_server
from support.spark import spark_session
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.trusted.engines.source import Source

FEW: Final = 1_000
MANY: Final = 1_000_000
SHORT: Final = 2_000_000
LONG: Final = 10_000_000
NAMES: Final = ("short", "long", "wide")


def schema_of(cells: int) -> Schema:
    """Three attributes, as a table has, whose values make so many cells together."""
    side = round(cells ** (1 / 3))
    return Schema({name: integers(0, side - 1) for name in "abc"})


def rows(length: int, cells: int) -> pa.Table:
    """Rows spread over the cells evenly."""
    generator = np.random.default_rng(12)
    columns = {name: generator.integers(0, each.size, length) for name, each in schema_of(cells).attributes.items()}
    return pa.table({"id": np.arange(length), **columns})


TABLES: Final = {"short": (SHORT, FEW), "long": (LONG, FEW), "wide": (SHORT, MANY)}


@contextmanager
def duckdb_tables(folder: Path) -> Iterator[Callable[[str], Any]]:
    """The files, read by DuckDB."""
    yield lambda name: f"parquet://{folder}/{name}.parquet"


@contextmanager
def postgres_tables(folder: Path) -> Iterator[Callable[[str], Any]]:
    """The same rows in a server started for it."""
    with postgres_server() as server:
        for name in NAMES:
            server.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, a bigint, b bigint, c bigint)")
            sink = pa.BufferOutputStream()
            pc.write_csv(pq.read_table(folder / f"{name}.parquet"), sink, pc.WriteOptions(include_header=False))
            statement = f"COPY {name} FROM STDIN (FORMAT csv)".encode()
            with server.connect() as connection, connection.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(sink.getvalue().to_pybytes())
            server.execute(f"VACUUM ANALYZE {name}")
        yield server.address


@contextmanager
def spark_tables(folder: Path) -> Iterator[Callable[[str], Any]]:
    """The files, read by Spark."""
    with spark_session(folder, **{"spark.driver.memory": "2g"}) as session:
        connection = ibis.pyspark.connect(session)
        yield lambda name: connection.read_parquet(folder / f"{name}.parquet", table_name=name)


def seconds(source: Source) -> tuple[float, int]:
    """The time that all rows take, at best, and the number of cells that they occupy."""
    best, cells = float("inf"), 0
    for _ in range(3):
        start = time.perf_counter()
        cells = len(histogram(source))
        best = min(best, time.perf_counter() - start)
    return best, cells


def main() -> int:
    """Print a line for each engine: what one row and one occupied cell cost, in seconds."""
    print(f"{os.cpu_count()} processors; {SHORT:,} and {LONG:,} rows")
    print(f"{'engine':<12} {'seconds a row':>14} {'rows a second':>14} {'seconds a cell':>15} {'fixed seconds':>14}")
    with TemporaryDirectory() as place:
        folder = Path(place).resolve()
        for name, (length, cells) in TABLES.items():
            pq.write_table(rows(length, cells), folder / f"{name}.parquet")
        for engine, tables in (("DuckDB", duckdb_tables), ("PostgreSQL", postgres_tables), ("Spark", spark_tables)):
            with tables(folder) as table:
                found = {name: seconds(Source.of(table(name), schema_of(cells))) for name, (_, cells) in TABLES.items()}
            (short, few), (long, _), (wide, many) = (found[name] for name in NAMES)
            row, cell = (long - short) / (LONG - SHORT), (wide - short) / (many - few)
            fixed = short - SHORT * row - few * cell
            print(f"{engine:<12} {row:>14.2e} {1 / row:>14,.0f} {cell:>15.2e} {fixed:>14.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
