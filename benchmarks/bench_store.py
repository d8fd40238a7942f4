"""Rows that a vault keeps: appended, counted anew, opened again; against DuckDB over the same rows.

The vault has ten million rows of five columns. A claim "at most 1.5 times the reference, plus 20 ms" is measured with
those milliseconds, divided by the limit, in the reference.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Action, Result, ratio
from treering.domain.attribute import bins, categories, integers
from treering.domain.numeric import numbers
from treering.domain.schema import Schema
from treering.mechanisms.rings import Rings
from treering.rowfile import RowFile
from treering.trusted.memory.database import GrowingDatabase
from treering.vault.vault import Vault

ROWS: Final = 10_000_000
ORIGINS: Final = ("EWR", "JFK", "LGA", "BOS")
CARRIERS: Final = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
SCHEMA: Final = Schema(
    {
        "origin": categories(*ORIGINS),
        "carrier": categories(*CARRIERS),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
        "fare": numbers(0, 2000, step=0.01, edges=[0, 50, 100, 200, 500, 2000]),
    }
)
APPENDS: Final = 10_000


def results() -> Iterator[Result]:
    """Appending, opening a series, its next leaf; many appends; memory; a tiny life."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "flights.parquet"
        pq.write_table(flights(ROWS), file)
        yield appending(folder, file)
        with _vault(folder / "large", share=0.5) as vault:
            vault.append(RowFile(file))
            yield opening(vault, file)
            yield leaf(vault, folder)
    with tempfile.TemporaryDirectory() as name:
        yield from many(Path(name) / "many")
    yield memory()
    yield ratio("a life in memory of 1,000 rows and a question / 10 ms", _life, _waiting(0.01), limit=1)


def flights(rows: int, seed: int = 2013) -> pa.Table:
    """Rows of the schema; one delay in twenty is missing."""
    generator = np.random.default_rng(seed)
    delay = generator.normal(12, 40, rows).clip(-1440, 1440)
    return pa.table(
        {
            "origin": pa.DictionaryArray.from_arrays(generator.integers(0, 4, rows), list(ORIGINS)).dictionary_decode(),
            "carrier": pa.DictionaryArray.from_arrays(
                generator.integers(0, 16, rows), list(CARRIERS)
            ).dictionary_decode(),
            "month": generator.integers(1, 13, rows),
            "delay": pa.array(delay, mask=generator.random(rows) < 0.05),
            "fare": np.round(generator.lognormal(4.5, 0.7, rows), 2),
        }
    )


def appending(folder: Path, file: Path) -> Result:
    """A Parquet file taken in, against DuckDB's own rewriting of it."""
    places = (folder / f"append-{number}" for number in itertools.count())

    def ours() -> None:
        with _vault(next(places)) as vault:
            vault.append(RowFile(file))

    def reference() -> None:
        with duckdb.connect(":memory:", config={"threads": 2}) as connection:
            connection.execute(
                f"COPY (FROM '{file}') TO '{folder / 'copy.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
            )

    return ratio("append 10M rows from Parquet / DuckDB rewriting the file", ours, reference, limit=1.6, repeats=3)


def opening(vault: Vault, file: Path) -> Result:
    """The first question to a new mechanism, against DuckDB's own GROUP BY of the same columns, and 20 ms."""
    numbers = itertools.count()
    connection = duckdb.connect(":memory:", config={"threads": 2})
    limit = 1.5

    def ours() -> None:
        name = vault.add("rings", 0.01, name=f"rings{next(numbers)}")
        if vault.ask("carrier = 'AA' AND month <= 6", mechanism=name).kind != "measured":
            raise AssertionError("a new series was to be opened")

    def reference() -> None:
        connection.execute(f"SELECT carrier = 'AA' AND month <= 6 AS g, count(*) FROM '{file}' GROUP BY g").fetchall()
        time.sleep(0.02 / limit)

    return ratio(
        "opening a series over 10M rows / DuckDB's own GROUP BY + 20 ms", ours, reference, limit=limit, repeats=7
    )


def leaf(vault: Vault, folder: Path) -> Result:
    """The newest 1% counted for a series, against DuckDB's own GROUP BY of those rows, and 10 ms."""
    newest = folder / "newest.parquet"
    pq.write_table(flights(ROWS // 100, 7), newest)
    vault.ask("origin = 'JFK'", mechanism="rings")
    connection = duckdb.connect(":memory:", config={"threads": 2})
    limit, repeats = 3.0, 5
    times: list[float] = []
    for _ in range(repeats):
        vault.append(RowFile(newest))
        start = time.perf_counter()
        vault.ask("origin = 'JFK'", mechanism="rings")
        times.append(time.perf_counter() - start)
    measured = iter([min(times), *times, *times, *times])

    def reference() -> None:
        connection.execute(f"SELECT origin = 'JFK' AS g, count(*) FROM '{newest}' GROUP BY g").fetchall()
        time.sleep(0.01 / limit)

    name = "a leaf of the newest 1% of 10M rows / DuckDB's own GROUP BY + 10 ms"
    return ratio(name, lambda: time.sleep(next(measured)), reference, limit=limit, repeats=repeats, minimum_seconds=0)


def many(place: Path) -> Iterator[Result]:
    """A vault of ten thousand appends: opened, and asked something new, each against a second."""
    batch = flights(APPENDS * 10, 3)
    with _vault(place) as vault:
        for number in range(APPENDS):
            vault.append(batch.slice(10 * number, 10))

    def opened() -> None:
        Vault.open(place).close()

    yield ratio("a vault of 10,000 appends, opened / a second", opened, _waiting(1.0), limit=1, repeats=3)
    asked = itertools.product(range(1, 12), CARRIERS)

    def first() -> None:
        month, carrier = next(asked)
        with Vault.open(place) as vault:
            vault.ask(f"carrier = '{carrier}' AND month <= {month}")

    yield ratio("the same, and its first new question / two seconds", first, _waiting(2.0), limit=1, repeats=3)


def memory() -> Result:
    """The peak of a process that takes in 110 million rows and asks about them, against 500 MB."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.memory_rows"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]).stdout
    seconds = time.perf_counter() - start
    peak = int(said.splitlines()[-1].split()[0].replace(",", "")) * 2**20
    return Result("the memory of 110M rows at its peak / 500 MB", 1, (peak / 500e6,), seconds, seconds)


def _vault(place: Path, share: float = 1.0) -> Vault:
    return Vault.create(place, SCHEMA, epsilon=1000.0, delta=1e-6, share=share)


def _life() -> None:
    db = GrowingDatabase(SCHEMA)
    db.append(_TINY)
    Rings(db, 1.0, 1e-6).ask("origin = 'JFK'")


_TINY: Final = flights(1_000)


def _waiting(seconds: float) -> Action:
    return lambda: time.sleep(seconds)
