"""What a row and a group cost on each engine: ``PYTHONPATH=tests python -m benchmarks.scale_engines`` prints a table.

The rows lie in Parquet files read by DuckDB and by Spark (local mode), and in a table of PostgreSQL, all on this
machine. A *refresh* takes rows in: it counts them, and looks at the order column. A new *question* is one GROUP BY over
three columns. What a row costs is the slope between two tables of different length with the same few groups; what a
group costs, the slope between two tables of the same length, one of them with a group for almost every row. Each time
is the best of three, so that what else the machine does counts least.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from support.engines import cells, postgres_server, taken
from support.spark import spark_session
from treering.domain.attribute import integers
from treering.domain.schema import Schema
from treering.trusted.engines.source import Source

FEW: Final = 1_000
MANY: Final = 1_000_000
SHORT: Final = 2_000_000
LONG: Final = 10_000_000
NAMES: Final = ("short", "long", "wide")


def schema_of(groups: int) -> Schema:
    """Three attributes, as a table has, whose values make so many groups together."""
    side = round(groups ** (1 / 3))
    return Schema({name: integers(0, side - 1) for name in "abc"})


def rows(length: int, groups: int) -> pa.Table:
    """Rows spread over the groups evenly."""
    generator = np.random.default_rng(12)
    columns = {name: generator.integers(0, each.size, length) for name, each in schema_of(groups).attributes.items()}
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


class Measured(NamedTuple):
    """The best times for a table: of a refresh that takes all rows in, and of a question about all of them."""

    refresh: float
    question: float
    groups: int


def measured(source: Source) -> Measured:
    """Take all rows in, and count them by three columns, three times."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        rows = taken(source)
        middle = time.perf_counter()
        groups = len(cells(rows))
        found.append(Measured(middle - start, time.perf_counter() - middle, groups))
    return Measured(*map(min, zip(*found, strict=True)))


def main() -> int:
    """Print a line for each engine: what one row and one group cost, in seconds."""
    print(f"{os.cpu_count()} processors; {SHORT:,} and {LONG:,} rows")
    print(f"{'engine':<12} {'refresh, a row':>15} {'question, a row':>16} {'a group':>10} {'fixed':>8}")
    with TemporaryDirectory() as place:
        folder = Path(place).resolve()
        for name, (length, number) in TABLES.items():
            pq.write_table(rows(length, number), folder / f"{name}.parquet")
        for engine, tables in (("DuckDB", duckdb_tables), ("PostgreSQL", postgres_tables), ("Spark", spark_tables)):
            with tables(folder) as table:
                found = {name: measured(Source.of(table(name), schema_of(each))) for name, (_, each) in TABLES.items()}
            short, long, wide = (found[name] for name in NAMES)
            taken_in, row = ((b - a) / (LONG - SHORT) for a, b in ((short[0], long[0]), (short[1], long[1])))
            group = (wide.question - short.question) / (wide.groups - short.groups)
            fixed = short.question - SHORT * row - short.groups * group
            print(f"{engine:<12} {taken_in:>15.2e} {row:>16.2e} {group:>10.2e} {fixed:>8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
